"""What a run was, and what its record lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scalana.graphs.dependences.unmatched import OpenCall
from scalana.graphs.host_cores import HostCores, core_numbers, host_cores
from scalana.graphs.host_traffic import HostTraffic, host_traffic
from scalana.graphs.lost_hosts import LostHost, lost_hosts
from scalana.graphs.progress.attempt_times import Attempt
from scalana.graphs.progress.course import Course, course
from scalana.graphs.readers.columns.gather import Communicator, Gathered
from scalana.graphs.readers.folder.going_on import records_going_on
from scalana.graphs.readers.processes.launches import process_of
from scalana.graphs.readers.processes.main_thread import is_called
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.rank_selection import RankRecords
from scalana.graphs.readers.processes.starts import Start, starts_of
from scalana.graphs.readers.processes.worlds import World
from scalana.graphs.samples.last_places import LastPlace
from scalana.graphs.samples.unseen import Unseen
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.graphs.readers.folder.run_folder import RunFolder
    from scalana.runtime.record.format import ProcessRecord

_OF_MESSAGES, _OF_SERVED = ([BY_NAME[name].code for name in names] for names in (("put", "get"), ("take", "reply")))
_SHOWN = 3
"""Files that could not be read that are named one by one."""


@dataclass(slots=True)
class RunInfo:
    """What a run was, and what its record lacks."""

    command: list[str] = field(default_factory=list)
    cwd: str = ""
    """Working directory of the job."""
    seconds: float = 0.0
    """Wall-clock time of the job; where nobody measured that, or it had several launches, of the record."""
    exit_code: int | None = None
    going_on: bool = False
    """Whether the job still runs: all of this is about what it has recorded so far."""
    rate_hz: float = 0.0
    """Samples a second and thread; 0 where nothing was sampled."""
    start_unix_s: float | None = None
    ranks: int = 0
    """Processes of the job, in all its worlds, those without a record included."""
    missing_ranks: list[int] = field(default_factory=list)
    killed_ranks: list[int] = field(default_factory=list)
    """Ranks whose record stops without an end, and without having said why."""
    lost_hosts: list[LostHost] = field(default_factory=list)
    """Hosts that died while others went on."""
    worlds: list[World] = field(default_factory=list)
    names: ProcessNames = field(default_factory=ProcessNames)
    """What the processes are called: "rank 3", or "rollout 3" where there are several worlds."""
    host_of_rank: list[str] = field(default_factory=list)
    """``[ranks]``, "" where unknown."""
    cores: HostCores = field(default_factory=HostCores)
    """The cores that ranks may use, and share; those of no rank where nothing is known."""
    traffic: tuple[HostTraffic, ...] = ()
    """What ranks of one host sent to another, as far as the kernel counted it."""
    calls_of_rank: list[int] = field(default_factory=list)
    """Calls of communication that a rank made ``[ranks]``, all of its threads' and unsuccessful tests included."""
    comm_s_of_rank: list[float] = field(default_factory=list)
    """Wall seconds that a rank was in them ``[ranks]``."""
    communicators: list[Communicator] = field(default_factory=list)
    open_calls: list[OpenCall] = field(default_factory=list)
    """Where ranks were stuck when their records stopped: the evidence of a hang."""
    last_places: dict[int, LastPlace] = field(default_factory=dict)
    """Where the main threads of ranks were after their last calls, if some are stuck; by rank."""
    thinned_ranks: list[int] = field(default_factory=list)
    """Ranks whose events were thinned out to stay within the size budget or the rate of calls."""
    starts: dict[int, Start] = field(default_factory=dict)
    """Ranks that other ranks start, by rank."""
    course: Course | None = None
    """Where the wall time of the job went, all its attempts included; None where that is not known."""
    launchers: list[str] = field(default_factory=list)
    """Processes that started the others."""
    elsewhere_by: list[str] = field(default_factory=list)
    """Programs by which a job without ranks starts processes on other hosts, none of which has a record."""
    notes: list[str] = field(default_factory=list)
    """What the recorders could not record, as they say."""
    unrecorded_results: int = 0
    """Remote calls whose results came from processes without a record here, as those of other hosts may be."""
    unseen: list[Unseen] = field(default_factory=list)
    """Libraries by which its processes communicate without a record."""
    warnings: list[str] = field(default_factory=list)
    """What a reader of the results should know."""

    @property
    def is_whole(self) -> bool:
        """Whether all its processes have a record: else what seems a transfer may be waiting for one that has none."""
        return not self.missing_ranks and not self.unrecorded_results


