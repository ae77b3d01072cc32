"""Attempts of a launch: its launcher starts all ranks again after one of them failed (elastic restarts).

Ranks of one attempt met in one process group, which has an identity of its own, unless the store in which they met
outlives the attempt, as torchrun's does. What was started is known without that: the ranks of an attempt begin when all
of the one before have ended, on each host by its own clock. Times of the day are not needed: they differ between hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.graphs.readers.processes.launches import duration_ns, host_of, world_id
from scalana.runtime.record.format import ProcessRecord

_SHOWN = 4
"""Attempts that are described one by one."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of all ranks."""

    records: tuple[ProcessRecord, ...]
    """In the order in which they began."""

    @property
    def calls(self) -> int:
        """How many calls its ranks made, together, by the numbers of their last ones."""
        return sum(int(record.events.id[-1]) for record in self.records if len(record.events))

    @property
    def rank_ns(self) -> int:
        """How long its ranks ran, together."""
        return sum(map(duration_ns, self.records))


def attempts_of(records: Sequence[ProcessRecord]) -> list[Attempt]:
    """The attempts of the ranks of a launch, in order; one where no rank met others twice.

    ``records`` are in the order in which they began. Those of ranks that never met others belong to no attempt of
    several.
    """
    met: dict[str, list[ProcessRecord]] = defaultdict(list)
    for record in records:
        if world_id(record):
            met[world_id(record)].append(record)
    ranks = [{record.rank for record in group} for group in met.values()]
    again = any(one & other for number, one in enumerate(ranks) for other in ranks[:number])
    return [Attempt(tuple(group)) for group in met.values()] if again else [Attempt(tuple(records))]


def starts_in_order(records: Sequence[ProcessRecord]) -> list[Attempt]:
    """All starts of the ranks of a launch, also those in which no rank met others. ``records`` are in the order in
    which they began."""
    one_by_one = _one_after_the_other(records)
    return one_by_one if len(one_by_one) > 1 else attempts_of(records)


def _one_after_the_other(records: Sequence[ProcessRecord]) -> list[Attempt]:
    """Starts that do not overlap on any host; none where hosts differ in how many they show."""
    of_host: dict[str, list[list[ProcessRecord]]] = {}
    for record in records:
        groups = of_host.setdefault(host_of(record), [[]])
        latest = groups[-1]
        starts_again = any(record.rank == other.rank for other in latest)
        if starts_again and record.number("start_ns", 0) >= max(other.last_ns for other in latest):
            groups.append([record])
        else:
            latest.append(record)
    if len({len(groups) for groups in of_host.values()}) != 1:
        return []
    return [Attempt(tuple(_of_all(groups))) for groups in zip(*of_host.values(), strict=True)]


def _of_all(groups: Sequence[Sequence[ProcessRecord]]) -> list[ProcessRecord]:
    return [record for group in groups for record in group]


def furthest(attempts: Sequence[Attempt]) -> int:
    """The attempt in which ranks made most calls, the longest of several."""
    rows = range(len(attempts))
    return max(rows, key=lambda number: (attempts[number].calls, attempts[number].rank_ns, number), default=0)


def described(attempts: Sequence[Attempt], chosen: int) -> list[str]:
    """For the user: which attempts were lost, and why, as far as records say."""
    lost = [number for number in range(len(attempts)) if number != chosen]
    lines = [
        f"attempt {number + 1} of {len(attempts)}: {_end(attempts[number])}"
        f"{attempts[number].rank_ns * 1e-9:.1f} rank-seconds; attempt {chosen + 1} is analysed"
        for number in lost[:_SHOWN]
    ]
    return [*lines, f"{len(lost) - _SHOWN} more attempts"] if len(lost) > _SHOWN else lines


def _end(attempt: Attempt) -> str:
    """How the first rank to fail ended."""
    failed = [record for record in attempt.records if record.status > 0 or not record.ended]
    if not failed:
        return ""
    # What follows the first failure is the launcher's doing; one that says how it ended did so by itself.
    first = min(failed, key=lambda record: (record.status <= 0, duration_ns(record)))
    how = f"ended with exit code {first.status}" if first.status > 0 else "was killed"
    return f"rank {first.rank} ({first.meta.get('host', '?')}) {how} after {duration_ns(first) * 1e-9:.1f} s; "
