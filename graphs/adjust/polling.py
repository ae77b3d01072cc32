"""Loops that ask whether something has come, until it has: they wait for it, like a call that blocks.

A program may test a request (``MPI_Test``) or look for messages (``MPI_Iprobe``) over and over, with a sleep in between
or without. Tests that fail are no events, but their call paths have sums, and samples tell where the time went. Where
most of what lies before a call was polling, and that ended because what the call waits for had come, the call is taken
to begin where the polling did.

Others look for a file or a key that another rank is to write, asleep in between. That is no communication that is
recorded, but the head of the loop shows it: such a rank waits for who comes to the next call without such a loop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.columns import to_ns, to_seconds
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.shards import each, rows_of_ranges
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.calls.located import Located, bursts_of, outside_communication, samples_of
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.samples.between import stretches_of
from scalana.graphs.samples.in_bursts import InGaps
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Calls, Instances
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import STATE_ASLEEP

_TEST = BY_NAME["test"].code
_LOOKS = re.compile(r"while\b.*\b(exists|is_?file|is_set|check|done|ready|poll|access|stat)\s*\(")
"""The head of a loop that looks for what somebody else is to make."""
_OF_LOOP = (VertexKind.COMP, VertexKind.BRANCH, VertexKind.COMM)
POLLING = 0.75
"""Part of the time up to a call that must be polling, from where it is taken to begin."""
ASLEEP = 0.25
"""Part of what a call path takes, but for waiting for a core, that it must be found asleep for it to be a sleep. Where
cores are rare, who sleeps for a millisecond waits for a core for ten times as long when it wakes up."""
AWAITED = 0.5
"""Part of the polling in which that which ends it must not have come: who goes on sleeping does not wait for it. Not
asked of tests that were repeated without a pause: only the library or a core kept it from them."""


def begin_with_polling(
    calls: Calls,
    instances: Instances,
    located: list[Located],
    data: Gathered,
    places: Places,
    psg: PSG,
    period_ns: int,
) -> None:
    """Let calls begin where the polling for what they wait for did.

    Nothing happens where no test failed, and no loop looks for what others make.
    """
    polling = polling_paths(data, located, places, psg, period_ns)
    if polling is None:
        return
    enclosing = outside_communication(psg)
    first_call = np.concatenate(([0], np.cumsum([len(part) for part in located]))).tolist()

    def find(number: int) -> Polled:
        part, at = located[number], slice(first_call[number], first_call[number + 1])
        bursts = bursts_of(part, to_ns(calls.enter_s[at]), to_ns(calls.exit_s[at]), calls.vertex[at], places, enclosing)
        polled = polled_until(bursts, part, data, polling, places, period_ns)
        return polled.of_calls(bursts.number, len(part))

    found = each(find, range(len(located)))
    enter_s = calls.enter_s.copy()  # of a rank that looks: if all do, they wait for somebody outside
    for first, polled in zip(first_call, found, strict=False):
        enter_s[first + polled.burst[polled.looks]] = to_seconds(polled.begin_ns[polled.looks])
    for part, first, (here, begin_ns, cpu_ns, asks, looks) in zip(located, first_call, found, strict=False):
        call, begin_s = first + here, to_seconds(begin_ns)
        tested_s, looked_s = (awaited_s(since_s, calls, instances, call) for since_s in (calls.enter_s, enter_s))
        came_s = np.where(looks, looked_s, tested_s)
        waits = asks | (came_s - begin_s >= AWAITED * (calls.enter_s[call] - begin_s))
        call, here = call[waits], here[waits]
        calls.enter_s[call] = begin_s[waits]
        calls.cpu_s[call] += to_seconds(cpu_ns[waits])
        clock = part.spans.cpu_enter_ns.astype(np.int64)
        clock[here] -= np.where(clock[here] >= 0, np.minimum(cpu_ns[waits], clock[here]), 0)
        part.spans.cpu_enter_ns = clock


@dataclass(frozen=True, slots=True)
class Polling:
    """The call paths of polling."""

    tests: BoolArray
    """Calls that ask, and did so at least once in vain ``[paths]``."""
    spinning: BoolArray
    """These, and what they call, but for sleeps ``[paths]``."""
    paths: BoolArray
    """These, the loop around them (without other loops in it, and what it calls), and sleeps in there ``[paths]``."""
    beside: BoolArray
    """Other code of a library's function that asks. Where its loops are is not known: once it asks, it is its loop
    ``[paths]``."""
    looks: BoolArray
    """Sleeps in loops that look for what others make ``[paths]``."""


class Polled(NamedTuple):
    """Bursts that end with polling."""

    burst: IntArray
    """Or the numbers of the calls behind them ``[polled]``."""
    begin_ns: IntArray
    """When that began ``[polled]``."""
    cpu_ns: IntArray
    """The CPU time that it took ``[polled]``."""
    asks: BoolArray
    """Whether it was spent in the tests themselves ``[polled]``."""
    looks: BoolArray
    """Whether it was a look for what others make ``[polled]``."""

    def of_calls(self, number: IntArray, calls: int) -> Polled:
        """Those before calls, by the numbers of these, of which there are so many; ``number`` is that of each burst."""
        at = number[self.burst]
        some = at < calls
        return Polled(at[some], self.begin_ns[some], self.cpu_ns[some], self.asks[some], self.looks[some])


def polling_paths(data: Gathered, located: list[Located], places: Places, psg: PSG, period_ns: int) -> Polling | None:
    """The paths that are a part of polling; None where no test failed, and no loop looks for what others make."""
    totals, samples, count = data.totals, data.samples, len(places.vertex)
    asleep = np.bincount(samples.path, samples.state == STATE_ASLEEP, count)
    ran = np.bincount(samples.path, samples.cpu_ns, count) / period_ns
    rests = asleep > ASLEEP * (asleep + ran)
    looks = rests & _in_looks(asleep + ran, places, psg)
    rows = np.flatnonzero(totals.operation == _TEST)
    asked = np.bincount(totals.path[rows], totals.calls[rows], count)
    for part in located:
        asked -= np.bincount(part.spans.path, minlength=count)
    tests = asked > 0
    if not tests.any() and not looks.any():
        return None
    tops: dict[int, bool] = {}
    for vertex in np.unique(places.vertex[tests]).tolist():
        for top, asks in _tops(vertex, psg):
            tops[top] = tops.get(top, False) or asks
    inside, directly = _around(tops, psg)
    sleeps = inside[places.vertex] & rests
    called = with_callees(data.tree.parent, tests)
    paths = called | directly[places.vertex] | sleeps | looks
    return Polling(tests, called & ~sleeps, paths, _beside(data.tree, tests, places, psg) & ~paths, looks & ~sleeps)


def _in_looks(seen: FloatArray, places: Places, psg: PSG) -> BoolArray:
    """Whether paths lie in a loop that looks for what others make, and does nothing else that is seen for long: its own
    lines, and what a library does for them ``[paths]``. ``seen`` are the samples of each ``[paths]``."""
    inside = np.zeros(len(psg.vertices), np.bool_)
    of_vertex = np.bincount(places.vertex, seen, len(psg.vertices))
    for loop in psg.vertices:
        if loop.kind is VertexKind.LOOP and _LOOKS.match(loop.place.name) and of_vertex[loop.index :].any():
            below = [vertex.index for vertex in psg.walk(loop.index)]
            function = psg.enclosing(loop.index, VertexKind.FUNCTION)
            own = [at for at in below if psg.enclosing(at, VertexKind.FUNCTION) == function]
            if not psg.communicates(loop.index) and of_vertex[own].sum() >= POLLING * of_vertex[below].sum():
                inside[own] = True
    return inside[places.vertex]


def _beside(tree: CallTree, tests: BoolArray, places: Places, psg: PSG) -> BoolArray:
    """Paths that end in the functions of libraries that ask, called alike ``[paths]``."""
    asking = np.flatnonzero(tests)
    asking = asking[[psg[vertex].kind is VertexKind.CALL for vertex in places.vertex[asking].tolist()]]
    function = tree.parent * len(tree.codes) + tree.code
    return np.isin(function, function[asking])


def with_callees(parent: IntArray, paths: BoolArray) -> BoolArray:
    """The same paths, and all that go on from them ``[paths]``."""
    while True:
        more = paths | paths[parent]
        if (more == paths).all():
            return paths
        paths = more


def _tops(vertex: int, psg: PSG) -> list[tuple[int, bool]]:
    """The innermost loop around a test, in its function or in what calls that, and that it asks itself. Of a test in a
    library's call this call, and the loop around it in its function, which may rest between two of them: the library
    may go on asking in there, or ask once."""
    within = psg[vertex].kind is VertexKind.CALL
    tops = [(vertex, False)] if within else []
    functions = len(tops)
    for above in psg.ancestors(vertex):
        if above.kind is VertexKind.LOOP:
            return [*tops, (above.index, not within)]
        functions += above.kind is VertexKind.FUNCTION
        if above.kind is VertexKind.CALL or functions > 1:
            break
    return tops


def _around(tops: dict[int, bool], psg: PSG) -> tuple[BoolArray, BoolArray]:
    """Whether vertices lie in one of some loops or calls, and whether they are code of such a loop itself, that asks,
    ``[vertices]``. Functions of the user's that a library's call calls back do not lie in it."""
    inside, directly = np.full(len(psg.vertices), -1, np.int64), np.zeros(len(psg.vertices), np.bool_)
    for vertex in psg.vertices:
        at, above = vertex.index, vertex.parent
        if at in tops:
            inside[at], directly[at] = at, tops[at]
        elif above >= 0 and inside[above] >= 0:
            called_back = vertex.kind is VertexKind.FUNCTION and psg[int(inside[above])].kind is VertexKind.CALL
            inside[at] = -1 if called_back else inside[above]
            directly[at] = directly[above] and vertex.kind in _OF_LOOP
    return inside >= 0, directly


def polled_until(
    bursts: Bursts, part: Located, data: Gathered, polls: Polling, places: Places, period_ns: int
) -> Polled:
    """The bursts that end with polling."""
    samples = samples_of(data, part.shard)
    there = InGaps.of(bursts, samples, part.threads, stretches_of(samples, places, period_ns))
    burst, left = there.burst, there.left_ns
    nothing = np.zeros(0, np.int64)
    if not len(burst):
        return Polled(nothing, nothing, nothing, np.zeros(0, np.bool_), np.zeros(0, np.bool_))
    path = samples.path[there.rows]
    asking, looking, strictly = polls.spinning[path], polls.looks[path], polls.paths[path]
    polling = strictly | polls.beside[path]
    first = np.flatnonzero(np.r_[True, burst[1:] != burst[:-1]])
    size = np.diff(np.r_[first, len(burst)])
    end = np.repeat(first + size, size)
    polled, asked, looked = (
        np.r_[0, np.cumsum(np.where(which, there.right_ns - left, 0))] for which in (polling, asking, looking)
    )
    begins = strictly & (polled[end] - polled[:-1] >= POLLING * (bursts.end_ns[burst] - left))
    begin = np.minimum.reduceat(np.where(begins, np.arange(len(burst)), len(burst)), first)
    begin = begin[begin < len(burst)]
    cpu_s = np.r_[0.0, np.cumsum(there.cpu_s)]
    cpu_ns = np.maximum(to_ns(cpu_s[end[begin]] - cpu_s[begin]), 0)
    asks, looks = (
        sums[end[begin]] - sums[begin] >= POLLING * (bursts.end_ns[burst[begin]] - left[begin])
        for sums in (asked, looked)
    )
    # A rank that polls without a sleep, and gives its core away, may not be seen at all: like bursts tell of it.
    sampled = np.zeros(len(bursts.location), np.bool_)
    sampled[burst[first]] = True
    alike, _ = number_columns(bursts.before, bursts.after)
    seen_ns = np.bincount(alike, np.where(sampled, bursts.end_ns - bursts.start_ns, 0))

    def mostly(sums: IntArray) -> BoolArray:
        spent_ns = np.bincount(alike[burst[first]], sums[first + size] - sums[first], len(seen_ns))
        return ((seen_ns > 0) & (spent_ns >= POLLING * seen_ns))[alike]

    unseen = np.flatnonzero(~sampled & mostly(polled))
    return Polled(
        np.concatenate((burst[begin], unseen)),
        np.concatenate((left[begin], bursts.start_ns[unseen])),
        np.concatenate((cpu_ns, np.maximum(bursts.cpu_ns[unseen], 0))),
        np.concatenate((asks, mostly(asked)[unseen])),
        np.concatenate((looks, mostly(looked)[unseen])),
    )


def awaited_s(enter_s: FloatArray, calls: Calls, instances: Instances, call: IntArray) -> FloatArray:
    """When the last of what some calls wait for came from other locations, -inf where that is not known ``[calls]``;
    ``enter_s`` is when each call of the run began."""
    owner, instance = _ranges(calls.wait_first, call)
    instance = calls.waits[instance]
    row, member = _ranges(instances.first, instance)
    member = instances.members[member]
    usable = instances.complete[instance[row]] & (calls.location[member] != calls.location[call[owner[row]]])
    result = np.full(len(call), -np.inf)
    np.maximum.at(result, owner[row[usable]], enter_s[member[usable]])
    return result


def _ranges(first: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The entries of some rows of a compressed table, and for each of them which of ``rows`` it is of."""
    size = first[rows + 1] - first[rows]
    owner = np.repeat(np.arange(len(rows)), size)
    return owner, rows_of_ranges(first[rows], size)
