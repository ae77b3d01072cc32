"""A link between hosts that is slower than others, as far as transfers prove it, and the run with it as fast.

Routes of one run are compared with each other, by transfers of one kind. What is common to all slow routes, and to no
fast one, is the slow link: a pair of hosts, one direction of it, or all that a host sends and receives. A collective
over several hosts does not show which of its links is slow: then no more is named than its hosts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.thresholds.factors import COMPARABLE, FAR_MORE
from scalana.detectors.whatif.host_transfers import HostTransfers, Route, host_transfers
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline


class Reach(Enum):
    """How much of the network between hosts is slow."""

    PAIR = "pair"
    WAY = "way"
    """From one host to another, and not back."""
    HOST = "host"
    """All that a host sends and receives."""
    OUT = "out"
    """What a host sends, and not what it receives."""
    INTO = "into"
    """What a host receives, and not what it sends."""
    AMONG = "among"
    """Collectives of some hosts."""


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A slow link, and what it costs. Arrays are about the transfers over it."""

    reach: Reach
    hosts: tuple[str, ...]
    instance: IntArray
    """``[transfers]``"""
    is_message: BoolArray
    """``[transfers]``"""
    nbytes: IntArray
    """``[transfers]``"""
    seconds: FloatArray
    """``[transfers]``"""
    usual_s: FloatArray
    """What each would take at the speed of the others ``[transfers]``."""
    shorter_s: FloatArray
    """What calls of the run would take less if the link were as fast as others ``[calls]``."""
    bytes_per_s: float
    """Of its fastest quarter."""
    others_bytes_per_s: float

    def change(self, timeline: Timeline, part: FloatArray | float = 1.0) -> Change:
        """The run with a link as fast as the others; of each call so large a ``part``."""
        return Change.of(np.zeros(len(burst_locations(timeline))), None, self.shorter_s * part)


