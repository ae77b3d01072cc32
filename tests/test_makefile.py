"""What the Makefile promises where something cannot be installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("ci", [True, False])
def test_an_mpi_that_cannot_be_installed_is_an_error_in_ci_and_a_warning_elsewhere(ci: bool, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "SCALANA_TEST_MPI")}
    environment |= {"CI": "true"} if ci else {}
    words = ["make", "-f", str(ROOT / "Makefile"), "mpi", "MPIS=none", "PYTHON=false", "C_SOURCES="]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode != 0) == ci
    assert ("warning: none could not be installed" in done.stderr) != ci
    assert ("CI=true" in done.stderr) == ci


def test_help_lists_what_can_be_made() -> None:
    """Every target that stands for something to do, but not those that others are made of."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [name for line in text.splitlines() if line.startswith(".PHONY:") for name in line.split()[1:]]
    parts = {"help", "install", "mpi", "pipeline", "kernels", "recorders", "lint", "mypy", "quick-tests"}
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("make ")}
    assert listed == set(targets) - parts
