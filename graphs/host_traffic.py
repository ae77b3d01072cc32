"""What processes of one host sent to another over TCP, by what the kernel counts of each connection.

A rank's record has it by addresses (``runtime/_core/recorder/sockets.c``). Which host has an address follows from the
connections themselves: an address at which ranks of one host are is that host's. One that several hosts have, such as
that of a bridge, belongs to none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_NUMBERS = 5
"""Of a pair of addresses."""


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """What one host sent to another, as far as that was acknowledged."""

    source: str
    target: str
    nbytes: int
    busy_s: float
    """In which bytes were on their way, and the other end would have taken them; of all connections together."""
    longest_s: float
    """Of the connection of which it is longest."""
    bytes_per_s: float
    """At which the bytes of that one were delivered when the kernel last measured it."""
    resent_bytes: int
    """That were sent again."""


def host_traffic(metas: Iterable[Mapping[str, str]]) -> tuple[HostTraffic, ...]:
    """Of what the records of ranks say about themselves; lines that are not understood count nothing.

    >>> first = {"host": "a", "sockets": "10.0.0.1 10.0.0.2 1000 2000000 1000000 600 0"}
    >>> (one,) = host_traffic([first, {"host": "b", "sockets": "10.0.0.2 10.0.0.1 0 0 0 0 0"}])
    >>> (one.source, one.target, one.nbytes, one.busy_s, one.longest_s)
    ('a', 'b', 1000, 2.0, 1.0)
    """
    rows = [(meta.get("host", ""), *row) for meta in metas for row in _rows(meta.get("sockets", ""))]
    hosts_at = defaultdict[str, set[str]](set)
    for host, own, _, _ in rows:
        hosts_at[own].add(host)
    host_at = {address: next(iter(hosts)) for address, hosts in hosts_at.items() if len(hosts) == 1}
    between = defaultdict[tuple[str, str], list[tuple[int, ...]]](list)
    for _, own, other, numbers in rows:
        ends = host_at.get(own, ""), host_at.get(other, "")
        if all(ends) and ends[0] != ends[1]:
            between[ends].append(numbers)
    return tuple(_sum(*ends, counted) for ends, counted in sorted(between.items()))


def _rows(text: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Own address, that of the other end, and the numbers of each line."""
    lines = [line.split() for line in text.splitlines()]
    return [
        (own, other, tuple(map(int, numbers)))
        for own, other, *numbers in (line for line in lines if len(line) == 2 + _NUMBERS)
        if all(map(str.isdecimal, numbers))
    ]


def _sum(source: str, target: str, counted: list[tuple[int, ...]]) -> HostTraffic:
    nbytes, busy_us, _, _, resent = (sum(column) for column in zip(*counted, strict=True))
    longest_us, bytes_per_s = max((row[2], row[3]) for row in counted)
    return HostTraffic(source, target, nbytes, busy_us / 1e6, longest_us / 1e6, float(bytes_per_s), resent)
