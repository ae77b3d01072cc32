"""The worlds of a run: groups of processes that count their ranks from 0 each, such as trainers, rollouts, a driver.

Ranks of one launcher (or of one process group) are a world. Processes without a rank that have a role of their own, a
driver or an actor, are worlds by their roles. All processes of a run are numbered through, one world after the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from scalana.graphs.readers.processes.launches import (
    Launch,
    communicates,
    parent_of,
    parent_record,
    process_of,
    program_of,
    record_name,
)
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.runtime.record.format import ProcessRecord

MADE = "made "
"""What keys of a record begin with that say whom its process had made."""
WORKER, POOL_WORKER = "worker", "pool worker"
"""What a process of a pool says that it is, and what it is called where it belongs to a rank."""
_TOGETHER = 0.5
"""Part of the time of launches that they must run side by side to be worlds of one job."""


@dataclass(slots=True)
class World:
    """Processes that number themselves from 0."""

    role: str
    """What most of them are, empty where nothing tells."""
    first: int
    """Number in the run of the process of rank 0."""
    size: int
    """Ranks that it had, as far as any record or rank number tells."""
    records: dict[int, list[ProcessRecord]]
    """All records of each rank, in the order of their starts; none once their columns have been put together."""
    ranked: bool = True
    """Whether the processes were told their ranks."""
    sizes: list[int] = field(default_factory=list)
    """What its processes say of its size, each once."""
    parent: str = ""
    """The record of the rank that its processes belong to, empty for none."""
    counted_from: int = 0
    """What the one of rank 0 is called by."""


def role_of(record: ProcessRecord) -> str:
    """The role that a process was told, empty for none."""
    return record.meta.get("part", "")


def together(launches: Sequence[Launch]) -> list[list[Launch]]:
    """Launches that are worlds of one job side by side, in the order in which they began.

    That are launches that run at the same time and were given roles, or are of different programs for most of the time
    of both. A launch by a rank of another one is none of its worlds.
    """
    found: list[list[Launch]] = []
    for launch in launches:
        home = next((some for some in found if all(_side_by_side(launch, other) for other in some)), None)
        if home is None:
            found.append([launch])
        else:
            home.append(launch)
    return found


def merged(launches: Sequence[Launch]) -> Launch:
    """Several launches as one, to tell of them."""
    if len(launches) == 1:
        return launches[0]
    whole = Launch()
    for record in sorted((r for launch in launches for r in launch.records), key=lambda r: r.number("unix_ns", 0)):
        whole.add(record)
    return whole


def order_made(records: Sequence[ProcessRecord]) -> dict[str, tuple[int, int]]:
    """When processes were made that others had made, by what these know them: the start of their maker, and the
    how-manieth they were for it."""
    return {
        key.removeprefix(MADE): (record.number("unix_ns", 0), int(value))
        for record in records
        for key, value in record.meta.items()
        if key.startswith(MADE) and value.isdigit()
    }


def worlds_of(
    launches: Sequence[Launch], members: Sequence[ProcessRecord], made: Mapping[str, tuple[int, int]]
) -> list[World]:
    """The worlds of some launches and of processes without a rank that have a role (``members``), by role.

    Those without a number follow each other as they were made (:func:`order_made`), or else as they began.
    """
    parents = {record_name(record) for launch in launches for record in launch.records}
    several = len(launches) > 1 or any(_parent_in(parents, record) == "" for record in members)
    ranked = [(_role_of_launch(launch, several), launch) for launch in launches]
    worlds = [_of_launch(role, launch) for role, launch in ranked]
    by_role: dict[tuple[str, str, str], list[ProcessRecord]] = defaultdict(list)

    def turn(record: ProcessRecord) -> tuple[bool, tuple[int, int], int, int, str]:
        when = made.get(record.meta.get("made_as", ""))
        start = record.number("unix_ns", 0), record.number("start_ns", 0)
        return when is None, when or (0, 0), *start, record_name(record)

    for record in sorted(members, key=turn):
        by_role[_parent_in(parents, record), role_of(record), record.meta.get("world", "")].append(record)
    worlds += [
        _of_members(POOL_WORKER if parent and role == WORKER else role, records, parent)
        for (parent, role, _), records in by_role.items()
    ]
    worlds.sort(key=lambda world: (world.parent != "", world.role))
    first = 0
    for world in worlds:
        world.first, first = first, first + world.size
    return worlds


def names_of(worlds: Sequence[World]) -> ProcessNames:
    """What the processes of some worlds are called: "rank N" where one world has one role, or none.

    Where worlds have the same role, the numbers of one go on behind those of another.
    """
    told = {role_of(last(records)) or world.role for world in worlds for records in world.records.values()}
    if len(worlds) < 2 and len(told) < 2:
        return ProcessNames()
    process = {
        record_name(record): world.first + rank
        for world in worlds
        for rank, records in world.records.items()
        for record in records
    }
    roles: list[str] = []
    numbers: list[int] = []
    whose: list[int] = []
    behind: Counter[str] = Counter()
    for world in worlds:
        mine = [
            (role_of(last(world.records[rank])) if rank in world.records else "") or world.role or "rank"
            for rank in range(world.size)
        ]
        roles += mine
        whose += [process.get(world.parent, -1)] * world.size
        if world.parent:
            roles[-world.size :] = [world.role] * world.size
            numbers += range(world.size)
            continue
        numbers += [behind[role] + rank + world.counted_from for rank, role in enumerate(mine)]
        for role in set(mine):
            behind[role] += world.size
    unranked = {world.role for world in worlds if not world.ranked and not world.parent}
    alone = {role for role in unranked if roles.count(role) == 1}
    return ProcessNames(
        tuple(roles),
        tuple(-1 if role in alone else number for role, number in zip(roles, numbers, strict=True)),
        tuple(whose) if max(whose) >= 0 else (),
    )


def last(records: Sequence[ProcessRecord]) -> ProcessRecord:
    """Of several records of a rank, in order of start, the last that communicated, or the last at all."""
    return ([record for record in records if communicates(record)] or records)[-1]


def _side_by_side(one: Launch, other: Launch) -> bool:
    pids = {process_of(record) for record in other.records}
    if any(parent_of(record) in pids for record in one.records):
        return False
    shared = min(one.end_ns, other.end_ns) - max(one.start_ns, other.start_ns)
    lengths = [launch.end_ns - launch.start_ns for launch in (one, other)]
    if all(_told(launch) for launch in (one, other)):
        return shared >= _TOGETHER * min(lengths)
    return _program(one) != _program(other) and shared >= _TOGETHER * max(lengths)


def _told(launch: Launch) -> str:
    """The role that most processes of a launch were told."""
    roles = Counter(role for record in launch.records if (role := role_of(record)))
    return roles.most_common(1)[0][0] if roles else ""


def _program(launch: Launch) -> str:
    """The name of a launch's program, without its folder and end."""
    words = program_of(launch.records[0])
    script = next((word for word in words if word.endswith(".py")), words[0] if words else "")
    return PurePath(script).stem


