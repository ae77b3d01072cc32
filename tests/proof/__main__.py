"""Measures figures, keeps the results, and writes docs/proof.md.

    python -m tests.proof [NAME ...] [--gpu] [--anyway]
    python -m tests.proof --page       writes docs/proof.md from the results that are kept
    python -m tests.proof --list       lists the rows

NAME is the name of a row or a pattern (``accuracy-*``); several may stand in one word, with commas between them.
"""

from __future__ import annotations

import argparse
import sys

from . import document, results
from .rows import Bar
from .running import Asked, measure_all
from .table import ROWS


def say(text: str) -> None:
    """Print at once: a command may take an hour."""
    print(text, flush=True)


def measure(asked: Asked) -> int:
    """Measure, and write after each row: what was measured stays if the rest is interrupted."""
    missed = 0
    try:
        for row, result in measure_all(ROWS, asked, say):
            kept = results.load() | {row.name: result}
            results.save(kept, ROWS)
            document.write(kept)
            held = document.state(row, result).strip("*")
            missed += held != "yes"
            say(f"  {row.name}: {document.measured(row, result)}, claimed {Bar.parse(row.bar).words()}: {held}")
    except ValueError as error:
        sys.exit(str(error))
    return 1 if missed else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--gpu", action="store_true", help="the rows that need a GPU")
    parser.add_argument("--anyway", action="store_true", help="also rows that need a quiet machine, on a busy one")
    parser.add_argument("--page", action="store_true", help="write the document alone")
    parser.add_argument("--list", action="store_true", help="list the rows")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{row.name:36} {row.claim}" for row in ROWS))
        return 0
    if options.page:
        results.save(results.load(), ROWS)
        document.write(results.load())
        return 0
    names = tuple(name for word in options.names for name in word.split(",") if name)
    return measure(Asked(names, options.gpu, options.anyway))


if __name__ == "__main__":
    sys.exit(main())