def describe_run(
    folder: RunFolder, chosen: RankRecords, data: Gathered, open_calls: list[OpenCall], timeline: Timeline, ranks: int
) -> RunInfo:
    """What the run folder and the gathered records say about a run, with all warnings but those of the matching."""
    info = folder.info
    own = [record for record, is_own in zip(data.records, data.is_own.tolist(), strict=True) if is_own]
    rank_of = data.rank[data.is_own].tolist()
    hosts, cores, of_host = [""] * ranks, [frozenset[int]()] * ranks, [0] * ranks
    for rank, record in zip(rank_of, own, strict=True):
        hosts[rank] = record.meta.get("host", "")
        cores[rank] = core_numbers(record.meta)
        of_host[rank] = host_cores(record.meta)
    ended, called = _ended_by_others(data.records), any(map(is_called, own))
    idle = _idle_at_the_end(timeline) if called else set()
    running = {id(record) for record in records_going_on(info, data.records)}
    span = float(np.max(timeline.locations.end_s, initial=0.0) - np.min(timeline.locations.start_s, initial=0.0))
    run = RunInfo(
        command=[str(word) for word in info.get("command") or []],
        cwd=str(info.get("cwd") or (own[0].meta.get("cwd", "") if own else "")),
        seconds=float((not chosen.several and info.get("seconds")) or span),
        exit_code=info.get("exit_code"),
        going_on=bool(running),
        rate_hz=0.0 if _without_rate(data) else rate_hz(folder, data),
        start_unix_s=info.get("start_unix_s"),
        ranks=ranks,
        missing_ranks=chosen.missing,
        killed_ranks=[
            rank
            for rank, record in zip(rank_of, own, strict=True)
            if not (record.ended or id(record) in running or _stopped(record) or process_of(record) in ended)
            # A framework starts and ends processes as it likes.
            and not (is_called(record) and rank in idle)
        ],
        worlds=chosen.worlds,
        names=chosen.names.on_hosts(hosts),
        host_of_rank=hosts,
        cores=HostCores.of(hosts, cores, of_host),
        traffic=host_traffic(record.meta for record in own),
        communicators=data.communicators,
        open_calls=open_calls,
        thinned_ranks=sorted(set(data.rank[data.is_own & data.thinned].tolist())),
        starts=starts_of(data.records, data.rank.tolist(), data.is_own.tolist()),
        launchers=chosen.launchers,
        elsewhere_by=_elsewhere_by(data.records) if ranks == 1 else [],
        notes=_notes(folder, data, chosen.names, running),
        warnings=[*_unreadable(folder.troubles), *chosen.warnings],
    )
    run.lost_hosts = lost_hosts(hosts, set(run.killed_ranks), _last_s(timeline, ranks))
    run.warnings += [*_on_other_hosts(run, folder), *_warnings(run, data, timeline)]
    return run


def _last_s(timeline: Timeline, ranks: int) -> list[float]:
    """The last moment in the record of each rank, since the first of the job; NaN where there is none ``[ranks]``."""
    locations = timeline.locations
    last_s = np.full(ranks, -np.inf)
    np.maximum.at(last_s, locations.rank, locations.end_s)
    last_s[~np.isfinite(last_s)] = np.nan
    return list((last_s - float(np.min(locations.start_s, initial=np.inf))).tolist())


def _on_other_hosts(run: RunInfo, folder: RunFolder) -> list[str]:
    """Where records of ranks that are not here may be, and the command that puts them together."""
    place = _other_place(folder, run.host_of_rank) if run.missing_ranks else ""
    ranks = run.names.listed(run.missing_ranks)
    return [f"if hosts share no file system, the records of {ranks} are in {place}"] if place else []


