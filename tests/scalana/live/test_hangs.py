"""Jobs that hang are explained while they do; jobs that are slow raise no alarm."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.needs import torch_or_skip
from tests.runtime.jobs import run
from tests.tools.fork_server import launcher

PROGRAM = Path(__file__).parent / "programs" / "hangs.py"
LIMIT_S = 5
HANGS = (
    "absent", "circle", "endless", "file-lock", "holds-gil", "in-c", "loader", "lock", "other-call", "pipe", "pool",
    "server", "stopped",
)  # fmt: skip
IN_WORDS = {"file-lock": "waiting for the lock of", "server": "receiving from 127.0.0.1:", "stopped": "by a signal"}
"""What the kernel says of some."""
SLOW = ("checkpoint", "evaluation", "other-program", "trajectory")


def lines_of(kind: str) -> list[int]:
    """The numbers of the lines of a kind."""
    lines = PROGRAM.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if kind in line.partition("# <- ")[2].split()]


def watched(kind: str, folder: Path) -> tuple[int, list[str], str]:
    """Run a kind, and end it where it hangs; returns the exit code, what was said of a hang, and all of the output."""
    torch_or_skip()
    own = [sys.executable, "-m", "scalana", "run", "-o", folder / "run", "--no-report"]
    own += ["--hang-after", str(LIMIT_S), "--on-hang", "abort", "--"]
    done = run([*map(str, own), *launcher(2), PROGRAM, kind, folder / "file"], timeout_s=240)
    said = folder / "run" / "hang-1.txt"
    return done.returncode, said.read_text().splitlines() if said.exists() else [], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_is_explained(kind: str, tmp_path: Path) -> None:
    code, said, printed = watched(kind, tmp_path)
    assert code != 0 and "the job hangs: no rank has come further since" in printed
    assert said[0].startswith("the job hangs") and said[0] in printed
    explained = said[: said.index("")]
    assert any(IN_WORDS.get(kind, "") in line for line in explained), explained
    ranks = "All 2 ranks" if kind == "circle" else "Rank 0" if kind == "other-call" else "Rank 1"
    assert f": {ranks} " in explained[1]
    if kind not in ("other-call", "stopped"):  # one of two calls is named; a process that is stopped writes nothing
        assert any(f"{PROGRAM.name}:{line} " in explained[1] for line in lines_of(kind)), explained
    assert any(line.endswith(" main") for line in said[len(explained) :])  # the stacks


@pytest.mark.slow
@pytest.mark.parametrize("kind", SLOW)
def test_a_slow_job_raises_no_alarm(kind: str, tmp_path: Path) -> None:
    code, said, printed = watched(kind, tmp_path)
    assert (code, said) == (0, []), printed
    assert "hangs" not in printed
