"""Run folder -> ranks: which process' record stands for which rank, and which are its helpers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from scalana.graphs.readers.launches import (
    Launch,
    communicates,
    launch_to_analyse,
    launches_of,
    parent_of,
    process_of,
    told,
    without_wrappers,
)
from scalana.runtime.record import layout
from scalana.runtime.record.format import ProcessRecord


@dataclass(slots=True)
class RankRecord:
    """One rank: the process that communicates, and the processes that it started."""

    rank: int
    """World rank."""
    record: ProcessRecord
    children: list[ProcessRecord] = field(default_factory=list)


@dataclass(slots=True)
class RankRecords:
    """The processes of a run, sorted out."""

    ranks: list[RankRecord]
    """By rank, each rank once; ranks without a record are left out."""
    world_size: int
    """Ranks that the job had, as far as any record or rank number tells."""
    missing: list[int]
    """Ranks below ``world_size`` without a record."""
    launchers: list[str]
    """Command lines of processes that started the others and are not analysed."""
    warnings: list[str]
    several: bool = False
    """Whether the job started its ranks several times, of which these are one."""


def choose_records(records: Iterable[ProcessRecord], wanted: int | None = None) -> RankRecords:
    """Sort the processes of a run into ranks, their children, and launchers.

    Of a job that starts its ranks several times, one launch is taken: the ``wanted`` one (from 1 on), else the longest
    (see :mod:`scalana.graphs.readers.launches`). A rank that several processes of it wrote for (restarts) is
    represented by the last of them that communicated. If no process has a rank, the job is a plain program: its first
    process is rank 0.

    Raises:
        RecordError: there are not as many launches.
    """
    records = list(records)
    warnings: list[str] = []
    with_rank: list[ProcessRecord] = []
    launchers: list[ProcessRecord] = []
    others: list[ProcessRecord] = []
    for record in records:
        rank = _integer(record.meta.get("rank"))
        role = record.meta.get("role", "rank" if rank is not None else "process")
        if role == "launcher":
            launchers.append(record)
        elif role != "child" and rank is not None and rank >= 0:
            with_rank.append(record)
        else:
            others.append(record)
    with_rank, wrappers = without_wrappers(with_rank)
    launchers += wrappers
    launches = launches_of(with_rank)
    number = launch_to_analyse(launches, wanted)
    own: dict[int, list[ProcessRecord]] = defaultdict(list)
    for record in launches[number].records if launches else []:
        own[record.rank].append(record)
    if len(launches) > 1:
        warnings.append(told(launches, number, wanted is not None))
        launchers, others = _without_other_launches(launches, number, launchers, others)
    if not own:
        main = _main_process(others) or _main_process(launchers)
        if main is not None:
            own[0] = [main]
            others = [record for record in others if record is not main]
            launchers = [record for record in launchers if record is not main]
    ranks = [RankRecord(rank, _last_generation(own[rank])) for rank in sorted(own)]
    warnings += _restarts(own)
    started = {parent_of(rank.record) for rank in ranks}
    drivers = {id(record) for record in others if launches and launches[number].lies_in(record)}
    is_parent = [process_of(record) in started or id(record) in drivers for record in others]
    launchers += [record for record, starts in zip(others, is_parent, strict=True) if starts]  # torch.multiprocessing
    _adopt(ranks, [record for record, starts in zip(others, is_parent, strict=True) if not starts], warnings)
    sizes = [size for rank in ranks if (size := _integer(rank.record.meta.get("world_size"))) is not None]
    if len(set(sizes)) > 1:
        warnings.append(f"the ranks disagree about the size of the job: {sorted(set(sizes))}; the largest is taken")
    world_size = max([*sizes, *(rank.rank + 1 for rank in ranks)], default=0)
    present = {rank.rank for rank in ranks}
    missing = [rank for rank in range(world_size) if rank not in present]
    if missing:
        warnings.append(f"no record of {_ranks(missing)} of {world_size}; what waited for them cannot be explained")
    return RankRecords(
        ranks, world_size, missing, [r.meta.get("argv", r.file.name) for r in launchers], warnings, len(launches) > 1
    )


def start_ns(record: ProcessRecord) -> int:
    """Monotonic clock at the start of a record, 0 if it does not say."""
    return _integer(record.meta.get("start_ns")) or 0


def _last_generation(records: list[ProcessRecord]) -> ProcessRecord:
    """Of several records of a rank, in order of start, the last that communicated, or the last at all."""
    return ([record for record in records if communicates(record)] or records)[-1]


def _restarts(own: dict[int, list[ProcessRecord]]) -> list[str]:
    """What to tell of ranks that were started several times."""
    like: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for rank in sorted(own):
        if len(own[rank]) > 1:
            like[len(own[rank]), any(map(communicates, own[rank]))].append(rank)
    return [
        f"{_ranks(ranks)} {'were' if len(ranks) > 1 else 'was'} started {times} times; "
        f"the last start{' that communicated' * spoke} is analysed"
        for (times, spoke), ranks in like.items()
    ]


def _without_other_launches(
    launches: list[Launch], number: int, launchers: list[ProcessRecord], others: list[ProcessRecord]
) -> tuple[list[ProcessRecord], list[ProcessRecord]]:
    """Launchers and further processes, but for those that belong to another launch than the one of a number."""
    left = [record for n, launch in enumerate(launches) if n != number for record in launch.records]
    stems = {_stem(record.file.name) for record in left}
    kept, rest = others, -1
    while len(kept) != rest:  # processes that these started, and those that these started
        rest = len(kept)
        stems |= {_stem(record.file.name) for record in kept if _stem(record.meta.get("parent_record", "")) in stems}
        kept = [record for record in kept if _stem(record.file.name) not in stems]
    parents = {parent_of(record) for record in left} - {parent_of(record) for record in launches[number].records}
    launchers, kept = ([record for record in some if process_of(record) not in parents] for some in (launchers, kept))
    return launchers, kept


def _main_process(records: list[ProcessRecord]) -> ProcessRecord | None:
    """The process that the others come from: the first that is nobody's child."""
    names = {record.file.name for record in records}
    roots = [record for record in records if record.meta.get("parent_record") not in names] or records
    return min(roots, key=lambda r: (start_ns(r), r.file.name), default=None)


def _adopt(ranks: list[RankRecord], others: list[ProcessRecord], warnings: list[str]) -> None:
    """Give every other process to the rank from which it descends."""
    home = {rank.record.file.stem: rank for rank in ranks}
    waiting, orphans = list(others), 0
    while waiting:
        rest: list[ProcessRecord] = []
        for record in waiting:
            rank = home.get(_stem(record.meta.get("parent_record", "")))
            if rank is None:
                rest.append(record)
            else:
                rank.children.append(record)
                home[record.file.stem] = rank
        if len(rest) == len(waiting):
            orphans = len(rest)
            break
        waiting = rest
    if orphans:
        warnings.append(f"{orphans} recorded process{'es belong' if orphans > 1 else ' belongs'} to no rank; left out")


def _stem(name: str) -> str:
    """A record's name as children quote it: no folder, no suffix."""
    name = name.replace("\\", "/").rsplit("/", 1)[-1]
    return layout.stem_of(name)


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"
