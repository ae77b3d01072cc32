"""One random program: recorded, analysed, and compared with what it measured itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import scalana
from scalana.detectors.finding import Finding
from tests.runtime.mpi.conftest import Mpi

from .draw import Program
from .source import MARK, source_of

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300


class Failed(Exception):
    """A job that did not end well, or said nothing of itself."""


@dataclass(frozen=True)
class Outcome:
    """What was planted, and what the report said first."""

    seed: int
    name: str
    faulty: bool
    ranks: list[int]
    """On which the fault is."""
    lines: list[int]
    """Of the program, that the report may name."""
    findings: int
    said: str
    """The first finding in few words; empty if there is none."""
    line_right: bool
    ranks_right: bool
    true_s: float
    """How much longer the slow ranks took at the fault than the others, by the program's clock, on average."""
    said_s: float | None
    """The same, by the report; None where it names another line or other ranks, or has no seconds."""
    load: float
    """Of the machine when the job began."""

    @property
    def right(self) -> bool:
        """Whether the first finding is the fault; of a balanced program, whether there is none."""
        return self.line_right and self.ranks_right if self.faulty else not self.findings

    @property
    def error(self) -> float | None:
        """Of the seconds, relative; None where they are not known."""
        return None if self.said_s is None or self.true_s <= 0.0 else abs(self.said_s - self.true_s) / self.true_s

    def as_json(self) -> str:
        """On one line."""
        return json.dumps({**asdict(self), "right": self.right, "error": self.error})


@dataclass(frozen=True)
class Told:
    """What a rank printed of itself."""

    rank: int
    spent: float
    """Seconds at the fault."""
    cpu: float
    """CPU seconds there."""


@contextmanager
def busy_programs(count: int) -> Iterator[None]:
    """So many programs of others that want a core all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def recorded(program: Program, work: Path, mpi: str) -> None:
    """Record a program in a folder. ``mpi`` is the folder of an MPI's commands.

    Raises:
        Failed: the job failed.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "program.py").write_text(source_of(program), encoding="utf-8")
    load = os.getloadavg()[0]
    told = _run(program, work, mpi)
    (work / "truth.json").write_text(json.dumps({"load": round(load, 1), "ranks": told}), encoding="utf-8")


def judged(program: Program, work: Path) -> Outcome:
    """Compare the report of a recorded program with what it measured itself."""
    truth = json.loads((work / "truth.json").read_text(encoding="utf-8"))
    lines = (work / "program.py").read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, 1) if line.endswith(MARK)]
    findings = scalana.analyze(work / "run").findings
    return compared(program, marked, [Told(**one) for one in truth["ranks"]], findings, truth["load"])


def _run(program: Program, work: Path, mpi: str) -> list[dict[str, float]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
    environment = {**kept, "PATH": os.pathsep.join((mpi, os.environ["PATH"])), "OMP_NUM_THREADS": "1"}
    count = str(program.ranks)
    if program.runtime == "mpi":
        job = ["mpirun", *Mpi(mpi, work).options, "-n", count, f"{mpi}/python", "program.py"]
    else:
        job = [f"{Path(sys.executable).parent}/torchrun", "--standalone", "--nproc-per-node", count, "program.py"]
    words = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", "run", "--", *job]
    done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    truth = [json.loads(line.partition("[truth]")[2]) for line in done.stdout.splitlines() if "[truth]" in line]
    if done.returncode or len(truth) != program.ranks:
        raise Failed(f"seed {program.seed} ({program.name}): {' '.join(words)} in {work}:\n{done.stdout}{done.stderr}")
    return truth


def compared(program: Program, marked: list[int], told: list[Told], findings: list[Finding], load: float) -> Outcome:
    fault, first = program.fault, findings[0] if findings else None
    slow = list(fault.ranks) if fault else []
    spent = {one.rank: one.spent for one in told}
    usual = [seconds for rank, seconds in spent.items() if rank not in slow]
    true_s = fmean(spent[rank] for rank in slow) - fmean(usual) if fault else 0.0
    line_right = first is not None and Path(first.file).name == "program.py" and first.line in marked
    ranks_right = first is not None and sorted(first.ranks) == slow
    return Outcome(
        program.seed,
        program.name,
        fault is not None,
        slow,
        marked,
        len(findings),
        _in_few_words(first),
        line_right,
        ranks_right,
        true_s,
        _seconds(first) if first is not None and line_right and ranks_right else None,
        load,
    )


def _in_few_words(finding: Finding | None) -> str:
    if finding is None:
        return ""
    ranks = ", ".join(map(str, finding.ranks)) or "all ranks"
    return f"{finding.kind}: {ranks}: {Path(finding.file).name}:{finding.line} {finding.lost_s:.2f} s"


def _seconds(finding: Finding) -> float | None:
    """How much longer the ranks of a finding took at its place than the others."""
    place = finding.evidence.place
    if place is None or place.seconds_here is None:
        return None
    return place.seconds_here - (place.seconds_others or 0.0)
