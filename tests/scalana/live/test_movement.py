"""Jobs that are slow but move raise no alarm; jobs that hang raise one within seconds after the limit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from scalana.live.movement import Doing, Movement, doing_of
from scalana.live.now import RankNow, Stack
from scalana.live.quiet import Quiet

EVERY_S, SLOW_S = 2, 180
MB = 1 << 20
LIMIT_S = 60


def idle(at: int) -> Doing:
    """In one function, and nothing else happens."""
    return Doing(functions=1, bytes=100.0 * at, started_cpu_s=0.001 * at)


def alarm_after(doing: Callable[[int], Doing], seconds: int = SLOW_S, pause_s: int = 1) -> int | None:
    """Seconds after which a job raises an alarm whose last call ended at 0; None where it raises none in time. Before,
    it paused for ``pause_s`` at most."""
    quiet, movement = Quiet(None), Movement()
    quiet.take(pause_s, True)
    quiet.take(0.0, True)
    for at in range(0, seconds, EVERY_S):
        quiet.take(float(at), True)
        if not quiet.is_due():
            continue
        moves = movement.take(1000.0 + at, {11: doing(at)})
        if not movement.is_debugged and quiet.is_hang(moves):
            return at
    return None


SLOW: dict[str, Callable[[int], Doing]] = {
    "writes a checkpoint": lambda at: Doing(1, bytes=at * 200.0 * MB),
    "writes to a slow file system": lambda at: Doing(1, bytes=at * 0.4 * MB),
    "a program copies its data": lambda at: Doing(1, bytes=at * 5.0 * MB, started_cpu_s=0.001 * at),
    "compiles, by short programs": lambda at: Doing(1, started_cpu_s=0.7 * at),
    "compiles, on cores that are busy": lambda at: Doing(1, started_cpu_s=0.04 * at),
    "evaluates": lambda at: Doing(functions=12),
    "imports": lambda at: Doing(functions=9, bytes=at * 0.5 * MB),
    "pauses between the parts of an evaluation": lambda at: Doing(functions=12 if at % 10 < 3 else 1),
    "computes features of one file after the other": lambda at: Doing(2, bytes=(at // 8) * 16.0 * MB),
    "is held in a debugger": lambda at: Doing(1, is_debugged=True),
}


@pytest.mark.parametrize("what", SLOW)
def test_what_moves_is_slow(what: str) -> None:
    assert alarm_after(SLOW[what]) is None


@pytest.mark.parametrize("calls_s", [5, 20, 55])
def test_as_long_as_calls_end_nothing_hangs(calls_s: int) -> None:
    """A long trajectory, the worker of a task farm that works while all others wait, a collection of garbage."""
    quiet, movement = Quiet(None), Movement()
    for at in range(0, SLOW_S, EVERY_S):
        quiet.take(float(at % calls_s), True)
        assert not quiet.is_due() or not quiet.is_hang(movement.take(float(at), {11: idle(at)}))


def test_what_does_not_move_hangs() -> None:
    assert alarm_after(idle) in range(LIMIT_S, LIMIT_S + 16)
    assert alarm_after(lambda at: Doing(5, bytes=at * 0.2 * MB)) in range(LIMIT_S, LIMIT_S + 16)


def test_what_was_done_long_before_the_limit_is_no_movement() -> None:
    assert alarm_after(lambda at: Doing(1, bytes=min(at, 30) * 100.0 * MB)) in range(LIMIT_S, LIMIT_S + 16)


def test_what_stops_moving_hangs_soon_after() -> None:
    """And not at once: what a program has done that just ended is in no record yet."""
    ended_s = 90
    at = alarm_after(lambda at: Doing(1, started_cpu_s=0.9 * min(at, ended_s)))
    assert at in range(ended_s + 6, ended_s + 16)


def test_what_moves_for_ever_hangs_in_the_end() -> None:
    assert alarm_after(SLOW["evaluates"], 1000) in range(4 * LIMIT_S, 4 * LIMIT_S + 16)


def test_programs_that_have_ended_count() -> None:
    """Of a process that starts one short program after the other no program is seen twice."""
    burn = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    one = RankNow(0, "rank 0", "asleep", "", 1.0, Stack((), -1), 1, os.uname().nodename, os.getpid(), os.getpid())
    before = doing_of(one, [os.getpid()])
    subprocess.run([sys.executable, "-S", "-c", burn], check=True)
    after = doing_of(one, [os.getpid()])
    assert after.started_cpu_s - before.started_cpu_s > 0.05
    assert not after.is_debugged


@pytest.mark.parametrize(("changed_s", "moves"), [(92.0, False), (None, True)])
def test_functions_move_until_the_last_one_began(changed_s: float | None, moves: bool) -> None:
    """Not until somebody looked at them."""
    movement = Movement()
    assert movement.take(100.0, {11: Doing(12, changed_s)})
    assert movement.take(101.0, {11: Doing(1)})
    assert movement.take(103.0, {11: Doing(1)}) is moves
