"""Parses translation units, in a process of its own: libclang may crash on a source, and parses run side by side.

Reads jobs from the standard input, one JSON object a line, and answers each by a line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from scalana.frontend.cpp import clang, mpi_header
from scalana.frontend.cpp.unit import Unit, encode


def parse(file: str, arguments: Sequence[str], directory: str, openmp: bool) -> Unit:
    """What one translation unit holds. A source that cannot be parsed at all is a warning in an empty unit.

    Raises:
        ClangMissing: there is no libclang.
    """
    from scalana.frontend.cpp.reader import Reader

    cindex = clang.bindings()
    started = time.perf_counter()
    options = clang.KEEP_GOING | (clang.DETAILED_RECORD if openmp else 0)
    try:
        with open(file, "rb"):
            pass
        parsed = cindex.Index.create().parse(
            file, args=list(arguments), unsaved_files=[(mpi_header.PATH, mpi_header.text())], options=options
        )
    except OSError as error:
        return Unit(file, warnings=[f"{file}: cannot be read: {error.strerror or error}"], complete=False)
    except cindex.TranslationUnitLoadError:
        return Unit(file, warnings=[f"{file}: cannot be parsed with {' '.join(arguments)}"], complete=False)
    unit = Reader(parsed, file, directory, openmp).read()
    unit.seconds = time.perf_counter() - started
    return unit


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The encoded unit for a job; an error of ours is a warning in it."""
    try:
        sys.setrecursionlimit(20_000)
        return encode(parse(job["file"], job["arguments"], job["directory"], job["openmp"]))
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
