"""Which way between hosts is slower than others, by what the kernel counts of the connections of a run.

A collective over all hosts takes as long as its slowest link, on all ranks alike: calls do not show which one that is.
Its connections do: bytes are on their way for most of a collective on the slow link, and for a part of it on others.

What the kernel counts has errors of its own: bytes count as on their way until they are acknowledged, which a receiver
puts off by up to 40 ms. A way is slow by this, and by how fast its bytes were delivered when the kernel last measured
it, which has other errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.factors import COMPARABLE, FAR_MORE
from scalana.detectors.thresholds.shares import SHARE_OF_ITS_OWN
from scalana.detectors.whatif.host_transfers import Route
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.host_traffic import HostTraffic


@dataclass(frozen=True, slots=True)
class SocketLinks:
    """Ways between hosts that move about as many bytes."""

    routes: tuple[Route, ...]
    traffic: tuple[HostTraffic, ...]
    """``[ways]``"""
    slower: FloatArray
    """How many times what is usual a byte takes, by the measure by which it is fewest ``[ways]``."""
    least_byte_s: float
    """What a byte takes on the fastest way, of the connection that is busy longest: late acknowledgements only add."""

    @property
    def slow(self) -> list[int]:
        """Rows of the ways that are slow by all measures."""
        return np.flatnonzero(self.slower >= FAR_MORE).tolist()

    @property
    def fast(self) -> list[int]:
        """Rows of those that are about as fast as the fastest by one of them."""
        return np.flatnonzero(self.slower <= COMPARABLE).tolist()

    def excess_s(self) -> float:
        """How much longer the slow ways were busy than at the speed of the fastest; they are so at one time."""
        slow = [self.traffic[row] for row in self.slow]
        return max(one.longest_s - one.nbytes * self.least_byte_s for one in slow)


def socket_links(traffic: Sequence[HostTraffic], names: Sequence[str]) -> SocketLinks | None:
    """The ways between hosts of some ``names`` on which most is sent, by their places among these; None where there is
    but one way."""
    most = max((one.nbytes for one in traffic), default=0)
    known = [one for one in traffic if one.source in names and one.target in names and one.bytes_per_s > 0.0]
    much = tuple(one for one in known if one.nbytes >= SHARE_OF_ITS_OWN * most and one.longest_s > 0.0)
    if len(much) < 2:
        return None
    nbytes = np.array([one.nbytes for one in much], np.float64)
    longest = np.array([one.longest_s for one in much]) / nbytes
    together = np.array([one.busy_s for one in much]) / nbytes
    delivered = 1.0 / np.array([one.bytes_per_s for one in much])
    slower = np.min([measure / _usual(measure) for measure in (longest, together, delivered)], axis=0)
    routes = tuple(Route((names.index(one.source), names.index(one.target)), True) for one in much)
    return SocketLinks(routes, much, slower, float(longest.min()))


def _usual(byte_s: FloatArray) -> float:
    """Of the ways that are about as fast as the fastest."""
    return float(np.median(byte_s[byte_s <= COMPARABLE * byte_s.min()]))
