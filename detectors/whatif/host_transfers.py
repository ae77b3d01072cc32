"""What moved between hosts: messages and collectives as transfers, each over a route, and how fast each route is.

A transfer begins when the last of its members is there, and ends when the first one of those that wait for it has it.
Only such count for which somebody waited through most of it: of others it is not known when they ended. Transfers that
go at the same time share what their hosts can send and receive: so much of their time counts as would be left to
each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.wait_states import waits_table
from scalana.detectors.thresholds.shares import MAJORITY, SHARE_OF_ITS_OWN
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import GIVING, Waits

FASTEST = SHARE_OF_ITS_OWN
"""Part of the transfers of a route that show how fast it is: others wait for cores as well, or for other traffic."""
_MESSAGES = (Waits.NOBODY, Waits.RECEIVER, Waits.SENDER)


@dataclass(frozen=True, slots=True)
class Route:
    """Where data moves: from one host to another, or among several in a collective."""

    hosts: tuple[int, ...]
    """From which to which, of messages; in order, of collectives."""
    is_message: bool

    def links(self) -> set[tuple[int, int]]:
        """From which host to which data may move.

        >>> sorted(Route((0, 2), False).links()), sorted(Route((2, 0), True).links())
        ([(0, 2), (2, 0)], [(2, 0)])
        """
        if self.is_message:
            return {(self.hosts[0], self.hosts[1])}
        return {(a, b) for a in self.hosts for b in self.hosts if a != b}


@dataclass(frozen=True, slots=True)
class HostTransfers(ColumnTable):
    """Transfers between hosts, in no order."""

    instance: IntArray
    """``[transfers]``"""
    route: IntArray
    """Row of :attr:`routes` ``[transfers]``."""
    nbytes: IntArray
    """``[transfers]``"""
    seconds: FloatArray
    """From when all were there ``[transfers]``."""
    alone_s: FloatArray
    """What it would have taken if nothing else had gone through its hosts ``[transfers]``."""
    kind: IntArray
    """Equal for transfers of one operation, of about one size, among as many ranks on as many hosts ``[transfers]``."""
    routes: tuple[Route, ...]

    def typical_byte_s(self, seconds: FloatArray) -> FloatArray:
        """What a byte took in the fastest quarter of the transfers of each kind on each route, where each took so many
        ``seconds``; NaN where a route has none of a kind ``[kinds, routes]``."""
        result = np.full((int(self.kind.max(initial=-1)) + 1, len(self.routes)), np.nan)
        key = self.kind * len(self.routes) + self.route
        order = np.argsort(key, kind="stable")
        keys, first = np.unique(key[order], return_index=True)
        byte_s = seconds / self.nbytes
        for one, rows in zip(keys.tolist(), np.split(order, first[1:]), strict=True):
            result.flat[one] = np.quantile(byte_s[rows], FASTEST)
        return result


def host_transfers(timeline: Timeline, host: IntArray) -> HostTransfers | None:
    """Those of a run whose ranks are on some hosts, -1 where that is not known ``[ranks]``; None where there are
    none."""
    calls, instances = timeline.calls, timeline.instances
    host_of_call = host[timeline.locations.rank[calls.location]]
    chosen, routes = _between_hosts(timeline, host_of_call)
    if not len(chosen):
        return None
    begin_s, end_s = _stretches(timeline, chosen)
    first = instances.members[instances.first[chosen]]
    nbytes = calls.nbytes[first].astype(np.int64)
    known = np.flatnonzero((end_s > begin_s) & (nbytes > 0))
    if not len(known):
        return None
    names = list(dict.fromkeys(routes[row] for row in known))
    number = {route: row for row, route in enumerate(names)}
    route = np.array([number[routes[row]] for row in known])
    chosen, begin_s, end_s, nbytes = chosen[known], begin_s[known], end_s[known], nbytes[known]
    size = np.rint(np.log2(nbytes)).astype(np.int64)
    members = np.diff(instances.first)[chosen]
    spans = np.array([len(one.hosts) for one in names])[route]
    like = np.stack((instances.operation[chosen].astype(np.int64), members, spans, size))
    _, kind = np.unique(like, axis=1, return_inverse=True)
    alone_s = _alone_s(begin_s, end_s, route, names)
    return HostTransfers(chosen, route, nbytes, end_s - begin_s, alone_s, kind.reshape(-1), tuple(names))


def _between_hosts(timeline: Timeline, host_of_call: IntArray) -> tuple[IntArray, list[Route]]:
    """The instances that move data between hosts, and the route of each ``[instances chosen]``."""
    instances = timeline.instances
    table = waits_table()
    kind = table[np.clip(instances.operation, 0, len(table) - 1)]
    size = np.diff(instances.first)
    is_message = np.isin(kind, _MESSAGES) & (size == 2) & ~np.isin(instances.operation, GIVING)
    moves = instances.complete & (is_message | ((kind == Waits.ALL) & (size > 1)))
    chosen = np.flatnonzero(moves & _leave_their_host(timeline, host_of_call))
    routes = []
    known: dict[tuple[bool, bytes], Route] = {}
    for row in chosen.tolist():
        hosts = host_of_call[instances.members[instances.first[row] : instances.first[row + 1]]]
        key = bool(is_message[row]), hosts.tobytes()
        if key not in known:
            known[key] = Route(tuple(hosts.tolist() if key[0] else sorted(set(hosts.tolist()))), key[0])
        routes.append(known[key])
    return chosen, routes


def _leave_their_host(timeline: Timeline, host_of_call: IntArray) -> BoolArray:
    """Whether the members of instances are on different hosts, all known ``[instances]``."""
    first, members = timeline.instances.first, timeline.instances.members
    result = np.zeros(len(timeline.instances), np.bool_)
    filled = np.flatnonzero(np.diff(first) > 0)
    if len(filled):
        hosts = host_of_call[members]
        least, most = (ends.reduceat(hosts, first[filled]) for ends in (np.minimum, np.maximum))
        result[filled] = (least >= 0) & (least < most)
    return result


def _stretches(timeline: Timeline, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
    """When the transfers of some instances began and ended; both 0 where nobody waited for most of it ``[chosen]``."""
    calls, instances = timeline.calls, timeline.instances
    row_of = np.full(len(instances) + 1, -1, np.int64)
    row_of[chosen] = np.arange(len(chosen))
    size = np.diff(instances.first)[chosen]
    at = np.repeat(instances.first[chosen], size) + np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    last_s = np.full(len(chosen), -np.inf)
    np.maximum.at(last_s, np.repeat(np.arange(len(chosen)), size), calls.enter_s[instances.members[at]])
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    row = row_of[calls.waits]
    pair = np.flatnonzero(row >= 0)
    # Of a message its receiver waits for the data; a sender may be done as soon as they are buffered.
    sender = instances.members[instances.first[chosen]]
    kind = waits_table()[np.clip(instances.operation[chosen], 0, len(waits_table()) - 1)]
    of_sender = np.isin(kind, _MESSAGES)[row[pair]] & (calls.location[call[pair]] == calls.location[sender[row[pair]]])
    pair = pair[~of_sender]
    row, call = row[pair], call[pair]
    since_s = np.maximum(last_s[row], calls.enter_s[call])
    took_s = calls.exit_s[call] - since_s
    watched = took_s >= MAJORITY * (calls.exit_s[call] - last_s[row])
    seconds = np.full(len(chosen), np.inf)
    np.minimum.at(seconds, row[watched], (calls.exit_s[call] - last_s[row])[watched])
    found = np.isfinite(seconds)
    return np.where(found, last_s, 0.0), np.where(found, last_s + np.where(found, seconds, 0.0), 0.0)


def _alone_s(begin_s: FloatArray, end_s: FloatArray, route: IntArray, routes: list[Route]) -> FloatArray:
    """What transfers would have taken alone: their time divided by how many went through the same side of a host at
    once, of the side of which that leaves least."""
    left_s = end_s - begin_s
    for host in sorted({host for one in routes for host in one.hosts}):
        for side in (0, 1):
            uses = np.array(
                [host in (one.hosts if not one.is_message else one.hosts[side : side + 1]) for one in routes]
            )
            rows = np.flatnonzero(uses[route])
            if len(rows):
                left_s[rows] = np.minimum(left_s[rows], _shared_s(begin_s[rows], end_s[rows]))
    return left_s


def _shared_s(begin_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """The length of stretches of time, each moment divided by how many of them there are then ``[stretches]``.

    >>> _shared_s(np.array([0.0, 2.0]), np.array([4.0, 4.0]))
    array([3., 1.])
    """
    edges = np.concatenate((begin_s, end_s))
    order = np.argsort(edges, kind="stable")
    edges, step = edges[order], np.repeat((1, -1), len(begin_s))[order]
    going = np.maximum(np.cumsum(step)[:-1], 1)
    passed = np.concatenate(([0.0], np.cumsum(np.diff(edges) / going)))
    return np.asarray(passed[np.searchsorted(edges, end_s)] - passed[np.searchsorted(edges, begin_s)], np.float64)
