"""The text of source files beside their syntax trees: heads of loops, directives, operators."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from scalana.frontend.cpp.source.clang import end_of, handle_of, start_of
from scalana.frontend.cpp.source.pragmas import Pragma, between, omp_pragmas
from scalana.graphs.structure.psg import Place

if TYPE_CHECKING:
    from clang.cindex import Cursor, File

NAME_LENGTH = 72
"""Longest text of a place's name, in characters."""


_NO_CAPTURE = re.compile(rb"\[(\s|/\*.*?\*/)*\]", re.DOTALL)
"""How a lambda begins that captures nothing."""


class Text:
    """One file."""

    def __init__(self, data: bytes) -> None:
        self.lines = data.split(b"\n")
        self.data = data
        self.pragmas: list[Pragma] = []

    def head(self, line: int, column: int, end_line: int = 0, end_column: int = 0) -> str:
        """Text from a position (line from 1, column from 0) to the end of the line or to another position in it."""
        if not 0 < line <= len(self.lines):
            return ""
        raw = self.lines[line - 1]
        raw = raw[column:end_column] if end_line == line and end_column > column else raw[column:]
        text = raw.decode("utf-8", "replace").strip().rstrip("{;").rstrip()
        return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 3] + "..."

    def slice(self, start: int, end: int) -> bytes:
        """Bytes from one offset to another, for operators: at most 64."""
        return self.data[start : min(end, start + 64)] if 0 <= start < end else b""


class Texts:
    """Reads files, each once.

    Args:
        directory: in which relative names of files are meant.
        openmp: whether directives of OpenMP count.
        skipped: gives the spans of lines of a file that the preprocessor left out.
    """

    def __init__(self, directory: str, openmp: bool, skipped: Callable[[str], list[tuple[int, int]]]) -> None:
        self.directory = directory
        self.openmp = openmp
        self.skipped = skipped
        self._texts: dict[str, Text] = {}
        self._paths: dict[str, str] = {}
        self._handles: dict[int, str] = {}

    def path(self, name: str) -> str:
        """Absolute path of a file that the compiler names."""
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = os.path.normpath(os.path.join(self.directory, name))
        return path

    def path_of(self, file: File) -> str:
        """Absolute path of a file of the translation unit."""
        handle = handle_of(file)
        path = self._handles.get(handle)
        if path is None:
            path = self._handles[handle] = self.path(file.name)
        return path

    def __getitem__(self, path: str) -> Text:
        """The text of a file by its absolute path; empty where it cannot be read."""
        text = self._texts.get(path)
        if text is None:
            try:
                with open(path, "rb") as file:
                    text = Text(file.read())
            except OSError:
                text = Text(b"")
            if self.openmp:
                left_out = self.skipped(path) if b"omp" in text.data else []
                text.pragmas = [
                    pragma
                    for pragma in omp_pragmas(text.data)
                    if not any(first <= pragma.line <= last for first, last in left_out)
                ]
            self._texts[path] = text
        return text

    def place(self, cursor: Cursor, name: str = "", end: Cursor | None = None) -> Place:
        """The span of a cursor, or from its start to the end of another one."""
        start = start_of(cursor)
        last = end_of(cursor if end is None else end)
        file = self.path_of(start.file) if start.file is not None else ""
        end_line = max(last.line, start.line)
        return Place(file, start.line, end_line, start.column - 1, name, last.column - 1)

    def named(self, cursor: Cursor, end: Cursor | None = None, head: Cursor | None = None) -> Place:
        """Like :meth:`place`, with the text of its first line as name; up to where ``head`` begins, if given."""
        bare = self.place(cursor, "", end)
        text = self[bare.file]
        stop = start_of(head) if head is not None else None
        if stop is not None and (stop.line, stop.column - 1) > (bare.line, bare.column):
            name = text.head(bare.line, bare.column, stop.line, stop.column - 1)
        else:  # also of what a macro makes, where all begins at the macro's name
            name = text.head(bare.line, bare.column, bare.end_line, bare.end_column)
        return Place(bare.file, bare.line, bare.end_line, bare.column, name, bare.end_column)

    def before(self, statement: Cursor, after_line: int) -> list[Pragma]:
        """Directives that stand directly before a statement, behind ``after_line``."""
        if not self.openmp:
            return []
        start = start_of(statement)
        if start.file is None:
            return []
        pragmas = self[self.path_of(start.file)].pragmas
        return between(pragmas, after_line, start.line) if pragmas else []

    def gap(self, left: Cursor, right: Cursor) -> bytes:
        """What stands between two expressions (an operator), without blanks."""
        end = end_of(left)
        if end.file is None:
            return b""
        return self[self.path_of(end.file)].slice(end.offset, start_of(right).offset).strip()

    def first(self, cursor: Cursor) -> bytes:
        """The first two bytes of an expression."""
        start = start_of(cursor)
        return self[self.path_of(start.file)].slice(start.offset, start.offset + 2) if start.file else b""

    def captures(self, cursor: Cursor) -> bool:
        """Whether a lambda captures, or may by ``[=]`` or ``[&]``; one that a macro makes counts as not."""
        start = start_of(cursor)
        text = self[self.path_of(start.file)].slice(start.offset, start.offset + 64) if start.file else b""
        return text.startswith(b"[") and _NO_CAPTURE.match(text) is None

    def last(self, cursor: Cursor) -> bytes:
        """The last two bytes of an expression."""
        end = end_of(cursor)
        return self[self.path_of(end.file)].slice(end.offset - 2, end.offset) if end.file else b""
