"""Calls that another thread of the process held up, by the interpreter's lock: told when they came, and were done.

A thread needs the lock to go on when it comes back from a communication library, and some libraries take it once more
on the way to the network. If another thread of its process keeps it, the call seems to come earlier than it did, or to
end later. Both show beside the other members of the operation: it was complete for nobody before the late one came, or
it was complete for the others long ago. Such calls are shortened, so that what lies before or behind them is divided
like any other time in which a location waits for a helper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import to_ns, to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.timeline import Calls, Instances
from scalana.runtime.operations import OPERATIONS, Waits
from scalana.runtime.record.format import STATE_RUNNING

ORDINARY = 0.25
"""Quantile of what operations of one place take, once all are there, that counts as ordinary."""
HELD = 0.6
"""Part of the time in question in which another thread must run Python code of the user's."""


def shorten_gil_contention(
    calls: Calls, instances: Instances, samples: Samples, threads: Threads, places: Places, period_ns: int
) -> None:
    """Shorten such calls of operations that all members wait for.

    Times of all arguments are those of one axis. Nothing happens where no other thread runs code of the user's.
    """
    helpers = _Helpers.of(samples, threads, places)
    if not len(helpers.process):
        return
    located = np.flatnonzero(threads.location >= 0)
    process = np.empty(len(located), np.int64)
    process[threads.location[located]] = threads.process[located]
    ends = _Ends.of(calls, instances)
    call, come_s = _late_arrivals(calls, instances, ends, 1e-9 * period_ns)
    come_ns, enter_ns = to_ns(come_s), to_ns(calls.enter_s[call])
    held = helpers.held(process[calls.location[call]], enter_ns, come_ns, period_ns)
    call = call[held]
    calls.enter_s[call] = to_seconds(np.clip(come_ns[held], enter_ns[held], to_ns(calls.exit_s[call])))

    call, done_s = _late_exits(calls, _Ends.of(calls, instances), 1e-9 * period_ns)
    done_ns, exit_ns = to_ns(done_s), to_ns(calls.exit_s[call])
    held = helpers.held(process[calls.location[call]], done_ns, exit_ns, period_ns)
    call = call[held]
    calls.exit_s[call] = to_seconds(np.clip(done_ns[held], to_ns(calls.enter_s[call]), exit_ns[held]))


@dataclass(slots=True)
class _Ends:
    """Calls that end with one operation, all of whose members they need."""

    call: IntArray
    """``[ends]``"""
    instance: IntArray
    """``[ends]``"""
    there_s: FloatArray
    """When all members of an operation were there ``[instances]``."""

    @classmethod
    def of(cls, calls: Calls, instances: Instances) -> _Ends:
        """Find them."""
        meets = np.zeros(max(row.code for row in OPERATIONS) + 1, np.bool_)
        meets[[row.code for row in OPERATIONS if row.waits == Waits.ALL]] = True
        single = np.flatnonzero(np.diff(calls.wait_first) == 1)
        instance = calls.waits[calls.wait_first[single]]
        usable = instances.complete[instance] & meets[instances.operation[instance]]
        there = np.full(len(instances), -np.inf)
        np.maximum.at(there, _instance_of_member(instances), calls.enter_s[instances.members])
        return cls(single[usable], instance[usable], there)


def _instance_of_member(instances: Instances) -> IntArray:
    return np.repeat(np.arange(len(instances), dtype=np.int64), np.diff(instances.first))


def _late_arrivals(calls: Calls, instances: Instances, ends: _Ends, period_s: float) -> tuple[IntArray, FloatArray]:
    """Calls that were under way while an operation that seemed to have all its members was complete for nobody, and
    when each may have come at the earliest."""
    first_end = np.full(len(instances), np.inf)
    np.minimum.at(first_end, ends.instance, calls.exit_s[ends.call])
    known = np.flatnonzero(np.isfinite(first_end))
    if not len(known):
        return known, np.zeros(0)
    took = np.maximum(first_end[known] - ends.there_s[known], 0.0)
    usual = np.zeros(len(instances))
    usual[known] = _quantile(calls.vertex[instances.members[instances.first[known]]], took, ORDINARY)
    owner = _instance_of_member(instances)
    come = np.minimum(first_end[owner] - usual[owner], calls.exit_s[instances.members])
    late = np.isfinite(first_end[owner]) & (come > ends.there_s[owner] + period_s)
    return instances.members[late], come[late]


def _late_exits(calls: Calls, ends: _Ends, period_s: float) -> tuple[IntArray, FloatArray]:
    """Calls that ended later than their like once all members were there, and when those would have ended."""
    call = ends.call
    since = np.maximum(ends.there_s[ends.instance], calls.enter_s[call])
    took = np.maximum(calls.exit_s[call] - since, 0.0)
    # Ordinary at the place over the run, or for half of the members of this very operation: payloads may differ.
    usual = np.maximum(_quantile(calls.vertex[call], took, ORDINARY), _quantile(ends.instance, took, 0.5))
    late = took - usual > period_s
    return call[late], (since + usual)[late]


def _quantile(key: IntArray, value: FloatArray, q: float) -> FloatArray:
    """Of every row, the value at a lower quantile of the rows with its key ``[rows]``."""
    order = np.lexsort((value, key))
    if not len(order):
        return np.zeros(0)
    ordered = key[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    size = np.diff(np.r_[first, len(order)])
    result = np.empty(len(key))
    result[order] = np.repeat(value[order][first + np.floor(q * (size - 1)).astype(np.int64)], size)
    return result


@dataclass(slots=True)
class _Helpers:
    """Samples in which threads that do not communicate ran Python code of the user's, in the ranks' own processes."""

    process: IntArray
    """``[samples of helpers]``"""
    time_ns: IntArray
    """``[samples of helpers]``"""

    @classmethod
    def of(cls, samples: Samples, threads: Threads, places: Places) -> _Helpers:
        """Choose them."""
        helps = (threads.location < 0) & threads.is_own
        rows = np.flatnonzero((samples.state == STATE_RUNNING) & helps[samples.thread])
        path = samples.path[rows]
        rows = rows[(places.line[path] > 0) & ~places.waits[path]]
        return cls(threads.process[samples.thread[rows]].astype(np.int64), samples.time_ns[rows])

    def held(self, process: IntArray, since_ns: IntArray, until_ns: IntArray, period_ns: int) -> BoolArray:
        """Whether they ran for most of the time of each stretch."""
        if not len(process):
            return np.zeros(0, np.bool_)
        origin = min(int(self.time_ns.min()), int(since_ns.min()))
        span = max(int(self.time_ns.max()), int(until_ns.max())) - origin + 1
        key = np.sort(self.process * span + (self.time_ns - origin))
        here = process * span - origin
        ran = np.searchsorted(key, here + until_ns, "right") - np.searchsorted(key, here + since_ns, "left")
        return np.asarray(ran * period_ns >= HELD * (until_ns - since_ns))