def find_slow_link(timeline: Timeline, waits: WaitStates, host_of_rank: Iterable[str]) -> SlowLink | None:
    """The slow link of a run; None where all are about as fast, or where there is nothing to compare."""
    hosts = [*host_of_rank][: timeline.ranks]
    names = sorted(set(hosts) - {""})
    if len(names) < 2:
        return None
    number = np.full(timeline.ranks, -1, np.int64)
    number[: len(hosts)] = [names.index(host) if host else -1 for host in hosts]
    transfers = host_transfers(timeline, number)
    if transfers is None:
        return None
    together, alone = _Compared.of(transfers, transfers.seconds), _Compared.of(transfers, transfers.alone_s)
    slower = np.minimum(together.slower, alone.slower)  # what others take at the same time is no fault of a link
    slow, fast = np.flatnonzero(slower >= FAR_MORE), np.flatnonzero(slower <= COMPARABLE)
    found = common_part([transfers.routes[row] for row in slow], [transfers.routes[row] for row in fast])
    if found is None:
        return None
    reach, of = found
    rows = np.flatnonzero(np.isin(transfers.route, slow) & np.isfinite(together.usual_byte_s[transfers.kind]))
    kind, route, seconds = transfers.kind[rows], transfers.route[rows], transfers.seconds[rows]
    times = np.maximum(together.typical_byte_s[kind, route] / together.usual_byte_s[kind], 1.0)
    less_s = seconds * (1.0 - 1.0 / times)
    moved, instance = transfers.nbytes[rows], transfers.instance[rows]
    return SlowLink(
        reach,
        tuple(names[host] for host in of),
        instance,
        np.array([one.is_message for one in transfers.routes])[route],
        moved,
        seconds,
        seconds - less_s,
        _shorter_s(timeline, waits, instance, less_s),
        float(moved.sum() / (moved * alone.typical_byte_s[kind, route]).sum()),
        float(moved.sum() / (moved * np.nanmedian(alone.typical_byte_s[:, fast], axis=1)[kind]).sum()),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """How fast routes are, in transfers of one kind."""

    typical_byte_s: FloatArray
    """Seconds a byte, NaN where a route has none of a kind ``[kinds, routes]``."""
    usual_byte_s: FloatArray
    """Of the routes that are about as fast as the fastest, NaN where there is but one route ``[kinds]``."""
    slower: FloatArray
    """How many times what is usual transfers take, all kinds together, NaN where that is not known ``[routes]``."""

    @classmethod
    def of(cls, transfers: HostTransfers, seconds: FloatArray) -> _Compared:
        """Those of transfers that take so many seconds ``[transfers]``."""
        typical = transfers.typical_byte_s(seconds)
        usual = np.full(len(typical), np.nan)
        for kind, of_routes in enumerate(typical):
            known = of_routes[np.isfinite(of_routes)]
            if len(known) > 1:
                usual[kind] = float(np.median(known[known <= COMPARABLE * known.min()]))
        times = typical / usual[:, None]
        taken_s = np.zeros(typical.shape)
        np.add.at(taken_s, (transfers.kind, transfers.route), seconds)
        taken_s[~np.isfinite(times)] = 0.0
        usual_s = np.divide(taken_s, times, out=np.zeros(times.shape), where=taken_s > 0.0).sum(axis=0)
        unknown = np.full(len(usual_s), np.nan)
        return cls(typical, usual, np.divide(taken_s.sum(axis=0), usual_s, out=unknown, where=usual_s > 0.0))


def common_part(slow: list[Route], fast: list[Route]) -> tuple[Reach, tuple[int, ...]] | None:
    """What all slow routes use and no fast one does: the smallest such part of the network, and its hosts.

    >>> common_part([Route((0, 2), True), Route((2, 0), True)], [Route((0, 1), True), Route((1, 2), True)])
    (<Reach.PAIR: 'pair'>, (0, 2))
    >>> common_part([Route((0, 2), True)], [Route((2, 0), True)])
    (<Reach.WAY: 'way'>, (0, 2))
    >>> common_part([Route((0, 2), True), Route((1, 2), True)], [Route((0, 1), True)])
    (<Reach.HOST: 'host'>, (2,))
    >>> common_part([Route((2, 0), True), Route((2, 1), True)], [Route((0, 2), True), Route((1, 2), True)])
    (<Reach.OUT: 'out'>, (2,))
    >>> common_part([Route((0, 1, 2), False)], [Route((3, 4, 5), False)])
    (<Reach.AMONG: 'among'>, (0, 1, 2))
    """
    if not slow or not fast:
        return None
    used, free = [route.links() for route in slow], set().union(*(route.links() for route in fast))
    hosts = sorted({host for route in slow for host in route.hosts})
    pairs = [(a, b) for a in hosts for b in hosts if a < b]
    parts = [(Reach.PAIR, pair, {pair, pair[::-1]}) for pair in pairs]
    parts += [(Reach.WAY, pair, {pair}) for a, b in pairs for pair in ((a, b), (b, a))]
    for reach in (Reach.PAIR, Reach.WAY):
        some = [of for kind, of, links in parts if kind is reach and _is_common(links, used, free)]
        if len(some) == 1:
            return reach, some[0]
        if some:
            return _among(slow)
    every = {link for route in (*slow, *fast) for link in route.links()}
    for reach, ends in ((Reach.HOST, (0, 1)), (Reach.OUT, (0,)), (Reach.INTO, (1,))):
        of_host = {one: {link for link in every if one in [link[end] for end in ends]} for one in hosts}
        alone = [one for one, links in of_host.items() if _is_common(links, used, free)]
        if len(alone) == 1:
            return reach, (alone[0],)
    return None


def _is_common(links: set[tuple[int, int]], used: list[set[tuple[int, int]]], free: set[tuple[int, int]]) -> bool:
    return not links & free and all(links & of_route for of_route in used)


def _among(slow: list[Route]) -> tuple[Reach, tuple[int, ...]] | None:
    """The hosts of slow collectives that do not show which of their links it is."""
    different = {route.hosts for route in slow}
    return (Reach.AMONG, slow[0].hosts) if len(different) == 1 else None


def _shorter_s(timeline: Timeline, waits: WaitStates, instance: IntArray, less_s: FloatArray) -> FloatArray:
    """By how much calls are shorter where transfers take so much less ``[calls]``."""
    calls = timeline.calls
    of_instance = np.zeros(len(timeline.instances) + 1)
    of_instance[instance] = less_s
    shorter = of_instance[calls.posts]  # the last one is of calls that post nothing
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    np.maximum.at(shorter, call, of_instance[calls.waits])
    return np.asarray(np.minimum(shorter, waits.transfer_s(timeline)), np.float64)
