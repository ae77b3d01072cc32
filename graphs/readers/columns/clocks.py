"""One time axis for all hosts.

Processes of one boot of one host share ``CLOCK_MONOTONIC``. Between hosts, nothing is exchanged during a run;
afterwards, operations that release all their members together (:attr:`~scalana.runtime.operations.Waits.ALL`) serve
as common ticks: their completions nearly coincide, so that the differences of completion times between two hosts,
over the run, trace the offset and drift of one clock against the other. The estimate is a Theil-Sen line (H. Theil
1950, P. K. Sen 1968) through medians of windows, which a third of wild differences does not move.

Hosts without a common tick that hand things to each other, there and back, are aligned by that: nothing comes before it
was handed over, which bounds the offset from both sides; the middle is taken (as in D. Mills' NTP, of the message that
took the shortest time either way). No drift is looked for then. Where ticks let a message come before it was sent, as
the return of ``MPI_Init`` may that is no common moment, messages bound the offset, too.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    received by the clocks of these, and how long the receiver had waited. Hosts that share no tick and no messages
    there and back, not even through others, keep the guess.
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
        _join_by_messages(clocks, joined, messages)
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


def _keep_within_messages(clocks: Clocks, far: int, joined: npt.NDArray[np.bool_], messages: IntArray | None) -> None:
    """Correct the offset of a host by whose clock a message comes before it was sent: few ticks are less exact than
    many messages. Bounds that contradict each other, as the clocks drift, are left alone."""
    assert messages is not None
    source, target, sent_ns, received_ns, _ = messages
    near = joined.copy()
    near[far] = False
    there, back = (target == far) & near[source], (source == far) & near[target]
    least = clocks.align(source[there], sent_ns[there]) - clocks.align(far, received_ns[there])
    most = clocks.align(target[back], received_ns[back]) - clocks.align(far, sent_ns[back])
    low, high = int(least.max(initial=-_FAR_NS)), int(most.min(initial=_FAR_NS))
    if low > high or low <= 0 <= high:
        return
    known = there.any() and back.any()
    clocks.offset_ns[far] += (low + high) // 2 if known else (low if low > 0 else high)


def _join_by_messages(clocks: Clocks, joined: npt.NDArray[np.bool_], messages: IntArray) -> None:
    """Set the offsets of hosts that have messages there and back with one whose clock is known."""
    source, target, sent_ns, received_ns, waits_ns = messages
    going = True
    while going:
        going = False
        for far in np.flatnonzero(~joined).tolist():
            there = (target == far) & joined[source]
            back = (source == far) & joined[target]
            if not there.any() or not back.any():
                continue
            earliest = clocks.align(source[there], sent_ns[there]) - received_ns[there]
            latest = clocks.align(target[back], received_ns[back]) - sent_ns[back]
            low, high = int(earliest.max()), int(latest.min())
            waited_ns = int(waits_ns[there][earliest.argmax()]), int(waits_ns[back][latest.argmin()])
            clocks.offset_ns[far] = _between(low, high, waited_ns, int(clocks.offset_ns[far]))
            clocks.ticks[far] = np.count_nonzero(there) + np.count_nonzero(back)
            joined[far] = going = True


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
