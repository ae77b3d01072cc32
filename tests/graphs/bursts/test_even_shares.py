"""Gaps about as long as the time between two samples: what lies in their middle is told no more than it took."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.attribution.places import Places
from scalana.graphs.bursts.even_shares import lengths
from scalana.graphs.bursts.own_work import own_work
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.runtime.record.format import STATE_ASLEEP, STATE_RUNNING

MS = 1_000_000
PERIOD = 5 * MS


def _run(length_ms, parts, count, call_ms=0.3, jitter_ms=0.0):
    """Seconds told of each function, where gaps of a thread go through all of them one after the other and are sampled
    every period; and what they took. The seconds of each gap, too."""
    random = np.random.default_rng(7)
    length = np.rint((length_ms + jitter_ms * random.random(count)) * MS).astype(np.int64)
    start = np.concatenate(([0], np.cumsum(length + round(call_ms * MS))[:-1]))
    end = start + length
    time = np.arange(0, end[-1] - PERIOD, PERIOD)
    time += np.rint(random.random(len(time)) * PERIOD / 4).astype(np.int64)
    gap = np.searchsorted(start, time, side="right") - 1
    inside = time < end[gap]
    edges = np.cumsum(parts) / np.sum(parts)
    at = np.searchsorted(edges, (time - start[gap]) / length[gap], side="right")
    path = np.where(inside, np.minimum(at, len(parts) - 1) + 1, 0)
    ones = np.ones(len(time), np.int64)
    samples = Samples(0 * ones, time, path, PERIOD * ones, 0 * ones, STATE_RUNNING * ones)
    each = np.ones(count, np.int64)
    gaps = Bursts(0 * each, start, end, length, 5 * each, 6 * each, np.arange(count), 99 * each, 990 * each)
    threads = Threads(
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, bool), np.ones(1, bool), np.zeros(1, int)
    )
    paths = np.arange(len(parts) + 1)
    none = np.zeros(len(paths), bool)
    own, activities = own_work(gaps, samples, threads, Places(paths, 10 * paths, none, none, none, ~none, none), PERIOD)
    vertex = activities.vertex[own.activity]
    told = np.bincount(vertex, own.seconds, len(parts) + 1)[1:]
    cpu = np.bincount(vertex, own.cpu_s, len(parts) + 1)[1:]
    assert np.bincount(own.burst, own.seconds, count) == pytest.approx(length * 1e-9)
    assert np.bincount(own.burst, own.cpu_s, count) == pytest.approx(length * 1e-9)
    return told, cpu, length.sum() * 1e-9 * np.array(parts) / np.sum(parts)


@pytest.mark.parametrize("jitter_ms", [0.0, 4.0])
@pytest.mark.parametrize("length_ms", [2.1, 4.3, 6.2, 7.7, 9.6, 12.4, 23.1])
def test_functions_that_follow_each_other_are_told_what_they_took(length_ms, jitter_ms):
    told, cpu, took = _run(length_ms, [1, 1, 1], 4000, jitter_ms=jitter_ms)
    assert told == pytest.approx(took, rel=0.06)
    assert cpu == pytest.approx(took, rel=0.06)


def test_a_short_function_amid_long_ones_is_told_what_it_took():
    told, _, took = _run(7.7, [5, 1, 5], 6000)
    assert told == pytest.approx(took, rel=0.08)


def test_few_samples_are_not_moved():
    told, _, took = _run(7.7, [1, 1, 1], 9)
    assert told.sum() == pytest.approx(took.sum())
    assert sorted(told)[-1] > 1.1 * took[0]  # as they fell


def test_gaps_alike_are_about_as_long_as_each_other():
    cpu = np.array([5.0, 5.2, 10.0, -1.0, 0.0]) * MS
    each = np.ones(5, np.int64)
    gaps = Bursts(each, 0 * each, 20 * MS * each, cpu.astype(np.int64), each, each, each, each, each)
    assert lengths(gaps, PERIOD).tolist() == [0, 0, 4, 8, -16]


def test_rests_stay_where_they_were_found():
    each = np.ones(400, np.int64)
    start = np.arange(400) * 20 * MS
    gaps = Bursts(0 * each, start, start + 15 * MS, 5 * MS * each, 5 * each, 6 * each, np.arange(400), 99 * each, each)
    time = (start[:, None] + np.array([4, 5, 15]) * MS).ravel()
    state = np.tile([STATE_RUNNING, STATE_ASLEEP, STATE_ASLEEP], 400)
    cpu = np.tile([4 * MS, MS, 0], 400)
    path = np.tile([1, 2, 2], 400)
    zeros = np.zeros(len(time), np.int64)
    threads = Threads(
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, bool), np.ones(1, bool), np.zeros(1, int)
    )
    none = np.zeros(3, bool)
    places = Places(np.arange(3), 10 * np.arange(3), none, none, none, none, none)
    own, activities = own_work(gaps, Samples(zeros, time, path, cpu, zeros, state), threads, places, PERIOD)
    told = np.bincount(activities.vertex[own.activity], own.seconds, 3)
    assert told[2] == pytest.approx(400 * 0.010, rel=0.1)
    assert told.sum() == pytest.approx(6.0)
