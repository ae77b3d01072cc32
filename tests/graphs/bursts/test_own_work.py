"""Own work between calls: exact lengths and CPU, divided by samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.graphs.attribution.places import Places
from scalana.graphs.bursts.own_work import own_work
from scalana.graphs.bursts.work_rows import Rows, exact_cpu
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.between import active_s
from scalana.runtime.record.format import (
    STATE_ASLEEP,
    STATE_IPC,
    STATE_LOCK,
    STATE_RUNNING,
    STATE_UNKNOWN,
)

MS = 1_000_000
PERIOD = 5 * MS


def _threads(*rows):
    """Rows of (rank, process, location)."""
    rank, process, location = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    own = location >= 0
    return Threads(process, rank, is_main=own, is_own=own, location=location)


def _samples(*rows):
    """Rows of (thread, ms, path, cpu ms, state) in order."""
    thread, time, path, cpu, state = zip(*rows, strict=True) if rows else ([], [], [], [], [])
    return Samples(
        np.array(thread, np.int64),
        np.array([round(t * MS) for t in time], np.int64),
        np.array(path, np.int64),
        np.array([round(c * MS) for c in cpu], np.int64),
        np.zeros(len(thread), np.int64),
        np.array(state, np.int64),
    )


def _gaps(*rows):
    """Rows of (location, start ms, end ms, cpu ms or -1, before, after), numbered in order."""
    location, start, end, cpu, before, after = zip(*rows, strict=True)
    n = len(rows)
    return Bursts(
        np.array(location, np.int64),
        np.array([round(t * MS) for t in start], np.int64),
        np.array([round(t * MS) for t in end], np.int64),
        np.array([round(c * MS) if c >= 0 else -1 for c in cpu], np.int64),
        np.array(before, np.int64),
        np.array(after, np.int64),
        np.arange(n, dtype=np.int64),
        np.full(n, 99, np.int64),
        np.full(n, 990, np.int64),
    )


def _places(count, waits=(), no_user=(), spins=(), computes=(), native=(), calls_rest=()):
    """Path ``p`` leads to vertex ``p`` and line ``10 p``."""
    paths = np.arange(count, dtype=np.int64)
    line = np.where(np.isin(paths, no_user), 0, 10 * paths)
    return Places(paths, line, *(np.isin(paths, of) for of in (waits, spins, computes, native, calls_rest)))


def _table(own, activities, column="seconds"):
    """{(gap, vertex, line, helper): value in ms}."""
    values = getattr(own, column)
    scale = 1e3 if values.dtype.kind == "f" else 1
    return {
        (int(g), int(activities.vertex[a]), int(activities.line[a]), bool(activities.helper[a])): round(v * scale, 6)
        for g, a, v in zip(own.burst, own.activity, values.tolist(), strict=True)
    }


def test_samples_own_up_to_midpoints_and_the_gap_keeps_its_length_and_cpu():
    samples = _samples((0, 2, 1, 2, STATE_RUNNING), (0, 7, 1, 5, STATE_RUNNING), (0, 12, 2, 5, STATE_RUNNING))
    own, activities = own_work(_gaps((0, 0, 15, 15, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 9.5, (0, 2, 20, False): 5.5}
    assert _table(own, activities, "cpu_s") == {(0, 1, 10, False): 9.5, (0, 2, 20, False): 5.5}
    assert _table(own, activities, "samples") == {(0, 1, 10, False): 2, (0, 2, 20, False): 1}


def test_sleep_between_two_distant_samples_is_exact_and_has_no_cpu():
    # It computes in 1 until 10 ms, sleeps in 2 until 90 ms (the last tick there is written), computes in 3.
    samples = _samples(
        (0, 2.5, 1, 2.5, STATE_RUNNING),
        (0, 7.5, 1, 5, STATE_RUNNING),
        (0, 12.5, 2, 2.5, STATE_ASLEEP),
        (0, 87.5, 2, 0, STATE_ASLEEP),
        (0, 92.5, 3, 2.5, STATE_RUNNING),
        (0, 97.5, 3, 5, STATE_RUNNING),
    )
    own, activities = own_work(_gaps((0, 0, 100, 20, -1, 7)), samples, _threads((0, 0, 0)), _places(4), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 10, (0, 2, 20, False): 80, (0, 3, 30, False): 10}
    cpu = _table(own, activities, "cpu_s")
    assert sum(cpu.values()) == pytest.approx(20)
    assert cpu[0, 2, 20, False] < 4


def test_thread_that_moved_on_without_a_closing_sample_stayed_where_it_was():
    samples = _samples((0, 10, 1, 5, STATE_ASLEEP), (0, 100, 2, 2, STATE_RUNNING))
    own, activities = own_work(_gaps((0, 5, 105, -1, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 93.0, (0, 2, 20, False): 7.0}
    # It ran at the end of the long stretch, not throughout.
    assert _table(own, activities, "cpu_s") == {(0, 1, 10, False): 5, (0, 2, 20, False): 7}


def test_one_rest_after_another_began_as_likely_early_as_late_since_the_last_look():
    samples = _samples(
        *((0, 10, 1, 5, STATE_ASLEEP), (0, 60, 1, 0, STATE_ASLEEP)),
        *((0, 82, 2, 2, STATE_ASLEEP), (0, 120, 2, 0, STATE_ASLEEP)),
    )
    own, activities = own_work(_gaps((0, 5, 125, -1, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 65, (0, 2, 20, False): 55}


def test_who_was_seen_to_run_and_then_to_rest_rested_in_the_later_place():
    # It computes in 1 until 12 ms, and then sleeps in 2, in which it is found late.
    samples = _samples((0, 10, 1, 5, STATE_RUNNING), (0, 60, 2, 4, STATE_ASLEEP), (0, 80, 2, 0, STATE_ASLEEP))
    own, activities = own_work(_gaps((0, 5, 85, 12, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 7.5, (0, 2, 20, False): 72.5}
    # Of what it ran and waited for a core in between, half is taken to lie in either.
    samples.core_wait_ns[1] = 26 * 10**6
    own, activities = own_work(_gaps((0, 5, 85, 9, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 20, (0, 2, 20, False): 60}
    assert _table(own, activities, "core_wait_s") == {(0, 1, 10, False): 13, (0, 2, 20, False): 13}


def test_a_short_rest_that_no_look_found_is_that_of_the_call_after_it_and_not_of_what_computed_before():
    # It computes in 1 until 12 ms, and rests for 20 ms in 2, which a sample finds when it runs again.
    samples = _samples((0, 10, 1, 5, STATE_RUNNING), (0, 35, 2, 5, STATE_RUNNING), (0, 40, 2, 5, STATE_RUNNING))
    of_calls = _gaps((0, 5, 42, 17, -1, 7)), samples, _threads((0, 0, 0))
    own, activities = own_work(*of_calls, _places(3, computes=(1,)), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 7.5, (0, 2, 20, False): 29.5}
    # What computes in both places was off the CPU for another cause; and of what a call may be, it is not known.
    for computes in ((1, 2), ()):
        own, activities = own_work(*of_calls, _places(3, computes=computes), PERIOD)
        assert _table(own, activities) == {(0, 1, 10, False): 27.5, (0, 2, 20, False): 9.5}


def test_who_has_not_run_since_it_rested_waited_for_a_core_at_the_end():
    # It sleeps in a gap until 40 ms, and waits for a core, in the call that comes then, until 60 ms.
    samples = _samples(
        (0, 10, 1, 5, STATE_ASLEEP), (0, 60, 1, 0, STATE_ASLEEP), (0, 65, 2, 5, STATE_RUNNING), (0, 70, 2, 5, 0)
    )
    samples.core_wait_ns[2] = 20 * 10**6
    own, activities = own_work(_gaps((0, 5, 40, 5, -1, 7)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities, "core_wait_s") == {(0, 1, 10, False): 0}


def test_who_ran_before_it_rested_waited_for_a_core_before_it_rested():
    # It runs 4 ms and waits 26 ms for a core in a call, which is over at 41 ms, and sleeps from then on.
    samples = _samples((0, 10, 1, 5, STATE_RUNNING), (0, 60, 2, 4, STATE_ASLEEP), (0, 80, 2, 0, STATE_ASLEEP))
    samples.core_wait_ns[1] = 26 * 10**6
    own, activities = own_work(_gaps((0, 41, 85, 0, 7, 8)), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    assert _table(own, activities) == {(0, 2, 20, False): 44}
    assert _table(own, activities, "core_wait_s") == {(0, 2, 20, False): 0}


def test_waiting_for_a_core_is_told_when_it_is_over_and_belongs_to_the_time_before():
    samples = _samples(*[(0, t, 1, cpu, STATE_RUNNING) for t, cpu in ((5, 5), (10, 3), (30, 0), (35, 2), (40, 5))])
    samples.core_wait_ns[3] = 25 * 10**6  # 3 of them since the look before, 20 in the stretch at rest, 2 before that
    own, activities = own_work(_gaps((0, 0, 40, 15, -1, 7)), samples, _threads((0, 0, 0)), _places(5), PERIOD)
    assert _table(own, activities, "core_wait_s") == {(0, 1, 10, False): 25}
    samples.thread[3:] = 1  # another thread's wait is not this one's
    own, activities = own_work(
        _gaps((0, 0, 33, 8, -1, 7)), samples, _threads((0, 0, 0), (1, 0, -1)), _places(5), PERIOD
    )
    assert _table(own, activities, "core_wait_s") == {(0, 1, 10, False): 0}


def test_samples_inside_calls_and_of_other_gaps_do_not_leak():
    samples = _samples(
        (0, 5, 1, 5, STATE_RUNNING), (0, 12, 3, 1, STATE_IPC), (0, 18, 3, 0, STATE_IPC), (0, 25, 2, 3, STATE_RUNNING)
    )
    gaps = _gaps((0, 0, 10, 10, -1, 3), (0, 20, 30, 8, 3, -1))
    own, activities = own_work(gaps, samples, _threads((0, 0, 0)), _places(4), PERIOD)
    assert _table(own, activities) == {(0, 1, 10, False): 10, (1, 2, 20, False): 10}
    assert _table(own, activities, "cpu_s") == {(0, 1, 10, False): 10, (1, 2, 20, False): 8}


def test_unsampled_gaps_follow_sampled_ones_between_the_same_calls():
    gaps = [(0, 10 * k, 10 * k + 2, 2, 7, 8) for k in range(10)]
    gaps.append((0, 200, 203, 0, 8, 7))
    samples = _samples(*((0, 10 * k + 1, 1 if k < 3 else 2, 1, STATE_RUNNING) for k in range(4)))
    own, activities = own_work(_gaps(*gaps), samples, _threads((0, 0, 0)), _places(3), PERIOD)
    seconds = _table(own, activities)
    for k in range(4, 10):
        assert seconds[k, 1, 10, False] == pytest.approx(1.5)
        assert seconds[k, 2, 20, False] == pytest.approx(0.5)
    # Nothing was ever seen between 8 and 7: the next call's line stands for it, and no CPU was used.
    assert seconds[10, 99, 990, False] == pytest.approx(3)
    assert _table(own, activities, "cpu_s")[10, 99, 990, False] == 0
    assert _table(own, activities, "samples")[10, 99, 990, False] == 0


def test_a_gap_that_samples_cannot_have_missed_says_little_of_those_they_missed():
    """Ten thousand gaps of 20 microseconds, of which 40 were hit, and ten of 9 ms, which are all of the other place."""
    often = [(0, k, k + 0.02, 0.02, 7, 8) for k in range(10_000)]
    rare = [(0, 10_000 + 20 * k, 10_000 + 20 * k + 9, 9, 7, 8) for k in range(10)]
    seen = [(0, 250 * k + 0.01, 1, 0.01, STATE_RUNNING) for k in range(40)]
    seen += [(0, 10_000 + 20 * k + at, 2, 5, STATE_RUNNING) for k in range(10) for at in (2, 7)]
    own, activities = own_work(_gaps(*often, *rare), _samples(*seen), _threads((0, 0, 0)), _places(3), PERIOD)
    seconds = _table(own, activities)
    assert sum(ms for key, ms in seconds.items() if key[1] == 1) == pytest.approx(200, rel=0.02)
    assert sum(ms for key, ms in seconds.items() if key[1] == 2) == pytest.approx(90, rel=0.02)


def test_unsampled_gaps_of_a_location_hold_what_it_was_found_at_where_pairs_of_calls_are_many():
    """Between any two calls of 40 pairs, location 0 computes at one place, and location 1 for three times as long at
    another. No pair has samples enough of its own."""
    gaps, samples = [], []
    chance = np.random.default_rng(7)
    for location, path, length in ((0, 1, 1), (1, 2, 3)):
        for k in range(400):
            gaps.append((location, 10 * k, 10 * k + length, length, k % 40, k % 40))
            if chance.random() < length / 5:
                samples.append((location, 10 * k + 0.5, path, 0.5, STATE_RUNNING))
    own, activities = own_work(_gaps(*gaps), _samples(*samples), _threads((0, 0, 0), (1, 1, 1)), _places(3), PERIOD)
    seconds = _table(own, activities)
    spent = {(key[0] // 400, key[1]): 0.0 for key in seconds}
    for key, ms in seconds.items():
        spent[key[0] // 400, key[1]] += ms
    assert sum(spent.values()) == pytest.approx(1600)
    # As found, but for what lies between two calls where only the other one was found at all.
    assert spent.get((0, 2), 0.0) < 0.25 * spent[0, 1]
    assert spent.get((1, 1), 0.0) < 0.02 * spent[1, 2]


def test_long_unsampled_gaps_follow_long_ones():
    """Every third gap is a long one, in which a thread sleeps; in one of them it was not found."""
    gaps = [(0, 50 * k, 50 * k + (40 if k % 3 == 0 else 2), 2, 7, 8) for k in range(9)]
    seen = [(0, 50 * k + 1, 1, 1, STATE_RUNNING) for k in (1, 2, 4)]
    seen += [(0, 50 * k + at, 2, 0, STATE_ASLEEP) for k in (0, 3) for at in (5, 35)]
    own, activities = own_work(_gaps(*gaps), _samples(*sorted(seen)), _threads((0, 0, 0)), _places(3), PERIOD)
    seconds = _table(own, activities)
    assert [key for key in seconds if key[0] == 6] == [(6, 2, 20, False)]
    assert [key for key in seconds if key[0] in (5, 7, 8)] == [(k, 1, 10, False) for k in (5, 7, 8)]


def test_unsampled_gaps_of_a_location_follow_its_own_samples_where_there_are_enough():
    gaps, samples = [], []
    for location, path in ((0, 1), (1, 2)):
        for k in range(30):
            gaps.append((location, 10 * k, 10 * k + 2, 2, 7, 7))
            if k < 15:
                samples.append((location, 10 * k + 1, path, 1, STATE_RUNNING))
    own, activities = own_work(_gaps(*gaps), _samples(*samples), _threads((0, 0, 0), (1, 1, 1)), _places(3), PERIOD)
    seconds = _table(own, activities)
    assert all(seconds[k, 1, 10, False] == pytest.approx(2) for k in range(30))
    assert all(seconds[30 + k, 2, 20, False] == pytest.approx(2) for k in range(30))


def _loader_run(worker_state, worker_path=3, worker_cpu=0.0, second=None):
    """A main thread that waits in path 2 from 10 to 50 ms while a child process is in ``worker_path``."""
    rows = [(0, 5, 1, 5, STATE_RUNNING), (0, 12.5, 2, 2, STATE_IPC), (0, 47.5, 2, 0, STATE_IPC)]
    rows += [(1, t, worker_path, worker_cpu * 5, worker_state) for t in np.arange(2.5, 60, 5)]
    threads = [(0, 0, 0), (0, 1, -1)]
    if second is not None:
        rows += [(2, t, second[0], second[1] * 5, second[2]) for t in np.arange(2.5, 60, 5)]
        threads.append((0, 2, -1))
    places = _places(6, waits=(2,), no_user=(5,))
    return own_work(_gaps((0, 0, 50, 8, -1, 7)), _samples(*rows), _threads(*threads), places, PERIOD)


@pytest.mark.parametrize("state, cpu", [(STATE_RUNNING, 1.0), (STATE_ASLEEP, 0.0), (STATE_UNKNOWN, 1.0)])
def test_waiting_for_an_active_child_is_the_childs_work(state, cpu):
    own, activities = _loader_run(state, worker_cpu=cpu)
    assert _table(own, activities) == {
        (0, 1, 10, False): pytest.approx(8.75),
        (0, 3, 30, True): pytest.approx(41.25),
    }
    # The CPU is the main thread's own.
    assert own.cpu_s.sum() == pytest.approx(8e-3)


def test_two_active_helpers_share_the_wait():
    own, activities = _loader_run(STATE_RUNNING, worker_cpu=1.0, second=(4, 0.0, STATE_ASLEEP))
    seconds = _table(own, activities)
    assert seconds[0, 3, 30, True] == pytest.approx(41.25 / 2)
    assert seconds[0, 4, 40, True] == pytest.approx(41.25 / 2)


def test_helpers_that_wait_themselves_or_have_no_user_code_do_not_count():
    for own, activities in (_loader_run(STATE_LOCK), _loader_run(STATE_RUNNING, worker_path=5, worker_cpu=1.0)):
        assert _table(own, activities) == {(0, 1, 10, False): 8.75, (0, 2, 20, False): 41.25}


def test_a_helper_that_sleeps_is_active_from_the_first_to_the_last_look_that_saw_it():
    rows = [(0, 5, 1, 5, STATE_RUNNING), (0, 12.5, 2, 2, STATE_IPC), (0, 47.5, 2, 0, STATE_IPC)]
    rows += [(1, 5, 4, 5, STATE_RUNNING), (1, 10, 3, 1, STATE_ASLEEP), (1, 50, 3, 0, STATE_ASLEEP)]
    own, activities = own_work(
        _gaps((0, 0, 50, 8, -1, 7)), _samples(*rows), _threads((0, 0, 0), (0, 0, -1)), _places(5, waits=(2,)), PERIOD
    )
    assert _table(own, activities)[0, 3, 30, True] == pytest.approx(41.25)


def test_a_helper_was_active_for_what_its_first_sample_says_that_it_ran_and_waited_for_a_core():
    rows = [(0, 5, 1, 5, STATE_RUNNING), (0, 12.5, 2, 2, STATE_IPC), (0, 47.5, 2, 0, STATE_IPC)]
    rows += [(1, 37.5, 3, 20, STATE_RUNNING), (1, 42.5, 3, 5, STATE_RUNNING), (1, 47.5, 3, 5, STATE_RUNNING)]
    samples = _samples(*rows)
    samples.core_wait_ns[3] = 5 * MS
    own, activities = own_work(
        _gaps((0, 0, 50, 8, -1, 7)), samples, _threads((0, 0, 0), (0, 0, -1)), _places(5, waits=(2,)), PERIOD
    )
    seconds = _table(own, activities)  # it began at 12.5
    assert seconds[0, 2, 20, False] == pytest.approx(3.75, abs=3)
    assert seconds[0, 3, 30, True] == pytest.approx(37.5, abs=3)


@pytest.mark.parametrize("spinning", [False, True])
def test_spinning_for_the_team_is_the_work_of_whoever_is_late(spinning):
    # Main spins in 2 from 10 to 50 ms; of its team one works in 3, the other one spins too.
    rows = [(0, t, 1 if t < 10 else 2, 5, STATE_RUNNING) for t in np.arange(2.5, 50, 5)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 60, 5)]
    rows += [(2, t, 4, 5, STATE_RUNNING) for t in np.arange(2.5, 60, 5)]
    own, activities = own_work(
        _gaps((0, 0, 50, 50, -1, 7)), _samples(*rows), _threads((0, 0, 0), (0, 1, -1), (0, 2, -1)),
        _places(5, spins=(2, 4) if spinning else ()), PERIOD,
    )  # fmt: skip
    other = (0, 3, 30, True) if spinning else (0, 2, 20, False)
    assert _table(own, activities) == {(0, 1, 10, False): pytest.approx(10), other: pytest.approx(40)}


def test_a_sleeping_main_thread_keeps_its_sleep():
    rows = [(0, 2.5, 1, 2, STATE_ASLEEP), (0, 47.5, 1, 0, STATE_ASLEEP)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 50, 5)]
    own, activities = own_work(
        _gaps((0, 0, 50, 1, -1, 7)), _samples(*rows), _threads((0, 0, 0), (0, 0, -1)), _places(4), PERIOD
    )
    assert _table(own, activities) == {(0, 1, 10, False): 50}


def test_without_the_interpreter_lock_the_running_thread_of_the_process_is_the_cause():
    # Main is runnable in 1 but gets no CPU: from 0 to 30 ms another thread of its process runs, then a child does.
    rows = [(0, t, 1, 0.0, STATE_RUNNING) for t in np.arange(2.5, 60, 5)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 30, 5)] + [
        (1, t, 2, 0, STATE_LOCK) for t in (32.5, 57.5)
    ]
    rows += [(2, t, 4, 5, STATE_RUNNING) for t in np.arange(2.5, 60, 5)]
    own, activities = own_work(
        _gaps((0, 0, 60, 1, -1, 7)), _samples(*rows), _threads((0, 0, 0), (0, 0, -1), (0, 1, -1)), _places(5), PERIOD
    )
    assert _table(own, activities) == {(0, 1, 10, False): pytest.approx(30), (0, 3, 30, True): pytest.approx(30)}


def test_it_is_known_where_a_helper_is_waited_for():
    # Main waits for a lock in 2 until 30 ms, and in 1 for 10 ms more, while a thread of its process works in 3.
    rows = [(0, t, 2, 0, STATE_LOCK) for t in np.arange(2.5, 30, 5)]
    rows += [(0, t, 1, 0, STATE_LOCK) for t in np.arange(32.5, 40, 5)]
    rows += [(0, t, 1, 5, STATE_RUNNING) for t in np.arange(42.5, 60, 5)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 40, 5)]
    own, activities = own_work(
        _gaps((0, 0, 60, 1, -1, 7)), _samples(*rows), _threads((0, 0, 0), (0, 0, -1)), _places(4), PERIOD
    )
    assert _table(own, activities) == {(0, 1, 10, False): 22.5, (0, 3, 30, True): 37.5}
    where = dict(zip(activities.vertex.tolist(), zip(activities.waits_vertex, activities.waits_line), strict=True))
    assert where == {1: (-1, 0), 3: (2, 20)}
    waits = activities.waits
    assert activities.vertex[waits.activity].tolist() == [3, 3]
    assert dict(zip(waits.vertex.tolist(), waits.seconds.tolist(), strict=True)) == {1: 5e-3, 2: 0.0325}
    assert waits.interpreter_s.tolist() == waits.seconds.tolist()
    assert waits.at_s.tolist() == [0.05, 0.05]  # within the same tenth of a second


def test_who_waits_in_a_library_or_for_a_child_does_not_wait_for_the_interpreter():
    # Main waits in a function that waits until 30 ms, while a thread works; then for a child in another process.
    rows = [(0, t, 2, 0, STATE_LOCK) for t in np.arange(2.5, 30, 5)]
    rows += [(0, t, 1, 0, STATE_LOCK) for t in np.arange(32.5, 60, 5)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 30, 5)]
    rows += [(2, t, 4, 5, STATE_RUNNING) for t in np.arange(32.5, 60, 5)]
    threads = _threads((0, 0, 0), (0, 0, -1), (0, 1, -1))
    gaps, places = _gaps((0, 0, 60, 1, -1, 7)), _places(5, waits=(2,))
    _, activities = own_work(gaps, _samples(*rows), threads, places, PERIOD)
    waits = activities.waits
    assert set(activities.vertex[waits.activity].tolist()) == {3, 4}
    assert waits.seconds.sum() == pytest.approx(0.06)
    of_child = activities.vertex[waits.activity] == 4
    assert of_child.any() and not waits.interpreter_s[of_child | (waits.vertex == 2)].any()


def test_helpers_of_other_ranks_and_locations_in_calls_do_not_count():
    rows = [(0, 2.5, 2, 2, STATE_LOCK), (0, 47.5, 2, 0, STATE_LOCK)]
    rows += [(1, t, 3, 5, STATE_RUNNING) for t in np.arange(2.5, 50, 5)]  # another location of the rank, in a call
    rows += [(2, t, 4, 5, STATE_RUNNING) for t in np.arange(2.5, 50, 5)]  # a thread of another rank
    gaps = _gaps((0, 0, 50, 1, -1, 7), (1, 0, 0, 0, -1, 7), (1, 60, 60, 0, 7, -1))
    own, activities = own_work(gaps, _samples(*rows), _threads((0, 0, 0), (0, 0, 1), (1, 1, -1)), _places(5), PERIOD)
    assert _table(own, activities) == {(0, 2, 20, False): 50}


def test_active_seconds_count_who_does_something():
    rows = [(0, t, 1, 5, STATE_RUNNING) for t in (5, 10, 15)] + [(1, t, 2, 0, STATE_IPC) for t in (5, 10, 15)]
    seconds = active_s(_samples(*rows), _places(3, waits=(2,)), PERIOD)
    assert seconds == pytest.approx([5e-3, 5e-3, 5e-3, 0, 0, 0])


@st.composite
def _runs(draw):
    """Random locations with calls, samples anywhere, and helpers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    locations = draw(st.integers(1, 3))
    helpers = draw(st.integers(0, 3))
    gaps, rows, threads = [], [], []
    for location in range(locations):
        threads.append((location, location, location))
        time, before = float(rng.uniform(0, 5)), -1
        calls = int(rng.integers(0, 12))
        for k in range(calls + 1):
            length = float(rng.choice([0.0, 0.5, 3.0, 40.0])) * float(rng.random())
            after = int(rng.integers(6, 8)) if k < calls else -1
            gaps.append(
                (location, time, time + length, float(rng.choice([-1.0, rng.random() * length])), before, after)
            )
            time, before = time + length + float(rng.random()) * 8, after
    for helper in range(helpers):
        threads.append((int(rng.integers(0, locations)), locations + helper, -1))
    for thread in range(len(threads)):
        for t in np.sort(rng.uniform(-5, 200, int(rng.integers(0, 40)))):
            state = int(rng.integers(0, 6))
            rows.append((thread, float(t), int(rng.integers(0, 6)), float(rng.random() * 6), state))
    return gaps, rows, threads


