"""What rows measured last: kept in a file of the repository, row by row."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from .rows import Row, Sum

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Machine:
    """On what a row was measured."""

    cpu: str
    cores: int
    python: str
    torch: str
    gpu: str = ""

    @classmethod
    def here(cls, gpu: str = "") -> Machine:
        """This one."""
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        try:
            torch = metadata.version("torch")
        except metadata.PackageNotFoundError:
            torch = "none"
        cpu = models[0] if models else platform.machine()
        return cls(cpu, len(os.sched_getaffinity(0)), platform.python_version(), torch, gpu)


@dataclass(frozen=True)
class Result:
    """What a row measured, or why it did not."""

    value: float | None
    error: str
    machine: Machine
    load_before: float
    load_after: float
    commit: str
    date: str
    seconds: float


def commit() -> str:
    """The commit that is checked out, with a plus sign where files differ; ``COMMIT`` names it in a mere copy."""
    if named := os.environ.get("COMMIT"):
        return named

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = [line for line in git("status", "--porcelain").splitlines() if not line.endswith(("proof.md", FILE.name))]
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def today() -> str:
    """The date, as in 2025-01-31."""
    return datetime.date.today().isoformat()


def load(file: Path = FILE) -> dict[str, Result]:
    """Results by name of row; none where there is no file."""
    if not file.exists():
        return {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    return {name: Result(**{**fields, "machine": Machine(**fields["machine"])}) for name, fields in kept.items()}


def save(results: Mapping[str, Result], rows: Sequence[Row], file: Path = FILE) -> None:
    """Write the results of the rows that the table has, in its order: each in one line, so that changes read well."""
    names = [row.name for row in rows if row.name in results]
    lines = [f"{json.dumps(name)}: {json.dumps(asdict(results[name]))}" for name in names]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def result_of(row: Row, results: Mapping[str, Result]) -> Result | None:
    """The result of a row; a sum has one if all that it adds have, with the oldest of their dates."""
    if not isinstance(row.measured_by, Sum):
        return results.get(row.name)
    parts = [results.get(name) for name in row.measured_by.names]
    known = [part for part in parts if part is not None and part.value is not None]
    if len(known) < len(parts):
        return None
    oldest = min(known, key=lambda part: part.date)
    return Result(sum(part.value or 0.0 for part in known), "", *_circumstances(oldest))


def _circumstances(result: Result) -> tuple[Machine, float, float, str, str, float]:
    return (result.machine, result.load_before, result.load_after, result.commit, result.date, result.seconds)
