"""How many calls are written one by one follows from how long a process runs on its cores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.installed import RUNTIME

HERE = Path(__file__).parent
BURST = 80_000
Thin = Callable[[int, float, float], tuple[int, int]]


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Thin:
    """Events a second, part of the time in which the process runs, seconds; gives the level and how many it wrote."""
    program = tmp_path_factory.mktemp("rate") / "call_rate"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME / 'mpi'}", f"-I{RUNTIME / '_core'}"]
    subprocess.run(["cc", *flags, HERE / "programs" / "simulated_rate.c", "-o", program, "-lpthread"], check=True)

    def simulate(events: int, part: float, seconds: float) -> tuple[int, int]:
        done = subprocess.run(
            [program, str(events), str(part), str(seconds)], check=True, capture_output=True, text=True
        )
        level, written = map(int, done.stdout.split())
        return level, written

    return simulate


def test_a_burst_is_written_whole(thin: Thin) -> None:
    assert thin(38_000, 1.0, 1.0) == (0, 38_000)
    assert thin(38_000, 0.25, 1.0) == (0, 38_000)


@pytest.mark.parametrize(("part", "a_second"), [(1.0, 4000), (2.0, 4000), (0.5, 2000), (0.25, 1000)])
def test_past_it_as_many_are_written_as_the_process_has_time_for(thin: Thin, part: float, a_second: int) -> None:
    _, written = thin(100_000, part, 200.0)
    assert written - BURST == pytest.approx(200 * a_second, rel=0.1)


def test_less_than_that_is_written_whole_for_ever(thin: Thin) -> None:
    assert thin(3_900, 1.0, 300.0) == (0, 1_170_000)
    assert thin(950, 0.25, 300.0) == (0, 285_000)


def test_who_rests_has_time_to_spare(thin: Thin) -> None:
    assert thin(3_000, 0.01, 200.0) == thin(3_000, 0.25, 200.0)
    assert thin(3_000, 0.25, 200.0)[0] > 0