def without_record(unseen: int, run: RunInfo, folder: RunFolder, hosts: Iterable[str]) -> str:
    """A warning of ``unseen`` calls whose results came from processes without a record; ``hosts`` have one."""
    place = "" if run.missing_ranks else _other_place(folder, hosts)
    where = (
        f"if hosts share no file system, their records are in {place}"
        if place
        else "if other hosts do not see the run folder, their records lie there at the same path: put the folders "
        "together with scalana report DIR DIR"
    )
    return f"{_results(unseen)}: what they do is unknown, so that savings are upper bounds; {where}"


def with_ended(unseen: int) -> str:
    """A warning of such calls in a run that was started again."""
    return f"{_results(unseen)}: processes that ended had them in hand, or were not there yet"


def _results(unseen: int) -> str:
    return f"the results of {unseen} call{'s' * (unseen > 1)} came from processes without a record here"


def _other_place(folder: RunFolder, here: Iterable[str]) -> str:
    """Where records may be that are not ``here``, and the command that puts them together: on hosts on which processes
    were to be started, of which none is here. Empty where there are no such hosts."""
    names = {host.partition(".")[0] for host in here}
    lacking = [host for host in folder.launched_hosts() if host.partition(".")[0] not in names]
    path, name = os.path.abspath(folder.path), os.path.basename(os.path.abspath(folder.path))
    copies = "".join(f"rsync -a {host}:{path}/ {name}-{host} && " for host in lacking)
    parts = " ".join(f"{name}-{host}" for host in lacking)
    place = f"{path} on {', '.join(lacking)}; to put them together: {copies}scalana report {name} {parts}"
    return place if lacking else ""


def course_of_run(folder: RunFolder, chosen: RankRecords, attempts: list[Attempt], going_on: bool) -> Course | None:
    """Where the wall time of a job went, as far as its records, and what was noted of hangs, say it."""
    info, chain = folder.info, folder.chain
    if chosen.several and not chain.jobs:
        return course(attempts, hangs=folder.hangs(), going_on=going_on) if attempts else None
    start_s, seconds = info.get("start_unix_s"), info.get("seconds")
    end_s = start_s + seconds if start_s is not None and seconds is not None else None
    return course(attempts, (chain.start_s, end_s), folder.hangs(), going_on) if attempts else None


def _elsewhere_by(records: list[ProcessRecord]) -> list[str]:
    """By which programs processes started others on other hosts."""
    said = [name for record in records for name in record.meta.get("starts_elsewhere_by", "").split(",")]
    return list(dict.fromkeys(filter(None, said)))


def _unreadable(troubles: list[str]) -> list[str]:
    """The first files that could not be read, with the reason, and how many more there are."""
    more = len(troubles) - _SHOWN
    return troubles if more <= 0 else [*troubles[:_SHOWN], f"{more} more record{'s' * (more > 1)} cannot be read"]


def _ended_by_others(records: list[ProcessRecord]) -> set[tuple[str, str]]:
    """Processes that others have ended on purpose, as a pool does with its workers."""
    return {
        (process_of(record)[0], pid)
        for record in records
        for pid in record.meta.get("ended_processes", "").split(",")
        if pid
    }


def _idle_at_the_end(timeline: Timeline) -> set[int]:
    """Ranks that had done all that they were called for, or were never called and called nobody. What they do beside,
    by messages and in other threads, has no end."""
    calls, locations = timeline.calls, timeline.locations
    served = np.isin(calls.operation, _OF_SERVED)
    called = np.bincount(calls.location, served, len(locations.rank)) > 0
    others = ~np.isin(calls.operation, _OF_MESSAGES) & (locations.is_main & ~called)[calls.location]
    made = np.flatnonzero(served | others)
    last = made[np.diff(calls.location[made], append=-1) != 0]
    busy = set(locations.rank[calls.location[last[calls.operation[last] != BY_NAME["reply"].code]]].tolist())
    return set(locations.rank.tolist()) - busy


def _stopped(record: ProcessRecord) -> bool:
    """Whether a process went on without recording, as it says itself (a full disk)."""
    return any(note.startswith("recording stopped") for note in record.notes)