@settings(max_examples=150, deadline=None)
@given(_runs())
def test_rows_of_every_gap_add_up(run):
    gaps, rows, threads = run
    table = _gaps(*gaps)
    own, activities = own_work(table, _samples(*rows), _threads(*threads), _places(6, waits=(2,), no_user=(0,)), PERIOD)
    length = (table.end_ns - table.start_ns) * 1e-9
    total = np.bincount(own.burst, weights=own.seconds, minlength=len(length))
    assert total == pytest.approx(length, abs=1e-9)
    cpu = np.bincount(own.burst, weights=own.cpu_s, minlength=len(length))
    exact = table.cpu_ns >= 0
    assert cpu[exact] == pytest.approx(np.minimum(table.cpu_ns * 1e-9, length)[exact], abs=1e-9)
    assert (np.diff(own.burst) >= 0).all()
    assert (own.seconds > 0).all() and (own.cpu_s >= 0).all() and (own.core_wait_s >= 0).all()
    assert (own.cpu_s + own.core_wait_s <= own.seconds + 1e-12).all()
    assert len(set(zip(own.burst.tolist(), own.activity.tolist(), strict=True))) == len(own)
    assert set(own.activity.tolist()) == set(range(len(activities)))


def test_what_was_off_the_cpu_stays_divided_as_samples_have_it_where_clocks_say_more_or_less_of_it():
    for cpu_ms, waited_ms in ((2, 6.0), (6, 3.0), (8, 1.5), (10, 0.0)):
        rows = Rows(*(np.array([value]) for value in (0, 0, 0.010, 0.006, 0.003, 2.0)))
        exact_cpu(rows, np.array([cpu_ms * 10**6]))
        assert rows.cpu_s.tolist() == pytest.approx([1e-3 * cpu_ms])
        assert rows.core_wait_s.tolist() == pytest.approx([1e-3 * waited_ms])


