"""Ranks that compute attention over the parts of each sequence that all of them have: context parallelism.

It shows in their messages. In **ring attention** every rank sends keys and values to the next one, and receives those
of the one before, again and again; it sends before it has received, so that nothing is handed on that was computed of
what came, as a pipeline does it. Or keys and values are **gathered** on all ranks by a collective.

Programs run the same calls on all of these ranks, so that the n-th call of each is the same one. The stretch before it
is a slot here, and so is the one behind the last: what one rank does in a slot, the others do, too, for other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.counts import SHOWS_THE_USUAL
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Calls, Timeline
from scalana.runtime.operations import BY_NAME

RING, GATHER = "ring", "gather"

_SEND, _RECEIVE, _GATHER = (BY_NAME[name].code for name in ("send", "recv", "allgather"))


@dataclass(frozen=True, slots=True)
class ContextGroup:
    """Ranks that divide sequences among them."""

    way: str
    """How keys and values come to all ranks: :data:`RING` or :data:`GATHER`."""
    ranks: tuple[int, ...]
    """In the order of their parts."""
    end: IntArray
    """The burst that each slot ends with ``[ranks, slots]``."""
    carrier: int
    """A call that sends keys or values."""

    def as_change(self, more_s: FloatArray, work_s: FloatArray, chosen: BoolArray, timeline: Timeline) -> FloatArray:
        """What to take out of every burst so that ranks work longer in slots, or shorter where it is negative
        ``[ranks, slots]``: in proportion to ``work_s``, what they work there in the chosen rows of own work, or at the
        end of a slot where that is nothing ``[bursts]``."""
        own = timeline.own
        place, slot = self.slots(timeline)
        rows = np.flatnonzero(chosen & (slot[own.burst] >= 0))
        part = np.divide(more_s, work_s, out=np.zeros(work_s.shape), where=work_s > 0.0)
        own_s = (own.seconds - own.core_wait_s)[rows] * part[place[own.burst[rows]], slot[own.burst[rows]]]
        removed = -weighted_count(own.burst[rows], own_s, len(place))
        np.subtract.at(removed, self.end[work_s <= 0.0], more_s[work_s <= 0.0])
        return removed

    def slots(self, timeline: Timeline) -> tuple[IntArray, IntArray]:
        """The place among :attr:`ranks` and the slot of every burst, -1 where it is in none, each ``[bursts]``."""
        location = burst_locations(timeline)
        bursts = np.arange(len(location))
        place, slot = np.full(len(bursts), -1), np.full(len(bursts), -1)
        for at, ends in enumerate(self.end):
            for one in np.unique(location[ends]).tolist():
                # Bursts of a location ascend as the calls behind them, with the last one behind those of all.
                rows = np.flatnonzero(location[ends] == one)
                inside = np.flatnonzero((location == one) & (bursts <= ends[rows[-1]]))
                place[inside] = at
                slot[inside] = rows[np.searchsorted(ends[rows], inside)]
        return place, slot


def context_groups(timeline: Timeline) -> Iterator[ContextGroup]:
    """All groups that may be such ones by their messages; what they compute says whether they are."""
    if timeline.unwritten is None:
        yield from _rings(timeline)
        yield from _gathering(timeline)


# ---- rings ----


@dataclass(frozen=True, slots=True)
class _Messages:
    """Messages of which both ends are known, each ``[messages]``."""

    instance: IntArray
    communicator: IntArray
    sent: IntArray
    """The call that sends it."""
    came: IntArray
    """The call by which its receiver has it."""
    source: IntArray
    target: IntArray


def _messages(timeline: Timeline) -> _Messages:
    """The messages of torch in a run."""
    calls, instances, rank = timeline.calls, timeline.instances, timeline.locations.rank
    two = instances.complete & (np.diff(instances.first) == 2) & (instances.operation == _SEND)
    found = np.flatnonzero(two)
    sent, posted = (instances.members[instances.first[found] + at].astype(np.int64) for at in (0, 1))
    came = last_waits(timeline, calls.location[posted], found)
    source, target = (rank[calls.location[call]].astype(np.int64) for call in (sent, posted))
    kept = (calls.operation[posted] == _RECEIVE) & (source != target) & (came >= 0)
    columns = (found, instances.communicator[found].astype(np.int64), sent, came, source, target)
    return _Messages(*(column[kept] for column in columns))


def last_waits(timeline: Timeline, location: IntArray, instance: IntArray) -> IntArray:
    """The last call of some locations that waits for an instance, -1 where none does ``[instances]``."""
    calls = timeline.calls
    row = np.full(len(timeline.instances), -1, np.int64)
    row[instance] = np.arange(len(instance))
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    at = row[calls.waits]
    call, at = call[at >= 0], at[at >= 0]
    mine = calls.location[call] == location[at]
    result = np.full(len(instance), -1, np.int64)
    result[at[mine]] = call[mine]
    return result


def _rings(timeline: Timeline) -> Iterator[ContextGroup]:
    messages = _messages(timeline)
    for communicator in np.unique(messages.communicator).tolist():
        here = np.flatnonzero(messages.communicator == communicator)
        after = dict(zip(messages.source[here].tolist(), messages.target[here].tolist(), strict=True))
        pairs = len(np.unique(messages.source[here] * timeline.ranks + messages.target[here]))
        if pairs != len(after) or len(set(after.values())) != len(after):
            continue  # a rank sends to several, or receives from several
        for ranks in _circles(after):
            mine = here[np.isin(messages.source[here], ranks)]
            ends = _slot_ends(timeline, ranks, messages.instance[mine])
            if ends is not None and _send_before_receiving(messages, mine, timeline):
                yield ContextGroup(RING, ranks, ends, int(messages.sent[mine[0]]))


def _circles(after: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """The rings among ranks of which it is known whom each sends to, each in ascending order."""
    left = dict(after)
    while left:
        first = rank = next(iter(left))
        ring = []
        while rank in left:
            ring.append(rank)
            rank = left.pop(rank)
        if rank == first and len(ring) > 1:
            yield tuple(sorted(ring))


def _send_before_receiving(messages: _Messages, mine: IntArray, timeline: Timeline) -> bool:
    """Whether every rank posts its n-th message before it has received its n-th, and all as many of them."""
    sent_s, came_s = timeline.calls.enter_s[messages.sent[mine]], timeline.calls.exit_s[messages.came[mine]]
    for rank in np.unique(messages.source[mine]).tolist():
        sent, came = sent_s[messages.source[mine] == rank], came_s[messages.target[mine] == rank]
        if len(sent) != len(came) or not (np.sort(sent) <= np.sort(came)).all():
            return False
    return True


# ---- collectives ----


def _gathering(timeline: Timeline) -> Iterator[ContextGroup]:
    """Communicators of more than two ranks that gather: of two, one may be as much slower for any reason."""
    instances, calls = timeline.instances, timeline.calls
    gathers = np.flatnonzero(instances.complete & (instances.operation == _GATHER) & (instances.communicator >= 0))
    for communicator in np.unique(instances.communicator[gathers]).tolist():
        all_of_it = np.flatnonzero(instances.complete & (instances.communicator == communicator))
        first = int(gathers[instances.communicator[gathers] == communicator][0])
        members = instances.members[instances.first[first] : instances.first[first + 1]]
        ranks = tuple(sorted(set(timeline.locations.rank[calls.location[members]].tolist())))
        ends = _slot_ends(timeline, ranks, all_of_it)
        if len(ranks) > 2 and ends is not None:
            yield ContextGroup(GATHER, ranks, ends, int(members[0]))


def _slot_ends(timeline: Timeline, ranks: tuple[int, ...], instances: IntArray) -> IntArray | None:
    """The bursts before the calls of each rank that post to some instances or wait for them, and the one behind the
    last; None where ranks differ in how many these are, or there are few ``[ranks, slots]``."""
    calls = timeline.calls
    chosen = np.zeros(len(timeline.instances) + 1, np.bool_)
    chosen[instances] = True
    touches: BoolArray = chosen[calls.posts] & (calls.posts >= 0)
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    touches[call[chosen[calls.waits]]] = True
    rank = timeline.locations.rank[calls.location]
    everything = np.isin(calls.location, np.unique(calls.location[touches]))
    for some in (everything, touches):  # finer slots where ranks have equally many calls of any kind
        found = np.flatnonzero(some)
        mine = [found[rank[found] == one] for one in ranks]
        if len(mine[0]) >= SHOWS_THE_USUAL and all(len(one) == len(mine[0]) for one in mine):
            return np.stack([np.append(one, _burst_behind(int(one[-1]), calls)) for one in mine])
    return None


def _burst_behind(call: int, calls: Calls) -> int:
    """The burst that follows a call."""
    location = int(calls.location[call])
    return call + 1 if call + 1 < calls.first[location + 1] else len(calls) + location


def work_in_slots(group: ContextGroup, timeline: Timeline, chosen: BoolArray) -> FloatArray:
    """Seconds of some rows of own work, without waiting for a core, by rank and slot ``[ranks, slots]``."""
    own = timeline.own
    place, slot = group.slots(timeline)
    rows = np.flatnonzero(chosen & (slot[own.burst] >= 0))
    result = np.zeros(group.end.shape)
    np.add.at(result, (place[own.burst[rows]], slot[own.burst[rows]]), (own.seconds - own.core_wait_s)[rows])
    return result
