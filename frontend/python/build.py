"""Files and folders to a Program Structure Graph.

>>> import tempfile, pathlib
>>> script = pathlib.Path(tempfile.mkdtemp(), "train.py")
>>> _ = script.write_text("import torch.distributed as dist\\nfor step in range(3):\\n    dist.barrier()\\n")
>>> [vertex.kind.value for vertex in build_psg([script]).walk()]
['root', 'function', 'comp', 'loop', 'comm']
"""

from __future__ import annotations

import ast
import os
import site
import stat
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from scalana.frontend.linker import Linker
from scalana.frontend.python.modules import Modules
from scalana.frontend.python.resolve import Resolver
from scalana.frontend.python.source import SourceError, parse_python
from scalana.graphs.structure.psg import PSG
from scalana.graphs.structure.source_tree import FileStructure, FunctionStructure, Target

SKIPPED = frozenset({"__pycache__", ".git", ".hg", ".tox", ".venv", "venv", "node_modules", "site-packages"})
"""Folders that are not looked into unless they are asked for by name."""


class Sources:
    """Parses files, each once and when it is asked for."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        """One sentence for each file that could not be used, with its name."""
        self._files: dict[str, FileStructure | None] = {}

    def parse(self, file: str) -> FileStructure | None:
        """The structure of a file; None, and a warning, if there is none to be had."""
        if file not in self._files:
            self._files[file] = None
            if file.endswith((".so", ".pyd", ".pyc")):
                return None
            try:
                self._files[file] = parse_python(file)
            except SourceError as error:
                self.warnings.append(str(error))
        return self._files[file]


def library_folders() -> list[str]:
    """Where this interpreter keeps code that is not the user's: standard library and installed packages."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(getattr(site, "getsitepackages", list)())
    return sorted(folder for folder in folders if folder)


def is_library(file: str, folders: Iterable[str]) -> bool:
    """Whether a file lies in one of the folders, or in any ``site-packages``."""
    if f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file:
        return True
    return any(file.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def python_files(folder: str) -> list[str]:
    """The Python files below a folder, sorted; hidden folders, environments and caches are left out."""
    found: list[str] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        paths = (os.path.join(base, name) for name in sorted(files) if name.endswith((".py", ".pyw")))
        found.extend(path for path in paths if not stat.S_ISFIFO(_mode(path)))  # to open one may take forever
    return found


def _mode(path: str) -> int:
    """What kind of file it is; of one that cannot be asked about, no kind."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def build_psg(
    paths: Sequence[str | Path],
    *,
    search: Sequence[str | Path] = (),
    sources: Sources | None = None,
    lib_dirs: Sequence[str] | None = None,
    uncalled: bool = True,
    budget: int = 200_000,
    depth: int = 40,
) -> PSG:
    """The graph of the programs in files and folders.

    Every file's module is a function below the root; what it calls is inlined, across files, as far as names can be
    resolved. Nothing is executed. What cannot be read is a warning in :attr:`PSG.warnings`.

    Args:
        paths: files (with any ending), or folders that hold ``*.py``.
        search: folders in which absolute imports are looked up, after those of the files and the working directory.
        sources: what has parsed files before, and will parse those in which samples land.
        lib_dirs: folders of code that is not the user's; by default this interpreter's.
        uncalled: whether functions that nothing in these files calls are shown too, below the root.
        budget: vertices beyond which calls are not expanded any more.
        depth: functions inside each other beyond which they are not.
    """
    sources = Sources() if sources is None else sources
    psg = PSG(" ".join(os.fspath(path) for path in paths))
    already = len(sources.warnings)
    files: dict[str, None] = {}
    own: list[str] = []
    for path in paths:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            own.append(absolute + os.sep)
            found = python_files(absolute)
            if not found:
                psg.warnings.append(f"{absolute}: no Python files in this folder")
            files.update(dict.fromkeys(found))
        else:
            files[absolute] = None
    libraries = library_folders() if lib_dirs is None else list(lib_dirs)

    def is_own(file: str) -> bool:
        return file in files or file.startswith(tuple(own)) or not is_library(file, libraries)

    modules = Modules(sources.parse, _roots(files, search), is_own)
    resolver = Resolver(modules)
    linker = Linker(psg, resolver, budget=budget, depth=depth)
    loaded = [module.structure for module in map(modules.load, files) if module is not None]
    for structure in loaded:
        if structure is not None:
            linker.add(Target(structure.module, resolver.entry(structure.module)))
    if uncalled:
        _add_uncalled(linker, resolver, [structure for structure in loaded if structure is not None])
    psg.warnings.extend(sources.warnings[already:])
    return psg


def _add_uncalled(linker: Linker, resolver: Resolver, structures: list[FileStructure]) -> None:
    """Add functions that nothing has called, those first that no other one of them calls."""
    left = [
        function
        for structure in structures
        for function in structure.functions
        if function not in linker.called
        and isinstance(function.source, (ast.FunctionDef, ast.AsyncFunctionDef))
        and "<locals>" not in function.place.name
    ]
    called: set[FunctionStructure] = set()
    for function in left:
        body = linker.body(Target(function, resolver.entry(function)))
        stack = list(body.nodes)
        while stack:
            node = stack.pop()
            called.update(target.function for target in node.targets if target.function is not function)
            stack.extend(node.children)
    for function in sorted(left, key=lambda function: function in called):
        if function not in linker.called:
            share = max((linker.budget - len(linker.psg)) // 4, 500)  # one of them must not use up the budget of all
            linker.add(Target(function, resolver.entry(function)), share=share)


def _roots(files: Iterable[str], search: Sequence[str | Path]) -> list[str]:
    """Where absolute imports are looked up: beside the files, above their packages, here, and where asked."""
    roots: dict[str, None] = {}
    for file in files:
        folder = os.path.dirname(file)
        roots[folder] = None
        while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        roots[folder] = None
    roots[os.getcwd()] = None
    roots.update(dict.fromkeys(os.path.abspath(path) for path in search))
    prefixes = {sys.prefix, sys.base_prefix}
    return [root for root in roots if root not in prefixes]