def _two_ranks_short_of_cores(rest_ms=2):
    """Rank 0 computes in 1 and writes in 2, for 20 ms of CPU in every gap of 120 ms, in which it has no core for the
    others but for ``rest_ms`` after each of its samples; rank 1 computes as long in 1, and has none for 20 ms."""
    rows, gaps = [], []
    for turn in range(10):
        long, short = 120 * turn, 40 * turn
        gaps += [(0, long, long + 120, 20, 7, 8), (1, short, short + 40, 20, 7, 8)]
        rows += [(0, long + at, 2 if at == 45 else 1, 5, STATE_RUNNING) for at in (15, 45, 75, 105)]
        rows += [(1, short + at, 1, 5, STATE_RUNNING) for at in (5, 15, 25, 35)]
    samples = _samples(*sorted(rows))
    samples.core_wait_ns[:] = np.where(samples.thread == 0, (25 - rest_ms) * MS, 5 * MS)
    return _gaps(*sorted(gaps)), samples, _threads((0, 0, 0), (1, 1, 1))


def _by_location(own, activities, bursts):
    """Seconds, and seconds without a core, by location and vertex."""
    spent, core_wait = np.zeros((2, 3)), np.zeros((2, 3))
    at = bursts.location[own.burst], activities.vertex[own.activity]
    np.add.at(spent, at, own.seconds)
    np.add.at(core_wait, at, own.core_wait_s)
    return spent, core_wait