def _role_of_launch(launch: Launch, several: bool) -> str:
    """What its processes were told, or the name of its program where it is not alone."""
    return _told(launch) or (_program(launch) if several else "")


def _of_launch(role: str, launch: Launch) -> World:
    own: dict[int, list[ProcessRecord]] = defaultdict(list)
    for record in launch.records:
        own[record.rank].append(record)
    sizes = [size for records in own.values() if (size := last(records).number("world_size", -1)) >= 0]
    return World(role, 0, max([*sizes, *(rank + 1 for rank in own)], default=0), own, sizes=sorted(set(sizes)))


def _parent_in(parents: set[str], record: ProcessRecord) -> str:
    """The record of the rank that a process descends from, if it is one of some; empty for none."""
    parent = parent_record(record)
    return parent if parent in parents else ""


def _of_members(role: str, records: Sequence[ProcessRecord], parent: str = "") -> World:
    """Processes without a rank, in the order of their starts: those that were told a number in their role keep it,
    unless another one has it already (one that was started again is made but once)."""
    own: dict[int, list[ProcessRecord]] = {}
    left = []
    for record in records:
        number = record.number("part_rank", -1)
        if number >= 0 and own.get(number, [record])[0].meta.get("made_as") == record.meta.get("made_as"):
            own.setdefault(number, []).append(record)
        else:
            left.append(record)
    ranked, free = bool(own), 0
    for record in left:
        while free in own:
            free += 1
        own[free] = [record]
    counted_from = max((record.number("part_first", 0) for record in records), default=0)
    return World(role, 0, max(own, default=-1) + 1, own, ranked, parent=parent, counted_from=counted_from)
