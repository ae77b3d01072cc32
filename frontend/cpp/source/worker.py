"""Parses translation units, in a process of its own: libclang may crash on a source, and parses run side by side.

Reads jobs from the standard input, one JSON object a line, and answers each by a line.
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from scalana.frontend.cpp.source import clang, mpi_header
from scalana.frontend.cpp.unit import Unit, encode

if TYPE_CHECKING:
    from clang.cindex import TranslationUnit

_UNKNOWN = re.compile(r"use of undeclared identifier '([A-Z_][A-Z0-9_]*)'")
MOST_ROUNDS = 3
"""Parses in which macros are looked for that the compiler was given, each of which may uncover more of them."""


def parse(
    file: str, arguments: Sequence[str], directory: str, openmp: bool, only: Collection[str] | None = None
) -> Unit:
    """What one translation unit holds, of functions those in some files if these are given. A source that cannot be
    parsed at all is a warning in an empty unit.

    Raises:
        ClangMissing: there is no libclang.
    """
    from scalana.frontend.cpp.source.reader import Reader

    cindex = clang.bindings()
    started = time.perf_counter()
    options = clang.KEEP_GOING | (clang.DETAILED_RECORD if openmp else 0)
    header = [(mpi_header.PATH, mpi_header.text())]

    def parsed_with(macros: Sequence[str]) -> TranslationUnit:
        args = [*arguments, *(f"-D{name}=1" for name in macros)]
        found: TranslationUnit = cindex.Index.create().parse(file, args=args, unsaved_files=header, options=options)
        return found

    try:
        with open(file, "rb"):
            pass
        parsed, assumed = with_unknown_macros(parsed_with)
    except OSError as error:
        return Unit(file, warnings=[f"{file}: cannot be read: {error.strerror or error}"], complete=False)
    except cindex.TranslationUnitLoadError:
        return Unit(file, warnings=[f"{file}: cannot be parsed with {' '.join(arguments)}"], complete=False)
    unit = Reader(parsed, file, directory, openmp, only).read()
    if assumed:
        unit.warnings.append(f"{file}: undefined, assumed to be 1: {', '.join(assumed)}")
    unit.seconds = time.perf_counter() - started
    return unit


def with_unknown_macros(parsed_with: Callable[[Sequence[str]], TranslationUnit]) -> tuple[TranslationUnit, list[str]]:
    """The translation unit, with macros defined that its code needs, if that leaves fewer errors; and their names.

    Compilers do not write down which macros they were given (``-DRADIUS=2``), and of C that is not whole, libclang
    leaves out the whole statement: a loop with such a bound, or a call. Which number it is, no structure depends on.
    """
    parsed, macros = parsed_with(()), list[str]()
    for _ in range(MOST_ROUNDS):
        errors = [each.spelling for each in parsed.diagnostics if each.severity >= 3]
        more = dict.fromkeys(match[1] for match in map(_UNKNOWN.fullmatch, errors) if match)
        again = parsed_with([*macros, *more]) if more else None
        if again is None or sum(each.severity >= 3 for each in again.diagnostics) >= len(errors):
            break
        parsed, macros = again, [*macros, *more]
    return parsed, macros


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The encoded unit for a job; an error of ours is a warning in it."""
    try:
        sys.setrecursionlimit(20_000)
        return encode(parse(job["file"], job["arguments"], job["directory"], job["openmp"], job["only"]))
    except clang.ClangMissing as error:
        return {"missing": str(error)}
    except Exception as error:  # one source must not cost the others
        message = f"{job['file']}: cannot be read: {type(error).__name__}: {error}"
        return encode(Unit(job["file"], warnings=[message], complete=False))


def main() -> None:
    """Serve until the input ends."""
    # A unit is a large number of objects that stay until it is done: looking for garbage in between finds none.
    gc.disable()
    # libclang and what it calls may print: the answers have a descriptor of their own.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            answers.write(json.dumps(answer(json.loads(line))) + "\n")
            answers.flush()
            gc.collect()


if __name__ == "__main__":
    main()