def test_waits_for_a_core_after_short_rests_are_told_where_it_rests():
    bursts, samples, threads = _two_ranks_short_of_cores()
    places = _places(3, native=(1, 2), computes=(1,), calls_rest=(2,))
    spent, core_wait = _by_location(*own_work(bursts, samples, threads, places, PERIOD), bursts)
    assert spent.sum(axis=1) == pytest.approx([1.2, 0.4])
    # 92 ms in a gap are 77 more than what as much computing, of 15 ms, waits for a core without rests.
    assert core_wait.sum(axis=1) == pytest.approx([0.15, 0.2], rel=0.05)
    assert spent[0, 2] - core_wait[0, 2] == pytest.approx(0.77 + 0.07, rel=0.05)


@pytest.mark.parametrize("rest_ms", [0, 2])
def test_waits_for_a_core_stay_where_a_thread_computes_that_is_looked_at_or_never_rests(rest_ms):
    bursts, samples, threads = _two_ranks_short_of_cores(rest_ms)
    native = (1, 2) if rest_ms == 0 else ()
    samples.state[samples.path == 2] = STATE_ASLEEP
    places = _places(3, native=native, computes=native[:1], calls_rest=native[1:])
    spent, core_wait = _by_location(*own_work(bursts, samples, threads, places, PERIOD), bursts)
    assert spent.sum(axis=1) == pytest.approx([1.2, 0.4])
    assert core_wait.sum(axis=1) == pytest.approx([1.0 - 0.04 * rest_ms, 0.2], rel=0.06)
    assert spent[0, 2] < 0.36  # of 0.3 that lie around its samples


