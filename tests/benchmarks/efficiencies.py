"""POP factors of six MPI programs by their own clocks, by scalana and by TALP.

Run: ``python tests/benchmarks/efficiencies.py MPICC [--talp LIBDLB_MPI.so] [--rounds N] [--seconds S]``. The programs
(``miniapps.c``) add up their own time in calls, and print the factors that follow. They run in turns under scalana and,
if its library is given, TALP: each tool is compared with the clock of the program in the same run, so that load changes
no difference. The table has the run with the median difference, and the last lines have the largest differences in all
runs, and in how many programs both tools are off alike, to one point.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.mpi_overhead import mpirun  # noqa: E402

PROGRAMS = ("stencil", "particles", "sweep", "farm", "transpose", "gradient")
FACTORS = ("parallel", "load_balance", "communication")
_SOURCE = Path(__file__).with_name("miniapps.c")


@dataclass(frozen=True)
class Answer:
    """The factors of one run, in the order of :data:`FACTORS`."""

    own: tuple[float, ...]
    tool: tuple[float, ...]

    def off(self) -> float:
        """The largest difference, in points."""
        return max(abs(one - other) for one, other in zip(self.own, self.tool, strict=True)) * 100


def apart(answers: dict[str, list[Answer]]) -> list[float]:
    """By how many points the tools differ in what they are usually off, by factor."""
    usual = [
        [statistics.median(answer.tool[at] - answer.own[at] for answer in some) for at in range(len(FACTORS))]
        for some in answers.values()
    ]
    return [(max(values) - min(values)) * 100 for values in zip(*usual, strict=True)]


def run(words: list[str], environment: dict[str, str] | None = None) -> tuple[float, ...]:
    """Run a program; the factors by its own clock, and seconds outside of calls on all ranks."""
    done = subprocess.run(words, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    found = re.search(r"^own (.*)$", done.stdout, re.M)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return tuple(map(float, found[1].split()))


def by_scalana(words: list[str], folder: Path) -> Answer:
    """What scalana says of the run."""
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--"]
    own = run([*command, *words])[:3]
    report = [sys.executable, "-m", "scalana", "report", "--format", "json", str(folder)]
    found = json.loads(subprocess.run(report, capture_output=True, text=True, check=True).stdout)["efficiency"]["run"]
    return Answer(own, tuple(found[name] for name in FACTORS))


def with_talp(library: str, file: Path) -> dict[str, str]:
    """The environment in which TALP writes a file."""
    return {"LD_PRELOAD": library, "DLB_ARGS": f"--talp --talp-output-file={file}"}


def sums_of_talp(file: Path) -> tuple[float, ...]:
    """The factors, and seconds outside of calls on all ranks, from TALP's sums: its own factors have two digits
    (``perf_metrics.c`` has the formulas)."""
    found = json.loads(file.read_text())["Application"]["Global"]
    outside = found["elapsedTime"] - found["mpiTime"] / found["numCpus"]
    most = found["elapsedTime"] - found["minMpiNormdProc"]
    elapsed = found["elapsedTime"]
    return outside / elapsed, outside / most, most / elapsed, outside * found["numCpus"] * 1e-9


def by_talp(words: list[str], library: str, folder: Path) -> Answer:
    """What TALP says of the run."""
    file = folder.with_suffix(".json")
    return Answer(run(words, with_talp(library, file))[:3], sums_of_talp(file)[:3])


def built(mpicc: str, folder: Path) -> Path:
    """The programs, compiled."""
    program = folder / "miniapps"
    subprocess.run([mpicc, "-O2", str(_SOURCE), "-lm", "-o", str(program)], check=True)
    return program


def row(name: str, answers: dict[str, list[Answer]]) -> str:
    """The line of a program: of each tool the factors by the program and by the tool, in the median run."""
    cells = [name]
    for some in answers.values():
        middle = sorted(some, key=Answer.off)[len(some) // 2]
        cells += [f"{100 * one:.1f} / {100 * other:.1f}" for one, other in zip(middle.own, middle.tool, strict=True)]
        cells.append(f"{max(answer.off() for answer in some):.2f}")
    cells += [" / ".join(f"{points:.2f}" for points in apart(answers))] if len(answers) > 1 else []
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mpicc")
    parser.add_argument("--talp", help="libdlb_mpi.so of DLB, built for the same MPI")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="about what a program takes on two free cores")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    tools = ["scalana", *(["TALP"] if options.talp else [])]
    worst, usual = dict.fromkeys(tools, 0.0), dict.fromkeys(tools, 0.0)
    agree = 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = built(options.mpicc, folder)
        launch = mpirun(Path(options.mpicc).parent, options.ranks)
        heads = [f"{tool}: {name}" for tool in tools for name in (*FACTORS, "most off")]
        heads += ["apart"] if options.talp else []
        print(f"| program, in %: own clock / tool | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}", flush=True)
        for name in PROGRAMS:
            words = [*launch, str(program), name, str(options.seconds)]
            answers: dict[str, list[Answer]] = {tool: [] for tool in tools}
            for number in range(options.rounds):
                answers["scalana"].append(by_scalana(words, folder / f"{name}-{number}"))
                if options.talp:
                    answers["TALP"].append(by_talp(words, options.talp, folder / f"talp-{name}-{number}"))
            for tool, some in answers.items():
                off = sorted(answer.off() for answer in some)
                worst[tool], usual[tool] = max(worst[tool], off[-1]), max(usual[tool], off[len(off) // 2])
            agree += round(max(apart(answers)), 1) <= 1.0
            print(row(name, answers), flush=True)
    for tool, points in worst.items():
        print(f"most that {tool} is off: {points:.2f} points; in the median run of a program {usual[tool]:.2f} points")
    if options.talp:
        print(f"programs in which both agree to one point: {agree} of {len(PROGRAMS)}")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
