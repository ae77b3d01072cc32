"""A link between hosts that is slower than others, as far as transfers prove it, and the run with it as fast.

Routes of one run are compared with each other, by transfers of one kind. What is common to all slow routes, and to no
fast one, is the slow link: a pair of hosts, one direction of it, or all that a host sends and receives. A collective
over several hosts does not show which of its links is slow: its connections do, where it uses TCP. Without them no more
is named than its hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.thresholds.factors import COMPARABLE, FAR_MORE
from scalana.detectors.whatif.host_transfers import HostTransfers, Route, host_transfers
from scalana.detectors.whatif.replay import Change
from scalana.detectors.whatif.socket_links import SocketLinks, socket_links
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.host_traffic import HostTraffic
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


def find_slow_link(
    timeline: Timeline, waits: WaitStates, host_of_rank: Iterable[str], traffic: Sequence[HostTraffic] = ()
) -> SlowLink | None:
    """The slow link of a run; None where all are about as fast, or where there is nothing to compare. What calls show
    counts before what the ``traffic`` between hosts does."""
    hosts = [*host_of_rank][: timeline.ranks]
    names = sorted(set(hosts) - {""})
    if len(names) < 2:
        return None
    number = np.full(timeline.ranks, -1, np.int64)
    number[: len(hosts)] = [names.index(host) if host else -1 for host in hosts]
    transfers = host_transfers(timeline, number)
    if transfers is None:
        return None
    speeds = _Speeds.of(transfers)
    found = speeds.common_part()
    shown = by_calls = _by_calls(found, speeds, names) if found is not None else None
    if by_calls is None or by_calls.reach is Reach.AMONG:
        links = socket_links(traffic, names)
        by_sockets = _by_sockets(links, speeds, names) if links is not None else None
        shown = by_sockets or by_calls
    if shown is None:
        return None
    return replace(shown, shorter_s=_shorter_s(timeline, waits, shown.instance, shown.seconds - shown.usual_s))


def _by_calls(found: tuple[Reach, tuple[int, ...]], speeds: _Speeds, names: list[str]) -> SlowLink:
    """A slow part of the network that calls show."""
    transfers, together, alone = speeds.transfers, speeds.together, speeds.alone
    slow, fast = speeds.slow, speeds.fast
    rows = np.flatnonzero(np.isin(transfers.route, slow) & np.isfinite(together.usual_byte_s[transfers.kind]))
    kind, route, seconds = transfers.kind[rows], transfers.route[rows], transfers.seconds[rows]
    times = np.maximum(together.typical_byte_s[kind, route] / together.usual_byte_s[kind], 1.0)
    moved = transfers.nbytes[rows]
    return SlowLink(
        found[0],
        tuple(names[host] for host in found[1]),
        transfers.instance[rows],
        np.array([one.is_message for one in transfers.routes])[route],
        moved,
        seconds,
        seconds / times,
        np.zeros(0),
        float(moved.sum() / (moved * alone.typical_byte_s[kind, route]).sum()),
        float(moved.sum() / (moved * np.nanmedian(alone.typical_byte_s[:, fast], axis=1)[kind]).sum()),
    )


def _by_sockets(links: SocketLinks, speeds: _Speeds, names: list[str]) -> SlowLink | None:
    """A slow part of the network that connections show, and collectives over it; None where messages contradict it, or
    where connections were busy for longer than these took: with something else, or waiting for acknowledgements."""
    transfers = speeds.transfers
    messages = [transfers.routes[row] for row in speeds.fast if transfers.routes[row].is_message]
    slow = [links.routes[row] for row in links.slow]
    found = common_part(slow, [*messages, *(links.routes[row] for row in links.fast)])
    over = {link for route in slow for link in route.links()}
    concerned = [row for row, one in enumerate(transfers.routes) if not one.is_message and one.links() & over]
    rows = np.flatnonzero(np.isin(transfers.route, concerned))
    seconds, moved = transfers.seconds[rows], transfers.nbytes[rows]
    traffic = [links.traffic[row] for row in links.slow]
    busy_s = max((one.longest_s for one in traffic), default=0.0)
    if found is None or busy_s > COMPARABLE * seconds.sum():
        return None
    usual_s = seconds * (1.0 - min(links.excess_s() / float(seconds.sum()), 1.0))
    nbytes = sum(one.nbytes for one in traffic)
    return SlowLink(
        found[0],
        tuple(names[host] for host in found[1]),
        transfers.instance[rows],
        np.zeros(len(rows), np.bool_),
        np.rint(moved * (nbytes / float(moved.sum()))).astype(np.int64),
        seconds,
        usual_s,
        np.zeros(0),
        nbytes / sum(one.longest_s for one in traffic),
        1.0 / links.least_byte_s,
    )


@dataclass(frozen=True, slots=True)
class _Speeds:
    """How fast the routes of a run are, and which of them are slow."""

    transfers: HostTransfers
    together: _Compared
    """By what transfers took."""
    alone: _Compared
    """By what they would have taken alone."""
    slow: IntArray
    """Rows of routes that are slow by both: what others take at the same time is no fault of a link."""
    fast: IntArray
    """Those that are about as fast as the fastest by either."""

    @classmethod
    def of(cls, transfers: HostTransfers) -> _Speeds:
        """Those that transfers show."""
        together, alone = _Compared.of(transfers, transfers.seconds), _Compared.of(transfers, transfers.alone_s)
        slower = np.minimum(together.slower, alone.slower)
        slow, fast = np.flatnonzero(slower >= FAR_MORE), np.flatnonzero(slower <= COMPARABLE)
        return cls(transfers, together, alone, slow.astype(np.int64), fast.astype(np.int64))

    def common_part(self) -> tuple[Reach, tuple[int, ...]] | None:
        """What all slow routes use, and no fast one."""
        routes = self.transfers.routes
        return common_part([routes[row] for row in self.slow], [routes[row] for row in self.fast])


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
