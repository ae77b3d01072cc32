"""Waiting for cores in calls: of the thread that calls, and of those that move its data."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.in_calls import core_waits_in_calls
from scalana.graphs.timeline import Calls
from scalana.runtime.record.format import STATE_RUNNING

MAIN, MOVER = 0, 1
THREADS = Threads(np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([True, False]), np.array([True, True]),
                  np.array([0, -1]))  # fmt: skip
MS = 1_000_000


def calls_of(*times_s: tuple[float, float]) -> Calls:
    """Calls of one location, from when to when."""
    enter_s, exit_s = np.array(times_s).T
    count, zero = len(times_s), np.zeros(len(times_s), np.int64)
    return Calls(zero, zero, zero, enter_s, exit_s, np.zeros(count), zero, zero, np.array([0, count]),
                 np.zeros(count + 1, np.int64), np.zeros(0, np.int64))  # fmt: skip


def seen(*rows: tuple[int, int, int, int]) -> Samples:
    """Samples: thread, when (ms), CPU and waiting for a core since the one before (ms)."""
    thread, time, cpu, wait = np.array(rows, np.int64).T
    return Samples(thread, time * MS, np.ones(len(rows), np.int64), cpu * MS, wait * MS,
                   np.full(len(rows), STATE_RUNNING))  # fmt: skip


def waited(samples: Samples, calls: Calls, moves: bool = True) -> list[float]:
    """Milliseconds in each call."""
    parts = list(core_waits_in_calls(samples, THREADS, np.array([False, moves]), calls))
    assert all(at == slice(0, len(calls)) for at, _ in parts)
    return [round(float(one), 6) for one in sum((1e3 * part for _, part in parts), np.zeros(len(calls)))]


def test_a_thread_waits_for_a_core_right_before_it_is_seen_to_run() -> None:
    calls = calls_of((0.010, 0.050), (0.060, 0.070))
    # At rest for 30 ms of its first call, it waits for 8 ms and runs for 2 when what it waits for is there.
    assert waited(seen((MAIN, 10, 0, 0), (MAIN, 50, 2, 8), (MAIN, 60, 10, 0)), calls) == [8.0, 0.0]
    # What it waits between its calls is no waiting in them.
    assert waited(seen((MAIN, 50, 0, 0), (MAIN, 60, 2, 8)), calls) == [0.0, 0.0]


def test_threads_that_move_data_wait_in_the_calls_meanwhile() -> None:
    calls = calls_of((0.010, 0.040), (0.060, 0.070), (0.150, 0.160))
    looks = seen((MOVER, 0, 0, 0), (MOVER, 100, 5, 20))
    assert waited(looks, calls) == [15.0, 5.0, 0.0]
    assert waited(looks, calls, moves=False) == [0.0, 0.0, 0.0], "what other threads do is not known to be for calls"
    # Never more than the calls took.
    assert waited(seen((MOVER, 0, 0, 0), (MOVER, 100, 5, 90)), calls) == [30.0, 10.0, 0.0]
    both = seen((MAIN, 10, 0, 0), (MAIN, 40, 2, 28), (MOVER, 0, 0, 0), (MOVER, 100, 5, 40))
    assert waited(both, calls)[0] == pytest.approx(30.0)
