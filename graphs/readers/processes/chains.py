"""Jobs of a chain, which recorded into one run folder one after the other: each is an attempt, or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalana.graphs.readers.processes.rank_selection import RankRecords, choose_records
from scalana.runtime.record.format import ProcessRecord


@dataclass(frozen=True, slots=True)
class Chain:
    """The jobs of a chain, as the run folder names them."""

    jobs: tuple[str, ...] = ()
    """What tells the processes of each job from others, in order; empty for a run of one job."""
    start_s: float | None = None
    """When the first one was started."""
    going_on: bool = False
    """Whether the last one has not ended, as far as its launcher says."""

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Chain:
        """As the contents of ``run.json`` say."""
        before = info.get("before")
        earlier = [job for job in before if isinstance(job, dict)] if isinstance(before, list) else []
        if not earlier:
            return cls(start_s=info.get("start_unix_s"))
        jobs = tuple(str(job.get("job_id", "")) for job in (*earlier, info))
        return cls(jobs, earlier[0].get("start_unix_s"), info.get("exit_code") is None)

    def split(self, records: Iterable[ProcessRecord]) -> list[list[ProcessRecord]]:
        """The records of each job that has any, in order; what says nothing is of the first job."""
        if not self.jobs:
            return [list(records)]
        of_job: dict[str, list[ProcessRecord]] = {job: [] for job in self.jobs}
        for record in records:
            of_job[job if (job := record.meta.get("job_id", "")) in of_job else self.jobs[0]].append(record)
        return [some for some in of_job.values() if some] or [[]]


def choose_of_chain(records: Iterable[ProcessRecord], chain: Chain, wanted: int | None = None) -> RankRecords:
    """Sort the processes of a run into ranks. Of a chain, they are those of the job that goes on, or else of the last
    one that made at least half as many calls as any other.

    Raises:
        RecordError: there are not as many launches.
    """
    jobs = chain.split(records)
    if len(jobs) == 1:
        return choose_records(jobs[0], wanted)
    calls = [sum(map(_calls, job)) for job in jobs]
    far = [number for number, made in enumerate(calls) if 2 * made >= max(calls)]
    best = len(jobs) - 1 if chain.going_on else far[-1]
    chosen = [choose_records(job, wanted if number == best else None) for number, job in enumerate(jobs)]
    said = f"the run has {len(jobs)} jobs, one after the other: job {best + 1} is analysed"
    starts = [start for job in chosen for start in job.starts]
    return replace(chosen[best], starts=starts, several=True, warnings=[said, *chosen[best].warnings])


def starts_of_chain(
    records: Iterable[ProcessRecord], chain: Chain, starts: Callable[[Sequence[ProcessRecord]], list[Any]]
) -> list[Any]:
    """What ``starts`` gives for each job, one after the other."""
    return [start for job in chain.split(records) if job for start in starts(job)]


def _calls(record: ProcessRecord) -> int:
    return int(record.events.id[-1]) if len(record.events) else 0
