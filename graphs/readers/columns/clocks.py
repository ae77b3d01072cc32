"""One time axis for all hosts.

Processes of one boot of one host share ``CLOCK_MONOTONIC``. Between hosts, nothing is exchanged during a run;
afterwards, operations that release all their members together (:attr:`~scalana.runtime.operations.Waits.ALL`) serve
as common ticks: their completions nearly coincide, so that the differences of completion times between two hosts,
over the run, trace the offset and drift of one clock against the other. The estimate is a Theil-Sen line (H. Theil
1950, P. K. Sen 1968) through medians of windows, which a third of wild differences does not move.

Hosts without a common tick that hand things to each other, there and back, are aligned by that: nothing comes before it
was handed over, which bounds the offset from both sides; the middle is taken (as in D. Mills' NTP, of the message that
took the shortest time either way). Bounds that contradict each other show that the clocks drift: then the line is
taken that fits between the bounds of all parts of the run. Where ticks let a message come before it was sent, as
the return of ``MPI_Init`` may that is no common moment, messages bound the offset, too. Of hosts that hand things on in
one direction only, those that their receivers had waited for are ticks: they came when they were sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.hashing import distinct
from scalana.graphs.arrays.types import FloatArray, IntArray

_WINDOWS = 48
"""Windows into which the ticks of a pair of hosts are cut; Theil-Sen looks at every pair of these."""
_DRIFT_TICKS = 8
"""Fewer common ticks than this say nothing about drift."""
_DRIFT_SPAN_NS = 1_000_000_000
"""A drift is looked for over spans of a second and more."""
_WAITED_NS = 1_000_000
"""What was waited for longer than this came when it was handed over."""
_FAR_NS = 1 << 62
"""Further than any clock is off."""
_DRIFT_LIMIT = 500e-6
"""Crystals drift less than this; what is steeper is not drift."""


@dataclass(slots=True)
class Clocks:
    """The clock of every host against that of host 0: ``aligned = t + offset + drift * (t - pivot)``."""

    offset_ns: IntArray
    """``[hosts]``"""
    drift: FloatArray
    """Nanoseconds a nanosecond ``[hosts]``."""
    pivot_ns: IntArray
    """Own clock at which ``offset_ns`` holds ``[hosts]``."""
    ticks: IntArray
    """Common ticks, or messages, behind the estimate, 0 where the real-time clock is all there is ``[hosts]``."""

    def align(self, host: IntArray | int, time_ns: IntArray) -> IntArray:
        """Times of ``host``'s monotonic clock, on the axis of host 0 (ns, int64)."""
        since = (time_ns - self.pivot_ns[host]).astype(np.float64)
        correction = np.rint(self.drift[host] * since).astype(np.int64)
        return np.asarray(time_ns + self.offset_ns[host] + correction, dtype=np.int64)


def estimate_clocks(
    guess_ns: IntArray, tick: IntArray, host: IntArray, time_ns: IntArray, messages: IntArray | None = None
) -> Clocks:
    """Align the hosts' clocks.

    ``guess_ns`` ``[hosts]`` is what to add to a host's monotonic clock to get real time (good to some milliseconds
    at best). The next arrays have one row per observed completion: which common tick, on which host, when by that
    host's monotonic clock. ``messages`` ``[5, messages]`` are from which host to which, when they were sent and
    received by the clocks of these, and how long the receiver had waited. Hosts that share no tick, no messages
    there and back, and none that were waited for, not even through others, keep the guess as far as messages allow it.
    """
    hosts = len(guess_ns)
    clocks = Clocks(
        offset_ns=np.asarray(guess_ns - guess_ns[0], dtype=np.int64) if hosts else np.zeros(0, np.int64),
        drift=np.zeros(hosts),
        pivot_ns=np.zeros(hosts, np.int64),
        ticks=np.zeros(hosts, np.int64),
    )
    joined = np.zeros(hosts, np.bool_)
    joined[:1] = True
    if hosts >= 2 and len(tick):
        _join_by_ticks(clocks, joined, tick, host, time_ns)
        for far in np.flatnonzero(joined[1:]) + 1 if messages is not None else ():
            _keep_within_messages(clocks, int(far), joined, messages)
    if messages is not None and not joined.all():
        while _join_by_messages(clocks, joined, messages) or _join_by_waits(clocks, joined, messages):
            pass
        for far in np.flatnonzero(~joined):
            _keep_within_messages(clocks, int(far), joined, messages)
    return clocks


