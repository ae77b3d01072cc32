"""Python files and folders of them: what they hold, and what their calls lead to."""

from __future__ import annotations

import ast
import os
import site
import sys
import sysconfig
from collections.abc import Hashable, Iterable, Sequence

from scalana.frontend.front_end import UNSPECIFIED, Options, files_below
from scalana.frontend.linker import Linker
from scalana.frontend.python.modules import Modules
from scalana.frontend.python.resolve import Resolver
from scalana.frontend.python.source import SourceError, parse_python
from scalana.graphs.structure.source_tree import Decision, FileStructure, FunctionStructure, Node, Target

ENDINGS = frozenset({".py", ".pyw"})
"""Of the files that are looked for in folders."""


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


class Python:
    """The front end for Python.

    Args:
        options: where imports are looked up, and what is not the user's code.
        sources: what has parsed files before, and will parse those in which samples land.
    """

    languages: Sequence[str] = ("Python",)

    def __init__(self, options: Options = UNSPECIFIED, sources: Sources | None = None) -> None:
        self.options = options
        self.sources = Sources() if sources is None else sources
        self.warnings = self.sources.warnings
        self.lacking: list[str] = []
        self._resolver: Resolver | None = None
        self._loaded: list[FileStructure] = []

    def takes(self, path: str) -> bool:
        """Whether a path is a file, of whatever name, or a folder with Python files."""
        return not os.path.isdir(path) or any(True for _ in files_below(path, ENDINGS))

    def read(self, paths: Sequence[str]) -> None:
        """Read files, with any ending, and folders that hold ``*.py``; what they import follows when it is needed."""
        files: dict[str, None] = {}
        own: list[str] = []
        for path in paths:
            if os.path.isdir(path):
                own.append(path + os.sep)
                files.update(dict.fromkeys(files_below(path, ENDINGS)))
            else:
                files[path] = None
        libraries = library_folders() if self.options.lib_dirs is None else list(self.options.lib_dirs)

        def is_own(file: str) -> bool:
            return file in files or file.startswith(tuple(own)) or not is_library(file, libraries)

        modules = Modules(self.sources.parse, _roots(files, self.options.search), is_own)
        self._resolver = Resolver(modules)
        loaded = [module.structure for module in map(modules.load, files) if module is not None]
        self._loaded = [structure for structure in loaded if structure is not None]

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        """What a call site in a function is, in a context; None if it is in no Python."""
        return self._resolver.decide(function, context, node) if self._resolver is not None else None

    def entries(self, linker: Linker) -> Iterable[Target]:
        """The files' own code."""
        return [self._target(structure.module) for structure in self._loaded]

    def add_uncalled(self, linker: Linker) -> None:
        """Add functions that nothing has called, those first that no other one of them calls, and those last that stand
        in others: hooks and callbacks, which a library is given."""
        left = [
            function
            for structure in self._loaded
            for function in structure.functions
            if function not in linker.called and isinstance(function.source, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        called: set[FunctionStructure] = set()
        for function in left:
            stack = list(linker.body(self._target(function)).nodes)
            while stack:
                node = stack.pop()
                called.update(target.function for target in node.targets if target.function is not function)
                stack.extend(node.children)
        for function in sorted(left, key=lambda f: (f.place.name.count("<locals>"), f in called)):
            if function not in linker.called:
                # One of them must not use up the budget of all.
                share = max((linker.budget - len(linker.psg)) // 4, 500)
                linker.add(self._target(function), share=share)

    def parses(self, file: str) -> bool:
        """Whether a file may be Python: it has not the name of a compiled one."""
        return not file.endswith((".so", ".pyd", ".pyc"))

    def parse(self, file: str) -> FileStructure | None:
        """The structure of a file; None, and a warning, if there is none to be had."""
        return self.sources.parse(file)

    def _target(self, function: FunctionStructure) -> Target:
        return Target(function, self._resolver.entry(function) if self._resolver is not None else None)


def _roots(files: Iterable[str], search: Sequence[str | os.PathLike[str]]) -> list[str]:
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
