"""Hosts that died while a job ran: when they were last heard of, and which ranks were on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_UNWRITTEN_S = 2.0
"""What a record may lack at its end that was killed: records are written once a second, and later on busy hosts."""


@dataclass(frozen=True, slots=True)
class LostHost:
    """A host of which no rank's record has an end."""

    name: str
    ranks: tuple[int, ...]
    last_heard_s: float
    """The last moment in the records of its ranks, since the job's first."""
    others_last_s: float
    """The last moment in those of other hosts."""


def lost_hosts(hosts: Sequence[str], killed: Collection[int], last_s: Sequence[float]) -> list[LostHost]:
    """Of a job on several hosts, by the host of each rank ("" where it is not known), ranks whose records have no end,
    and the last moment of each rank (NaN where there is none), all ``[ranks]``. Where no host goes on, the job was
    killed, and no host was lost.

    >>> lost_hosts(["a", "a", "b", "b"], {1, 2, 3}, [9.0, 8.0, 5.0, 5.5])
    [LostHost(name='b', ranks=(2, 3), last_heard_s=5.5, others_last_s=9.0)]
    >>> lost_hosts(["a", "b"], {0, 1}, [5.0, 5.0])
    []
    """
    ranks_on = defaultdict[str, list[int]](list)
    for rank, host in enumerate(hosts):
        if host and last_s[rank] == last_s[rank]:
            ranks_on[host].append(rank)
    heard_s = {host: max(last_s[rank] for rank in ranks) for host, ranks in ranks_on.items()}
    latest_s = max(heard_s.values(), default=0.0)
    dead = [host for host, ranks in ranks_on.items() if all(rank in killed for rank in ranks)]
    any_ended = len(dead) < len(ranks_on)
    return [
        LostHost(host, tuple(ranks_on[host]), heard_s[host], latest_s)
        for host in dead
        if heard_s[host] < latest_s - (0.0 if any_ended else _UNWRITTEN_S)
    ]