def _join_by_ticks(
    clocks: Clocks, joined: npt.NDArray[np.bool_], tick: IntArray, host: IntArray, time_ns: IntArray
) -> None:
    hosts = len(joined)
    seen = _first_completions(tick, host, time_ns, hosts)
    present = seen >= 0
    counted = present.astype(np.float32)  # exact up to 2**24 ticks
    shared = (counted @ counted.T).astype(np.float64)
    del counted
    # The best connected host joins first, to the one that it shares most ticks with.
    best, near = shared[0].copy(), np.zeros(hosts, np.int64)
    best[0] = -1.0
    for _ in range(hosts - 1):
        far = int(best.argmax())
        if best[far] <= 0:
            break
        common = present[far] & present[near[far]]
        _fit(clocks, far, seen[far][common], clocks.align(int(near[far]), seen[near[far]][common]))
        best[far], joined[far] = -1.0, True
        closer = (shared[far] > best) & (best >= 0)
        best[closer], near[closer] = shared[far][closer], far


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What messages between a host and others, whose clocks are known, say of its offset (ns): it is at least ``low``
    at some times of its own clock, and at most ``high`` at others."""

    low_at_ns: IntArray
    """``[messages there]``"""
    low_ns: IntArray
    """``[messages there]``"""
    low_waited_ns: IntArray
    """How long the receivers had waited ``[messages there]``."""
    high_at_ns: IntArray
    """``[messages back]``"""
    high_ns: IntArray
    """``[messages back]``"""
    high_waited_ns: IntArray
    """``[messages back]``"""

    @classmethod
    def of(cls, clocks: Clocks, far: int, joined: npt.NDArray[np.bool_], messages: IntArray) -> _Bounds:
        """Those of a host."""
        source, target, sent_ns, received_ns, waits_ns = messages
        near = joined.copy()
        near[far] = False
        there, back = (target == far) & near[source], (source == far) & near[target]
        return cls(
            received_ns[there],
            clocks.align(source[there], sent_ns[there]) - received_ns[there],
            waits_ns[there],
            sent_ns[back],
            clocks.align(target[back], received_ns[back]) - sent_ns[back],
            waits_ns[back],
        )

    @property
    def both_ways(self) -> bool:
        """Whether the offset is bounded from both sides."""
        return len(self.low_ns) > 0 and len(self.high_ns) > 0

    @property
    def gap_ns(self) -> int:
        """How far they are from leaving room for an offset; below 0 where they do."""
        return int(self.low_ns.max()) - int(self.high_ns.min()) if self.both_ways else -_FAR_NS

    @property
    def contradict(self) -> bool:
        """Whether no offset lies between them all."""
        return self.gap_ns > 0

    def line(self) -> tuple[float, int]:
        """The drift that they show, where they contradict each other, and the time around which it turns."""
        if not self.contradict:
            return 0.0, 0
        edges = np.unique(np.quantile(np.concatenate((self.low_at_ns, self.high_at_ns)), np.linspace(0, 1, _WINDOWS)))
        pivot = int(edges[len(edges) // 2])
        window, other = (np.searchsorted(edges, at, "right") for at in (self.low_at_ns, self.high_at_ns))
        low, high = np.full(len(edges) + 1, -_FAR_NS), np.full(len(edges) + 1, _FAR_NS)
        np.maximum.at(low, window, self.low_ns)
        np.minimum.at(high, other, self.high_ns)
        known = np.flatnonzero((low > -_FAR_NS) & (high < _FAR_NS))
        x = edges[np.clip(known, 0, len(edges) - 1)] - pivot
        if len(known) < _DRIFT_TICKS or x[-1] - x[0] < _DRIFT_SPAN_NS:
            return 0.0, 0
        middle = low[known] + (high[known] - low[known]) // 2
        slope = _theil_sen(x, (middle - middle[0]).astype(np.float64))
        explains = abs(slope) <= _DRIFT_LIMIT and 2 * self.without(slope, pivot).gap_ns < self.gap_ns
        return (slope, pivot) if explains else (0.0, 0)

    def without(self, drift: float, pivot_ns: int) -> _Bounds:
        """The bounds of an offset that drifts around a time, at that time."""

        def straight(at_ns: IntArray, bound_ns: IntArray) -> IntArray:
            return bound_ns - np.rint(drift * (at_ns - pivot_ns)).astype(np.int64)

        low_ns, high_ns = straight(self.low_at_ns, self.low_ns), straight(self.high_at_ns, self.high_ns)
        return replace(self, low_ns=low_ns, high_ns=high_ns)

    def between(self, guess_ns: int) -> int:
        """The offset between the bounds, close to a guess where they leave it open."""
        least, most = int(self.low_ns.argmax()), int(self.high_ns.argmin())
        waited_ns = int(self.low_waited_ns[least]), int(self.high_waited_ns[most])
        return _between(int(self.low_ns[least]), int(self.high_ns[most]), waited_ns, guess_ns)


def _keep_within_messages(clocks: Clocks, far: int, joined: npt.NDArray[np.bool_], messages: IntArray | None) -> None:
    """Correct the offset of a host by whose clock a message comes before it was sent: few ticks are less exact than
    many messages, and show no drift. Bounds that contradict each other although a drift is known are left alone."""
    assert messages is not None
    bounds = _Bounds.of(clocks, far, joined, messages)
    if bounds.contradict and clocks.drift[far] == 0.0:
        _set_between(clocks, far, bounds)
        return
    # Against the clock as it is known.
    aligned = replace(
        bounds,
        low_ns=bounds.low_ns - (clocks.align(far, bounds.low_at_ns) - bounds.low_at_ns),
        high_ns=bounds.high_ns - (clocks.align(far, bounds.high_at_ns) - bounds.high_at_ns),
    )
    low, high = int(aligned.low_ns.max(initial=-_FAR_NS)), int(aligned.high_ns.min(initial=_FAR_NS))
    if low > high or low <= 0 <= high:
        return
    clocks.offset_ns[far] += (low + high) // 2 if bounds.both_ways else (low if low > 0 else high)


def _set_between(clocks: Clocks, far: int, bounds: _Bounds) -> None:
    """Set the clock of a host between the bounds of its messages, with the drift that they show."""
    drift, pivot_ns = bounds.line()
    if drift:
        clocks.drift[far], clocks.pivot_ns[far] = drift, pivot_ns
        bounds = bounds.without(drift, pivot_ns)
    elif bounds.contradict and clocks.ticks[far]:
        return
    clocks.offset_ns[far] = bounds.between(int(clocks.offset_ns[far]))


def _join_by_messages(clocks: Clocks, joined: npt.NDArray[np.bool_], messages: IntArray) -> bool:
    """Set the clocks of hosts that have messages there and back with one whose clock is known; whether any has."""
    going = False
    for far in np.flatnonzero(~joined).tolist():
        bounds = _Bounds.of(clocks, far, joined, messages)
        if not bounds.both_ways:
            continue
        _set_between(clocks, far, bounds)
        clocks.ticks[far] = len(bounds.low_ns) + len(bounds.high_ns)
        joined[far] = going = True
    return going


def _join_by_waits(clocks: Clocks, joined: npt.NDArray[np.bool_], messages: IntArray) -> bool:
    """Set the clock of the first host that has messages in one direction with one whose clock is known, by those that
    were waited for; whether there is one."""
    for far in np.flatnonzero(~joined).tolist():
        bounds = _Bounds.of(clocks, far, joined, messages[:, messages[4] >= _WAITED_NS])
        own_ns = np.concatenate((bounds.low_at_ns, bounds.high_at_ns))
        if not len(own_ns):
            continue
        _fit(clocks, far, own_ns, own_ns + np.concatenate((bounds.low_ns, bounds.high_ns)))
        _keep_within_messages(clocks, far, joined, messages)
        joined[far] = True
        return True
    return False


def _between(low: int, high: int, waited_ns: tuple[int, int], guess: int) -> int:
    """The offset between the bounds that messages there and back set.

    ``waited_ns``: how long the receivers of the messages that set them had waited. A message that is waited for is
    received as soon as it comes: its bound is close; one that has come long before says little.
    """
    is_close = [2 * waited >= high - low for waited in waited_ns]
    if is_close == [True, False]:
        return low
    if is_close == [False, True]:
        return high
    return guess if is_close == [False, False] and low <= guess <= high else (low + high) // 2


def _first_completions(tick: IntArray, host: IntArray, time_ns: IntArray, hosts: int) -> IntArray:
    """``[hosts, ticks]``: the earliest completion of a tick on a host, -1 for none.

    The earliest, because what delays a process after its release (a busy core) only ever adds.
    """
    ticks, _, row = distinct(tick)
    none = np.iinfo(np.int64).max
    seen = np.full((hosts, len(ticks)), none, np.int64)
    np.minimum.at(seen, (host, row), time_ns)
    seen[seen == none] = -1
    return seen


def _fit(clocks: Clocks, host: int, own_ns: IntArray, reference_ns: IntArray) -> None:
    """Set ``host``'s line so that ``own_ns`` falls onto ``reference_ns`` (already aligned)."""
    order = np.argsort(own_ns, kind="stable")
    own_ns, reference_ns = own_ns[order], reference_ns[order]
    pivot = int(own_ns[len(own_ns) // 2])
    base = int(reference_ns[len(own_ns) // 2]) - pivot
    # Small numbers from here on: doubles hold them to the nanosecond.
    x = (own_ns - pivot).astype(np.float64)
    y = (reference_ns - own_ns - base).astype(np.float64)
    slope = 0.0
    if len(x) >= _DRIFT_TICKS and x[-1] - x[0] >= _DRIFT_SPAN_NS:
        slope = _theil_sen(*_window_medians(x, y))
        rest = y - slope * x
        noise = float(np.median(np.abs(rest - np.median(rest))))
        # A slope that the noise alone would show is none.
        if abs(slope) > _DRIFT_LIMIT or abs(slope) * (x[-1] - x[0]) < noise / np.sqrt(len(x)):
            slope = 0.0
    clocks.drift[host] = slope
    clocks.pivot_ns[host] = pivot
    clocks.offset_ns[host] = base + round(float(np.median(y - slope * x)))
    clocks.ticks[host] = len(x)


def _window_medians(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Medians of ``x`` and ``y`` over up to ``_WINDOWS`` windows with equally many points each (``x`` ascending)."""
    edges = np.unique(np.linspace(0, len(x), min(_WINDOWS, len(x)) + 1).astype(np.int64))
    spans = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
    return (
        np.array([np.median(x[a:b]) for a, b in spans]),
        np.array([np.median(y[a:b]) for a, b in spans]),
    )


def _theil_sen(x: FloatArray, y: FloatArray) -> float:
    """Median slope over all pairs of points."""
    i, j = np.triu_indices(len(x), 1)
    dx = x[j] - x[i]
    apart: npt.NDArray[np.bool_] = dx > 0
    return float(np.median((y[j] - y[i])[apart] / dx[apart])) if apart.any() else 0.0
