"""Files, folders and programs, in whatever languages, to one Program Structure Graph.

>>> import tempfile, pathlib
>>> script = pathlib.Path(tempfile.mkdtemp(), "train.py")
>>> _ = script.write_text("import torch.distributed as dist\\nfor step in range(3):\\n    dist.barrier()\\n")
>>> [vertex.kind.value for vertex in build_psg([script]).walk()]
['root', 'function', 'comp', 'loop', 'comm']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial

from scalana.frontend.cpp.build import Cpp
from scalana.frontend.front_end import UNSPECIFIED, FrontEnd, Options
from scalana.frontend.linker import Linker
from scalana.frontend.python.build import Python
from scalana.graphs.structure.psg import PSG
from scalana.graphs.structure.source_tree import FileStructure

FRONT_ENDS: tuple[Callable[[Options], FrontEnd], ...] = (Cpp, Python)
"""All front ends. A file goes to the first that takes it; Python takes any, for its scripts need no ending."""


def front_ends(options: Options = UNSPECIFIED) -> list[FrontEnd]:
    """One of each front end, which have read nothing."""
    return [make(options) for make in FRONT_ENDS]


def build_psg(
    paths: Sequence[str | os.PathLike[str]],
    options: Options = UNSPECIFIED,
    *,
    using: Sequence[FrontEnd] | None = None,
    uncalled: bool = True,
    budget: int = 200_000,
    depth: int = 40,
) -> PSG:
    """The graph of the programs in files, folders and executables.

    Modules of Python, and ``main`` of C and C++, are functions below the root; what they call is inlined, across files,
    as far as names can be resolved. Nothing is executed but compilers, to ask for their headers. What cannot be read is
    a warning in :attr:`PSG.warnings`.

    Args:
        paths: sources; folders that hold such; programs and shared libraries with debug information.
        options: for all front ends, where ``using`` does not give these.
        using: front ends that have read nothing; they may parse further files afterwards (:func:`parse`).
        uncalled: whether functions that nothing in these files calls are shown too, below the root.
        budget: vertices beyond which calls are not expanded any more.
        depth: functions inside each other beyond which they are not.
    """
    using = front_ends(options) if using is None else using
    psg = PSG(" ".join(os.fspath(path) for path in paths))
    groups = _grouped([os.path.abspath(path) for path in paths], using, psg.warnings)
    for front_end, own in groups:
        front_end.read(own)
    linker = Linker(psg, using, depth=depth)
    for number, (front_end, _) in enumerate(groups):
        # What one language leaves of its share the others may have.
        linker.budget = len(psg) + (budget - len(psg)) // (len(groups) - number)
        for target in front_end.entries(linker):
            linker.add(target)
    linker.budget = budget
    for front_end, _ in groups if uncalled else ():
        front_end.add_uncalled(linker)
    psg.warnings += [warning for front_end in using for warning in front_end.warnings if warning not in psg.warnings]
    return psg


def parse(using: Sequence[FrontEnd], file: str) -> FileStructure | None:
    """The structure of one more file, by the front end whose it is; None if there is none to be had."""
    for front_end in using:
        if front_end.parses(file):
            return front_end.parse(file)
    return None


def structure_of_run(
    lacking: list[str], programs: Sequence[str], lib_dirs: Sequence[str], seen: Collection[str]
) -> tuple[PSG, Callable[[str], FileStructure | None]]:
    """The static structure of what a run executed, and a parser for the files that samples lead to. What programs lack
    for it, as their sources, is added to ``lacking``."""
    using = front_ends(Options(lib_dirs=lib_dirs, seen=seen))
    psg = build_psg(programs, using=using, uncalled=False)  # what is not called by name is added where samples show it
    lacking += [warning for front_end in using for warning in front_end.lacking]
    return psg, partial(parse, using)


def _grouped(paths: Sequence[str], using: Sequence[FrontEnd], warnings: list[str]) -> list[tuple[FrontEnd, list[str]]]:
    """Front ends with the paths that each is to read, in the order of the paths."""
    groups: dict[int, list[str]] = {}
    for path in paths:
        takers = [number for number, front_end in enumerate(using) if front_end.takes(path)]
        if not os.path.isdir(path):
            takers = takers[:1] or [len(using) - 1]  # who says what is wrong with it
        elif not takers:
            *names, last = (name for front_end in using for name in front_end.languages)
            warnings.append(f"{path}: no {', '.join(names)}{' or ' * bool(names)}{last} files in this folder")
        for number in takers:
            groups.setdefault(number, []).append(path)
    return [(using[number], own) for number, own in groups.items()]
