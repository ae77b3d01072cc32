"""Which cores ranks share: by host, as the union of what its ranks may use.

A launcher may leave a host's cores to all of its ranks, or bind each rank to some. Ranks share cores where several of
them may together use fewer cores than they are. Two ranks that are bound to a core each share none, and their host has
two cores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class _Pool:
    """Some cores of a host, and the ranks that may use no others."""

    cores: int
    """How many there are."""
    ranks: IntArray


@dataclass(frozen=True, slots=True)
class HostCores:
    """The cores that ranks may use."""

    host: tuple[str, ...] = ()
    """``[ranks]``"""
    allowed: tuple[int, ...] = ()
    """Bit ``n`` says whether a rank may use core ``n`` of its host; 0 where nothing is known ``[ranks]``."""
    pools: tuple[_Pool, ...] = ()
    """The cores that any rank may use, and all cores of each host."""
    of_host: tuple[int, ...] = ()
    """How many cores the host of a rank has; 0 where it is not known ``[ranks]``, empty for none."""

    @classmethod
    def of(cls, hosts: Sequence[str], allowed: Sequence[frozenset[int]], of_host: Sequence[int] = ()) -> HostCores:
        """Of the host of each rank ``[ranks]`` and the numbers of the cores that it may use there, none where these are
        not known ``[ranks]``."""
        masks = tuple(sum(1 << core for core in cores) for cores in allowed)
        by_host: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for rank, (host, mask) in enumerate(zip(hosts, masks, strict=True)):
            if mask:
                by_host[host][mask].append(rank)
        pools = []
        for by_mask in by_host.values():
            for pool in {*by_mask, reduce(or_, by_mask)}:
                inside = [rank for mask, ranks in by_mask.items() if not mask & ~pool for rank in ranks]
                pools.append(_Pool(pool.bit_count(), np.array(inside, np.int64)))
        return cls(tuple(hosts), masks, tuple(pools), tuple(of_host))

    def count(self, ranks: Iterable[int] | None = None) -> int:
        """How many cores some ranks may use together, or all; 0 where it is not known."""
        of_host: dict[str, int] = defaultdict(int)
        known = range(len(self.allowed))
        for rank in known if ranks is None else (rank for rank in ranks if rank in known):
            of_host[self.host[rank]] |= self.allowed[rank]
        return sum(mask.bit_count() for mask in of_host.values())

    def confined_to(self, rank: int) -> list[int]:
        """Ranks of a rank's host that may use no other cores than it, itself included."""
        others = ~self.allowed[rank]
        return [other for other in self._beside(rank) if self.allowed[other] and not self.allowed[other] & others]

    def unused(self, rank: int) -> int:
        """How many cores of a rank's host no rank may use; 0 where it is not known."""
        return max(self.of_host[rank] - self.count(self._beside(rank)), 0) if self.of_host else 0

    def _beside(self, rank: int) -> list[int]:
        return [other for other, host in enumerate(self.host) if host == self.host[rank]]

    def least_s(self, need_s: FloatArray) -> FloatArray:
        """How long the cores that a rank may use take at least, where every rank needs so many seconds of one
        ``[ranks]``; 0 where they are not known ``[ranks]``."""
        result = np.zeros(len(need_s))
        for pool in self.pools:
            result[pool.ranks] = np.maximum(result[pool.ranks], need_s[pool.ranks].sum() / pool.cores)
        return result

    def sharing(self) -> list[int]:
        """Ranks that share cores: they are more than the cores that they may use."""
        return np.flatnonzero(self.least_s(np.ones(len(self.allowed))) > 1.0).tolist()


def core_numbers(meta: Mapping[str, str]) -> frozenset[int]:
    """Which cores a process may use, by what its record says; none where it does not say so.

    Records of earlier versions say how many. Ranks that may use several share these with the others of their host, as
    nobody bound them; ranks that may use one were bound, to which one is not known.
    """
    if listed := meta.get("core_list", ""):
        return _listed(listed)
    count = meta.get("cores", "")
    return frozenset(range(int(count))) if count.isdigit() and int(count) > 1 else frozenset()


def _listed(text: str) -> frozenset[int]:
    """The numbers in a list as the kernel writes it: "0-3,8"; none if it is not one."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            return frozenset()
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def host_cores(meta: Mapping[str, str]) -> int:
    """How many cores the host of a process has, by what its record says; 0 where it does not say so."""
    count = meta.get("host_cores", "")
    return int(count) if count.isdigit() else 0
