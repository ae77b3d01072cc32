"""Attempts of a launch: its launcher starts all ranks again after one of them failed (elastic restarts).

Ranks of one attempt met in one process group, which has an identity of its own. Times of the day are not needed for
that: they differ between hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.graphs.readers.processes.launches import duration_ns, world_id
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