def _notes(folder: RunFolder, data: Gathered, names: ProcessNames, running: set[int]) -> list[str]:
    """What the recorders noted, with the ranks that did, each note once. A record that is ``running`` (:func:`id`) may
    be read in the midst of a block."""
    told: dict[str, list[int]] = {}
    for record, rank in zip(data.records, data.rank.tolist(), strict=True):
        torn = record.troubles[-1:] if id(record) in running else []
        for note in (*record.notes, *(trouble for trouble in record.troubles if trouble not in torn)):
            told.setdefault(note, []).append(rank)
    notes = [f"{names.listed(ranks)}: {note}" for note, ranks in told.items()]
    notes += [note for note in folder.notes() if note not in told]
    is_of_mpi = any("mpi" in record.meta for record in data.records) or not data.rows["events"].any()
    return [note for note in notes if is_of_mpi or layout.WITHOUT_MPI not in note]


def _warnings(run: RunInfo, data: Gathered, timeline: Timeline) -> list[str]:
    warnings = []
    lost = {rank for host in run.lost_hosts for rank in host.ranks}
    warnings += [
        f"{host.name} ({run.names.listed(list(host.ranks))}) was last heard of at {host.last_heard_s:.1f} s, other "
        f"hosts at {host.others_last_s:.1f} s: none of its records has an end, and their last second may be missing"
        for host in run.lost_hosts
    ]
    if killed := [rank for rank in run.killed_ranks if rank not in lost]:
        warnings.append(
            f"the record of {run.names.listed(killed)} has no end: the process was killed or crashed, and "
            "its last second may be missing"
        )
    if len(data.hosts) > 1 and (alone := [h for h in range(1, len(data.hosts)) if data.clocks.ticks[h] == 0]):
        names = ", ".join(data.hosts[h] for h in alone)
        warnings.append(
            f"the clock of {names} is aligned by the time of day only: no operation in which its ranks wait with the "
            "others was recorded, nor messages both ways, nor any that were waited for"
        )
    if run.thinned_ranks:
        warnings.append(
            f"{run.names.listed(run.thinned_ranks)} made too many calls to record each: their communication is "
            "sampled (sums per call path are exact)"
        )
    if run.elsewhere_by:
        shells = " and ".join(run.elsewhere_by)
        warnings.append(
            f"processes that {shells} started on other hosts left no record: {shells} passes on no environment. Put "
            "`scalana run --` before the command that it starts there (docs/hosts.md)"
        )
    if run.ranks > 1 and len(timeline.calls) == 0:
        warnings.append("no communication between the ranks was recorded")
    if not data.rows["samples"].any() and len(timeline.locations):
        warnings.append("no samples were recorded: the work between communication calls is unknown")
    incomplete = _lacking(timeline)
    if incomplete and not run.thinned_ranks and not run.missing_ranks:
        warnings.append(f"{incomplete} of {len(timeline.instances)} operations lack members: their waits are left out")
    return warnings


def _lacking(timeline: Timeline) -> int:
    """Operations that somebody must have taken part in whose call is not known.

    A receive that nothing completes is none of them: it was cancelled, or nobody sent. Nor is the end of MPI: Python's
    is behind that of its record, where it ends MPI at all.
    """
    instances, calls = timeline.instances, timeline.calls
    waited = np.zeros(len(instances.complete), dtype=bool)
    waited[calls.waits] = True
    withdrawn = ~waited & (instances.operation == BY_NAME["recv"].code)
    ends = instances.operation == BY_NAME["finalize"].code
    return int(np.count_nonzero(~instances.complete & ~withdrawn & ~ends))


def _without_rate(data: Gathered) -> bool:
    """Whether nothing was sampled: records say when each thing began and ended."""
    return any(record.meta.get("rate_hz") == "0" for record in data.records)


def rate_hz(folder: RunFolder, data: Gathered) -> float:
    """Samples a second: what the records say, else what the run was started with."""
    for text in (*(record.meta.get("rate_hz") for record in data.records), folder.info.get("rate_hz")):
        try:
            rate = float(text)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if rate > 0:
            return rate
    return 200.0
