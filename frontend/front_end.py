"""What a front end is: it takes some kinds of files, reads the programs in them, and knows what their calls lead to.

The table of all of them is :data:`scalana.frontend.build.FRONT_ENDS`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from scalana.frontend.linker import Linker, Names
from scalana.graphs.structure.source_tree import FileStructure, Target

SKIPPED = frozenset(
    "__pycache__ .git .hg .svn .tox .venv venv node_modules site-packages dist-packages CMakeFiles".split()
)
"""Folders that are not looked into unless they are asked for by name."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may matter for how programs are read; each front end takes what concerns it."""

    flags: Sequence[str] | None = None
    """Of the compiler, for all C and C++ sources; None to find out."""
    drivers: Sequence[str] = ()
    """Patterns of compilers that may be asked where a compilation database names them, beyond those on PATH."""
    search: Sequence[str | os.PathLike[str]] = ()
    """Folders in which absolute imports of Python are looked up, after those of the files and the working directory."""
    lib_dirs: Sequence[str] | None = None
    """Folders of code that is not the user's; None for those of this interpreter."""
    seen: Collection[str] | None = None
    """Files that a run was seen in, None for all: of large programs the rest may be left out."""


UNSPECIFIED = Options()


class FrontEnd(Names, Protocol):
    """Reads programs in one language, or a few that belong together. What it has read stays with it."""

    languages: Sequence[str]
    """Names of what it reads."""
    warnings: list[str]
    """What it could not read, one sentence each."""
    lacking: list[str]
    """Of the warnings those that belong into the report of a run."""

    def takes(self, path: str) -> bool:
        """Whether it is in charge of a file or program, or finds something to read in a folder."""

    def read(self, paths: Sequence[str]) -> None:
        """Read programs, given by absolute paths: files, and folders of such. Called once."""

    def entries(self, linker: Linker) -> Iterable[Target]:
        """What nothing calls and runs all the same, in the order in which it runs: modules, ``main``."""

    def add_uncalled(self, linker: Linker) -> None:
        """Add the functions that nothing has called so far."""

    def parses(self, file: str) -> bool:
        """Whether a file in which a run was seen is one of its own."""

    def parse(self, file: str) -> FileStructure | None:
        """The structure of such a file; None, and maybe a warning, if there is none to be had."""


def files_below(folder: str, endings: Collection[str]) -> Iterator[str]:
    """The files below a folder with one of some endings, sorted by folder; hidden folders, environments, caches and
    those of build systems are left out."""
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(base, name)
            if os.path.splitext(name)[1] in endings and not stat.S_ISFIFO(_mode(path)):  # to open one may take forever
                yield path


def _mode(path: str) -> int:
    """What kind of file it is; of one that cannot be asked about, no kind."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0
