"""OpenMP directives, found in the text.

libclang shows the directive of a region but not the statement that belongs to it, so the sources are parsed without
OpenMP (the loops below a directive are then ordinary ones) and directives are found here and joined by position.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+((?:[^\\\n]|\\.|\\\r?\n)*)", re.MULTILINE)
_OPERATOR = re.compile(rb'^[^\n"]*?_Pragma[ \t]*\([ \t]*"[ \t]*omp[ \t]+([^"\n]*)"', re.MULTILINE)
_WORDS = frozenset(
    "parallel for simd sections section single master masked critical task taskloop target teams distribute loop "
    "ordered taskgroup scope atomic barrier taskwait taskyield flush cancel declare threadprivate end update "
    "data".split()
)
LOOPS = frozenset({"for", "simd", "taskloop", "distribute", "loop"})
"""Words of directives that belong to a loop."""
REGIONS = frozenset({"parallel", "teams", "target", "sections"})
"""Words of directives whose statement several threads run."""
ARMS = frozenset({"single", "master", "masked", "critical", "section", "task", "ordered"})
"""Words of directives whose statement is run by one thread, or once."""
_ALONE = frozenset({"barrier", "taskwait", "taskyield", "flush", "cancel", "declare", "threadprivate", "end", "update"})


@dataclass(frozen=True, slots=True)
class Pragma:
    """A directive that belongs to the statement behind it."""

    line: int
    end_line: int
    column: int
    """Of its ``#``, from 0."""
    words: frozenset[str]
    text: str
    """In one line, without clauses."""


def omp_pragmas(source: bytes) -> list[Pragma]:
    """The directives of a file that belong to a statement, in order."""
    if b"omp" not in source:
        return []
    found: list[Pragma] = []
    for expression in (_PRAGMA, _OPERATOR):
        for match in expression.finditer(source):
            words: list[str] = []
            body = match.group(1).decode("utf-8", "replace").replace("\\\r\n", " ").replace("\\\n", " ")
            for word in re.findall(r"[a-z_]+|[(,]", body):
                if word not in _WORDS:
                    break
                words.append(word)
            if not words or _ALONE.intersection(words) or words == ["target", "data"] or "atomic" in words:
                continue
            start = match.start() + len(match.group(0)) - len(match.group(0).lstrip())
            line = source.count(b"\n", 0, start) + 1
            column = start - (source.rfind(b"\n", 0, start) + 1)
            end = line + match.group(0).lstrip().count(b"\n")
            found.append(Pragma(line, end, column, frozenset(words), "#pragma omp " + " ".join(words)))
    return sorted(found, key=lambda pragma: (pragma.line, pragma.column))


def between(pragmas: list[Pragma], after: int, before: int) -> list[Pragma]:
    """Those that begin in or after the line ``after`` and end before the line ``before``."""
    start = bisect_left(pragmas, after, key=lambda pragma: pragma.line)
    found = []
    for pragma in pragmas[start:]:
        if pragma.end_line >= before:
            break
        found.append(pragma)
    return found
