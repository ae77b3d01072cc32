"""Run folder -> ranks: which process' record stands for which rank, and which are its helpers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scalana.graphs.readers.processes.askers import let_askers_take_part
from scalana.graphs.readers.processes.attempts import attempts_of, described, furthest, starts_in_order
from scalana.graphs.readers.processes.launches import (
    communicates,
    launch_to_analyse,
    launches_of,
    parent_of,
    parent_record,
    process_of,
    record_name,
    told,
    without_wrappers,
)
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.started_again import StartedAgain, started_again
from scalana.graphs.readers.processes.started_again import described as described_again
from scalana.graphs.readers.processes.worlds import (
    World,
    last,
    merged,
    names_of,
    order_made,
    role_of,
    together,
    worlds_of,
)
from scalana.runtime.record.format import ProcessRecord

_FORKED_NS = 1_000_000_000
"""A record that stops sooner after its begin may be that of a process that has become another program."""


@dataclass(slots=True)
class RankRecord:
    """One rank: the process that communicates, and the processes that it started."""

    rank: int
    """Number of the process in the run; the rank in its world where there is one world."""
    record: ProcessRecord
    children: list[ProcessRecord] = field(default_factory=list)
    first: int = 0
    """Number of the process of rank 0 in its world."""


@dataclass(slots=True)
class RankRecords:
    """The processes of a run, sorted out."""

    ranks: list[RankRecord]
    """By rank, each rank once; ranks without a record are left out."""
    world_size: int
    """Ranks that the job had, in all its worlds, as far as any record or rank number tells."""
    missing: list[int]
    """Ranks below ``world_size`` without a record."""
    launchers: list[str]
    """Command lines of processes that started the others and are not analysed."""
    warnings: list[str]
    several: bool = False
    """Whether the job started its ranks several times, of which these are one."""
    worlds: list[World] = field(default_factory=list)
    names: ProcessNames = field(default_factory=ProcessNames)
    starts: list[tuple[ProcessRecord, ...]] = field(default_factory=list)
    """The processes of every start of the ranks of the first world, in order; those that are analysed among them."""
    again: list[StartedAgain] = field(default_factory=list)
    """Processes without a rank that were started again."""

    def members(self) -> list[ProcessRecord]:
        """The processes of a job that has no ranks, such as a driver and actors; none of a job with ranks, or of a part
        of a chain."""
        if self.starts or self.several:
            return []
        records = (record for world in self.worlds for some in world.records.values() for record in some)
        return [record for record in records if record.role == "member"]


@dataclass(slots=True)
class _Sorted:
    """Processes by what they say of themselves."""

    with_rank: list[ProcessRecord]
    members: list[ProcessRecord]
    """Without a rank, but with a role of their own."""
    launchers: list[ProcessRecord]
    others: list[ProcessRecord]


def choose_records(records: Iterable[ProcessRecord], wanted: int | None = None) -> RankRecords:
    """Sort the processes of a run into ranks, their children, and launchers.

    Of a job that starts its ranks several times, one launch is taken: the ``wanted`` one (from 1 on), else the longest
    (see :mod:`scalana.graphs.readers.processes.launches`), with all worlds of ranks that ran beside each other
    (:mod:`scalana.graphs.readers.processes.worlds`). A rank that several processes of it wrote for (restarts) is
    represented by the last of them that communicated. If no process has a rank or a role, the job is a plain program:
    its first process is rank 0.

    Raises:
        RecordError: there are not as many launches.
    """
    warnings: list[str] = []
    records = list(records)
    let_askers_take_part(records)
    by_kind = _sorted(records)
    members, launchers, others = by_kind.members, by_kind.launchers, by_kind.others
    side_by_side = together(launches_of(by_kind.with_rank))
    launches = [merged(some) for some in side_by_side]
    number = launch_to_analyse(launches, wanted)
    chosen = side_by_side[number] if launches else []
    left = [record for launch in launches if launch is not launches[number] for record in launch.records]
    starts: list[tuple[ProcessRecord, ...]] = []
    for launch in chosen:
        attempts = attempts_of(launch.records)
        starts = starts or [attempt.records for attempt in starts_in_order(launch.records)]
        best = furthest(attempts)
        if len(attempts) > 1:
            warnings += described(attempts, best)
            left += [record for attempt in attempts if attempt is not attempts[best] for record in attempt.records]
            launch.records = list(attempts[best].records)
    if left:
        kept = [record for launch in chosen for record in launch.records]
        launchers, others = _without_helpers_of(left, kept, launchers, others)
    if len(launches) > 1:
        warnings.append(told(launches, number, wanted is not None))
        members = [record for record in members if launches[number].beside(record)]
    worlds = worlds_of(chosen, members, order_made(records) if members else {})
    worlds_given = bool(worlds)
    if not worlds:
        main = _main_process(others) or _main_process(launchers)
        if main is not None:
            worlds = [World("", 0, 1, {0: [main]})]
            others = [record for record in others if record is not main]
            launchers = [record for record in launchers if record is not main]
    names = names_of(worlds)
    ranks = [
        RankRecord(world.first + rank, last(world.records[rank]), [], world.first)
        for world in worlds
        for rank in sorted(world.records)
    ]
    again = started_again(worlds)
    warnings += [*_restarts(worlds, names), *described_again(again, names)]
    started = {parent_of(rank.record) for rank in ranks}
    drivers = {id(record) for record in others if launches and launches[number].lies_in(record)}
    is_parent = [process_of(record) in started or id(record) in drivers for record in others]
    launching = [record for record, starts in zip(others, is_parent, strict=True) if starts]  # torch.multiprocessing
    launchers += launching
    _adopt(ranks, _without_helpers(others, launching, ranks), warnings, alone=not worlds_given)
    warnings += [
        f"the ranks disagree on the size of the job: {world.sizes}; the largest is used"
        for world in worlds
        if len(world.sizes) > 1
    ]
    world_size = sum(world.size for world in worlds)
    present = {rank.rank for rank in ranks}
    missing = [rank for rank in range(world_size) if rank not in present]
    if missing:
        said = names.listed(missing)
        warnings.append(
            f"no record of {said} of {world_size}: what they do is unknown; waits count up to the last recorded "
            "arrival (lower bounds), and savings are upper bounds"
        )
    commands = [record.meta.get("argv", record.file.name) for record in launchers]
    return RankRecords(ranks, world_size, missing, commands, warnings, len(launches) > 1, worlds, names, starts, again)


def _sorted(records: Sequence[ProcessRecord]) -> _Sorted:
    """Sort processes by what they say of themselves."""
    kinds = _Sorted([], [], [], [])
    for record in records:
        rank = _integer(record.meta.get("rank"))
        role = record.meta.get("role", "rank" if rank is not None else "process")
        if role == "launcher":
            kinds.launchers.append(record)
        elif role != "child" and rank is not None and rank >= 0:
            kinds.with_rank.append(record)
        elif role == "member" and role_of(record):
            kinds.members.append(record)
        elif role == "spare":
            continue
        else:
            kinds.others.append(record)
    kinds.with_rank, wrappers = without_wrappers(kinds.with_rank)
    # Whoever starts ranks hands them the variable that has their role, and has it itself.
    taken = {role_of(record) for record in kinds.with_rank}
    inherited = [r for r in kinds.members if r.meta.get("part_source") == "environment" and role_of(r) in taken]
    if kinds.with_rank:  # who but starts processes is their launcher, or a helper's
        inherited += [record for record in kinds.members if record.meta.get("takes_part_by") == "starts"]
    kinds.members = [record for record in kinds.members if not any(record is other for other in inherited)]
    kinds.others += inherited
    kinds.launchers += wrappers
    return kinds


def _without_helpers(
    others: Sequence[ProcessRecord], launching: Sequence[ProcessRecord], ranks: Sequence[RankRecord]
) -> list[ProcessRecord]:
    """Processes but for those that start ranks; and but for what they, or ranks, forked to become a program that is not
    recorded: that calls nobody, and its record stops right where it began."""
    parents = {process_of(record) for record in (*launching, *(rank.record for rank in ranks))}
    return [
        record
        for record in others
        if not any(record is one for one in launching)
        and (parent_of(record) not in parents or communicates(record) or record.ended or _lasts(record))
    ]


def _lasts(record: ProcessRecord) -> bool:
    return record.last_ns - (start_ns(record) or record.first_ns) > _FORKED_NS


def start_ns(record: ProcessRecord) -> int:
    """Monotonic clock at the start of a record, 0 if it does not say."""
    return _integer(record.meta.get("start_ns")) or 0


def _restarts(worlds: list[World], names: ProcessNames) -> list[str]:
    """What to tell of ranks that were started several times."""
    like: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for world in worlds:
        for rank, records in sorted(world.records.items()):
            if len(records) > 1:
                like[len(records), any(map(communicates, records))].append(world.first + rank)
    return [
        f"{names.listed(ranks)} {'were' if len(ranks) > 1 else 'was'} started {times} times; "
        f"the last start{' that communicated' * spoke} is analysed"
        for (times, spoke), ranks in like.items()
    ]


def _without_helpers_of(
    left: list[ProcessRecord],
    analysed: list[ProcessRecord],
    launchers: list[ProcessRecord],
    others: list[ProcessRecord],
) -> tuple[list[ProcessRecord], list[ProcessRecord]]:
    """Launchers and further processes, but for those that belong to ranks that are left out, not to ``analysed``."""
    stems = {record_name(record) for record in left}
    kept, rest = others, -1
    while len(kept) != rest:  # processes that these started, and those that these started
        rest = len(kept)
        stems |= {record_name(record) for record in kept if parent_record(record) in stems}
        kept = [record for record in kept if record_name(record) not in stems]
    parents = {parent_of(record) for record in left} - {parent_of(record) for record in analysed}
    launchers, kept = ([record for record in some if process_of(record) not in parents] for some in (launchers, kept))
    return launchers, kept


def _main_process(records: list[ProcessRecord]) -> ProcessRecord | None:
    """The process that the others come from: the first that is nobody's child."""
    names = {record_name(record) for record in records}
    roots = [record for record in records if parent_record(record) not in names] or records
    return min(roots, key=lambda r: (start_ns(r), record_name(r)), default=None)


def _adopt(ranks: list[RankRecord], others: list[ProcessRecord], warnings: list[str], alone: bool = False) -> None:
    """Give every other process to the rank from which it descends, by its record's name or by the process that started
    it; where one process is the job (``alone``), all the rest to that."""
    home = {record_name(rank.record): rank for rank in ranks}
    by_process = {process_of(rank.record): rank for rank in ranks}
    waiting = list(others)
    while waiting:
        rest: list[ProcessRecord] = []
        for record in waiting:
            rank = home.get(parent_record(record)) or by_process.get(parent_of(record))
            if rank is None:
                rest.append(record)
            else:
                rank.children.append(record)
                home[record_name(record)] = by_process[process_of(record)] = rank
        if len(rest) == len(waiting):
            break
        waiting = rest
    if waiting and alone and len(ranks) == 1:
        ranks[0].children += waiting
    elif waiting:
        several = len(waiting) > 1
        warnings.append(f"{len(waiting)} recorded process{'es belong' if several else ' belongs'} to no rank; left out")


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