def test_a_rest_takes_as_long_as_it_was_seen_though_the_thread_has_no_core_for_most_of_what_follows():
    """Turns of 400 ms: a rest of 40, and 30 of computing, which get a core for 3 of 36 ms each."""
    rows, waits, bursts, others = [], [], [], []
    for turn in range(8):
        start = 500 * turn
        bursts.append((0, start, start + 400, 30, 7, 8))
        others.append((0, start + 400, start + 500, 50, 8, 7))
        rows += [(0, start + 2, 2, 0, STATE_ASLEEP), (0, start + 39, 2, 0, STATE_ASLEEP)]
        rows += [(0, start + 40 + 36 * k, 1, 3, STATE_RUNNING) for k in range(1, 11)]
        rows += [(0, start + 400 + 10 * k, 1, 5, STATE_RUNNING) for k in range(1, 10)]
        waits += [0, 0, *[33] * 10, *[0.5] * 9]
    samples = _samples(*rows)
    samples.core_wait_ns[:] = [round(wait * MS) for wait in waits]
    gaps = _gaps(*sorted(bursts + others, key=lambda row: row[1]))
    for native in ((), (1, 2)):
        places = _places(3, native=native, computes=native[:1])
        own, activities = own_work(gaps, samples, _threads((0, 0, 0)), places, PERIOD)
        seconds, core_wait = _table(own, activities), _table(own, activities, "core_wait_s")
        rests = [ms for (_, vertex, _, _), ms in seconds.items() if vertex == 2]
        assert sum(rests) == pytest.approx(8 * 40, rel=0.1)
        lacked = [ms for (burst, vertex, _, _), ms in core_wait.items() if vertex == 1 and burst % 2 == 0]
        assert sum(lacked) == pytest.approx(8 * 330, rel=0.05)
