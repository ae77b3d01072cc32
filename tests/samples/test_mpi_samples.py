"""The samples in C++ and mpi4py under the MPIs at hand: the planted place, on its rank, is what comes first."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import scalana
from tests.runtime.mpi.conftest import Mpi, mpi  # noqa: F401  (a fixture)

from .planted import SAMPLES, header, marked_line

FOLDER = SAMPLES / "mpi"
NAMES = sorted(path.name for path in FOLDER.glob("*.*") if path.suffix in (".cpp", ".py"))
pytestmark = pytest.mark.slow


def as_python(text: str) -> str:
    """A header in comments of C++ as one in comments of Python."""
    return re.sub(r"^//(?= |$)|//(?= <-)", "#", text, flags=re.MULTILINE)


def command(mpi: Mpi, path: Path) -> list[str]:  # noqa: F811
    if path.suffix == ".cpp":
        return [str(mpi.compile(path))]
    python = Path(mpi.folder) / "python"
    if not python.exists() or subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")
    return [str(python), str(path)]


@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_the_planted_cause_comes_first(mpi: Mpi, name: str, ranks: int) -> None:  # noqa: F811
    path = FOLDER / name
    text = as_python(path.read_text(encoding="utf-8"))
    (fault,) = header(text, path)["faults"]
    first = marked_line(text, fault["marker"])
    assert first is not None
    last = marked_line(text, f"end of {fault['marker']}") or first
    report = scalana.analyze(mpi.record(ranks, *command(mpi, path)))
    assert report.findings, report.to_text()
    found = report.findings[0]
    assert Path(found.file).name == name, report.to_text()
    assert first <= found.line <= last, report.to_text()
    assert list(found.ranks) == fault["ranks"], report.to_text()
    assert found.function == fault["function"].partition("<")[0], report.to_text()


def test_there_are_programs() -> None:
    assert len(NAMES) >= 6
