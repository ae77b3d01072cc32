"""Tries random programs, and says how often and how well the report is right.

    python -m tests.arena 1:200 [--balanced] [--busy 2] [--mpi FOLDER] [--format markdown|json] [--keep FOLDER]

Every seed is a program: phases, patterns of communication, helpers of some depth that phases may share, loops in loops,
one to four processes of MPI or torch, threads; and a fault of some kind and size at some place. The program measures
with its own clock how long its fault takes; the report has to name that line and these ranks first, with these seconds.
``--balanced`` tries the same programs without their faults, and ``--busy`` has other programs want the cores meanwhile.
A program whose report is wrong is kept with its record.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .draw import drawn
from .table import json_of, markdown_of
from .trial import Failed, Outcome, busy_programs, judged, recorded


def seeds_of(text: str) -> range:
    """``5`` or ``1:200``, both ends included."""
    first, _, last = text.partition(":")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not seeds: {text!r}; write 5 or 1:200") from None


def run(seeds: Sequence[int], balanced: bool, mpi: str, keep: Path, again: bool = False) -> list[Outcome]:
    """Try programs one after the other, and print each to standard error. A job that fails ends all."""
    outcomes = []
    for seed in seeds:
        program = drawn(seed, balanced)
        folder = keep / f"{seed}{'-balanced' * balanced}"
        if not again:
            shutil.rmtree(folder, ignore_errors=True)
            recorded(program, folder, mpi)
        elif not (folder / "truth.json").exists():
            continue
        outcome = judged(program, folder)
        outcomes.append(outcome)
        print(f"{seed} {'right' if outcome.right else 'WRONG'}: {outcome.as_json()}", file=sys.stderr, flush=True)
        if outcome.right and not again:
            shutil.rmtree(folder)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.arena", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seeds", type=seeds_of, help="such as 5 or 1:200")
    parser.add_argument("--balanced", action="store_true", help="the same programs without their faults")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="other programs that want a core all the time")
    parser.add_argument("--mpi", default=os.environ.get("SCALANA_TEST_MPI", "").partition(":")[0], metavar="FOLDER")
    parser.add_argument("--keep", type=Path, default=Path("build/arena"), metavar="FOLDER")
    parser.add_argument("--again", action="store_true", help="judge what is kept again, and record nothing")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    args = parser.parse_args()
    try:
        with busy_programs(args.busy):
            outcomes = run(args.seeds, args.balanced, args.mpi, args.keep, args.again)
    except Failed as failure:
        print(f"a job failed: {failure}", file=sys.stderr)
        return 1
    print(json_of(outcomes) if args.format == "json" else markdown_of(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
