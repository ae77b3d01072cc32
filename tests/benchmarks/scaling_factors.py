"""POP's scaling table of three MPI programs by their own clocks, by scalana and by TALP.

Run: ``python tests/benchmarks/scaling_factors.py MPICC [--talp LIBDLB_MPI.so] [--rounds N] [--seconds S]``. The
programs (``miniapps.c``) divide the same work among 1, 2, 4 and 8 ranks, under the tools in turns. Each tool is
compared with the clock of the program in the same runs: ``efficiencies.py`` says why. The table has the median of all
rounds. The last lines say by how much each tool is off at most, and at how many sizes both are off alike, to one point.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import efficiencies  # noqa: E402
from tests.benchmarks.mpi_overhead import mpirun  # noqa: E402

PROGRAMS = ("stencil", "sweep", "gradient")
SIZES = (1, 2, 4, 8)
FACTORS = ("global", "computation", "parallel", "load balance", "communication")

Column = tuple[float, ...]
"""The factors of one size, in the order of :data:`FACTORS`."""
Tables = tuple[list[Column], list[Column]]
"""By the clock of the program and by a tool, of the same runs ``[sizes]``."""
Launch = Callable[[int], list[str]]
"""The words that run a program on some ranks."""


def scaled(found: Sequence[tuple[float, ...]]) -> list[Column]:
    """The table, from three factors and the seconds outside of calls on all ranks ``[sizes]``, the smallest first."""
    by_size = []
    for parallel, balance, communication, outside_s in found:
        computation = found[0][-1] / outside_s
        by_size.append((parallel * computation, computation, parallel, balance, communication))
    return by_size


def by_scalana(launch: Launch, folder: Path) -> Tables:
    """What ``scalana scaling`` says of a run of each size."""
    own, folders = [], [str(folder / f"scalana-{size}") for size in SIZES]
    for size, one in zip(SIZES, folders, strict=True):
        record = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", one, "--"]
        own.append(efficiencies.run([*record, *launch(size)]))
    command = [sys.executable, "-m", "scalana", "scaling", "--scaling", "strong", "--format", "json", *folders]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["efficiencies"]
    names = ("global", "computation_scalability", "parallel", "load_balance", "communication")
    return scaled(own), [tuple(size[name] for name in names) for size in found]


def by_talp(library: str, launch: Launch, folder: Path) -> Tables:
    """What the sums of TALP give: its own table (TALP-Pages) needs counters of the processor."""
    own, found = [], []
    for size in SIZES:
        file = folder / f"talp-{size}.json"
        own.append(efficiencies.run(launch(size), efficiencies.with_talp(library, file)))
        found.append(efficiencies.sums_of_talp(file))
    return scaled(own), scaled(found)


def middle(tables: list[Tables], size: int) -> tuple[Column, Column, Column]:
    """Of one size the medians by the clock and by the tool, and of what the tool is off, in points."""
    own, tool = zip(*((own[size], tool[size]) for own, tool in tables), strict=True)
    off = [[one - other for one, other in zip(*pair, strict=True)] for pair in zip(tool, own, strict=True)]
    medians = [tuple(map(statistics.median, zip(*some, strict=True))) for some in (own, tool, off)]
    return medians[0], medians[1], tuple(100 * one for one in medians[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mpicc")
    parser.add_argument("--talp", help="libdlb_mpi.so of DLB, built for the same MPI")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="about what each of 8 ranks computes")
    options = parser.parse_args()
    tools: dict[str, Callable[[Launch, Path], Tables]] = {"scalana": by_scalana}
    if options.talp:
        tools["TALP"] = partial(by_talp, options.talp)
    worst, agree = dict.fromkeys(tools, 0.0), 0
    with tempfile.TemporaryDirectory() as place:
        program = efficiencies.built(options.mpicc, Path(place))
        heads = [f"{tool}: {name}" for tool in tools for name in FACTORS] + (["apart"] if options.talp else [])
        print(f"| program, in %: own clock / tool | ranks | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 2)}")
        for name in PROGRAMS:

            def launch(size: int, name: str = name) -> list[str]:
                return [*mpirun(Path(options.mpicc).parent, size), str(program), name, str(options.seconds), "strong"]

            answers: dict[str, list[Tables]] = {tool: [] for tool in tools}
            for number in range(options.rounds):
                for tool, ask in tools.items():
                    folder = Path(place) / f"{name}-{number}-{tool}"
                    folder.mkdir()
                    answers[tool].append(ask(launch, folder))
            for at, size in enumerate(SIZES):
                cells, off = [name, str(size)], []
                for tool, tables in answers.items():
                    *both, points = middle(tables, at)
                    cells += [f"{100 * one:.1f} / {100 * other:.1f}" for one, other in zip(*both, strict=True)]
                    worst[tool] = max(worst[tool], *map(abs, points))
                    off.append(points)
                if len(off) > 1:
                    apart = max(abs(one - other) for one, other in zip(*off, strict=True))
                    agree += round(apart, 1) <= 1.0
                    cells.append(f"{apart:.2f}")
                print(f"| {' | '.join(cells)} |", flush=True)
    for tool, points in worst.items():
        print(f"most that {tool} is off in the median: {points:.2f} points")
    if options.talp:
        print(f"sizes at which both agree to one point: {agree} of {len(PROGRAMS) * len(SIZES)}")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
