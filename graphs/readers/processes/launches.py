"""Which processes of a job ran together: a script may start ranks several times, one program after the other.

Ranks of one launch have a launcher in common on every host, or run at the same time. What a launcher starts again in
place of ranks that failed is of the same launch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from scalana.runtime.record import layout
from scalana.runtime.record.format import ProcessRecord, RecordError

_TOLD = 4
"""Launches that are told one by one."""


@dataclass(slots=True)
class Launch:
    """Processes with a rank that were started together, in the order in which they began."""

    records: list[ProcessRecord] = field(default_factory=list)
    start_ns: int = 0
    """Time of the day at which the first of them began."""
    end_ns: int = 0
    """Latest moment in their records, likewise."""
    rank_ns: int = 0
    """How long they ran, together."""
    ranks: set[int] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    """Sizes of the world, as far as they say."""
    group: tuple[str, str] = ("", "")
    """What tells them from others that the same process started: their process group, and their role or program."""

    def add(self, record: ProcessRecord) -> None:
        """A process that began no earlier than those that are there."""
        start_ns, end_ns = _span_ns(record)
        self.start_ns = self.start_ns if self.records else start_ns
        self.end_ns = max(self.end_ns, end_ns)
        self.rank_ns += end_ns - start_ns
        self.ranks.add(record.rank)
        self.sizes |= {record.meta["world_size"]} if "world_size" in record.meta else set()
        self.records.append(record)

    def lies_in(self, record: ProcessRecord) -> bool:
        """Whether a process that no recorded one started was there all the time: it drives ranks, and helps none."""
        start_ns, end_ns = _span_ns(record)
        return "parent_record" not in record.meta and start_ns < self.start_ns and end_ns >= self.end_ns

    def beside(self, record: ProcessRecord) -> bool:
        """Whether a process was there while any of these was."""
        start_ns, end_ns = _span_ns(record)
        return start_ns <= self.end_ns and end_ns >= self.start_ns

    @property
    def communicates(self) -> bool:
        """Whether calls of any of its processes were recorded."""
        return any(communicates(record) for record in self.records)


def communicates(record: ProcessRecord) -> bool:
    """Whether calls of a process were recorded."""
    return len(record.events) > 0 or len(record.open) > 0


def without_wrappers(records: Sequence[ProcessRecord]) -> tuple[list[ProcessRecord], list[ProcessRecord]]:
    """Processes with a rank that are one, and those that only started one for it: a debugger, a script around each."""
    parents = {(*parent_of(record), record.rank) for record in records}
    wraps = [not communicates(record) and (*process_of(record), record.rank) in parents for record in records]
    return (
        [record for record, wrapper in zip(records, wraps, strict=True) if not wrapper],
        [record for record, wrapper in zip(records, wraps, strict=True) if wrapper],
    )


def launches_of(records: Sequence[ProcessRecord]) -> list[Launch]:
    """Sort processes with a rank into launches, in the order in which these began."""
    # Real time orders records of different boots or hosts, the monotonic clock those of one.
    ordered = sorted(records, key=lambda r: (r.number("unix_ns", 0), r.number("start_ns", 0), record_name(r)))
    apart = _told_apart(ordered)
    if len({record.rank for record in ordered}) == len(ordered) and len(set(apart)) < 2:
        whole = Launch()
        for record in ordered:
            whole.add(record)
        return [whole] if ordered else []
    launches: list[Launch] = []
    of_parent: dict[tuple[str, ...], Launch] = {}
    of_world: dict[tuple[str, ...], Launch] = {}
    for record, group in zip(ordered, apart, strict=True):
        parent = (*parent_of(record), *group)
        met = (world_id(record), *group)
        launch = of_world.get(met) if met[0] else None
        if launch is None:
            launch = of_parent.get(parent)
            if launch is None or not _goes_on(launch, record):
                launch = _that_runs_beside(record, group, launches)
        if launch is None:
            launch = Launch(group=group)
            launches.append(launch)
        of_parent[parent] = of_world[met] = launch
        launch.add(record)
    return launches


def launch_to_analyse(launches: Sequence[Launch], wanted: int | None) -> int:
    """The launch that was asked for (from 1 on); else, of those that communicate, the one that took most time of ranks.

    Raises:
        RecordError: there are not as many.
    """
    if wanted is not None:
        if not 1 <= wanted <= max(len(launches), 1):
            count = f"{len(launches)} times" if len(launches) > 1 else "once"
            raise RecordError(f"there is no launch {wanted}: the job started its ranks {count}")
        return wanted - 1
    numbers = range(len(launches))
    return max(numbers, key=lambda n: (launches[n].communicates, launches[n].rank_ns, n), default=0)


def told(launches: Sequence[Launch], chosen: int, asked: bool) -> str:
    """For the user: what was launched, and which of it is analysed."""
    listed = ", ".join(f"{n + 1}. {_described(launch)}" for n, launch in enumerate(launches[:_TOLD]))
    more = f" and {len(launches) - _TOLD} more" if len(launches) > _TOLD else ""
    which = f"launch {chosen + 1}" if asked else f"launch {chosen + 1}, the longest,"
    return (
        f"the job started ranks {len(launches)} times ({listed}{more}): {which} is analysed; use `scalana report "
        "--launch N` for another"
    )


def _described(launch: Launch) -> str:
    words = program_of(launch.records[0])
    name = " ".join(os.path.basename(word) for word in words[:2] if not word.startswith("-")) or "?"
    count = len(launch.ranks)
    return f"{name} on {count} rank{'s' * (count != 1)}, {(launch.end_ns - launch.start_ns) * 1e-9:.1f} s"


def _goes_on(launch: Launch, record: ProcessRecord) -> bool:
    """Whether what the same parent starts is of a launch: beside others, or what one of it ran, anew."""
    return launch.end_ns > _span_ns(record)[0] or program_of(launch.records[0]) == program_of(record)


def _told_apart(records: Sequence[ProcessRecord]) -> list[tuple[str, str]]:
    """What tells processes apart that one process started, and that count their ranks from 0 each ``[records]``.

    That is the process group that they joined, where whoever started them did not know of it (Ray); and the role, or
    else the program, where each of several has a rank 0.
    """
    ranks: dict[tuple[str, ...], dict[str, set[int]]] = {}
    worlds = [record.meta.get("world", "") for record in records]
    labels = [record.meta.get("part") or " ".join(program_of(record)[:2]) for record in records]
    for record, world, label in zip(records, worlds, labels, strict=True):
        ranks.setdefault((*parent_of(record), world), {}).setdefault(label, set()).add(record.rank)
    several = {key for key, of in ranks.items() if len(of) > 1 and all(0 in some for some in of.values())}
    return [
        (world, label if (*parent_of(record), world) in several else "")
        for record, world, label in zip(records, worlds, labels, strict=True)
    ]


def _that_runs_beside(record: ProcessRecord, group: tuple[str, str], launches: Sequence[Launch]) -> Launch | None:
    """The latest launch that is under way when a process begins, of as many ranks, and has not this one."""
    start_ns, _ = _span_ns(record)
    size = record.meta.get("world_size")
    for launch in reversed(launches):
        alike = (size is None or launch.sizes <= {size}) and launch.group == group
        if launch.end_ns > start_ns and alike and record.rank not in launch.ranks:
            return launch
    return None


def record_name(record: ProcessRecord) -> str:
    """What tells a record from all others; folders that are put together may have some of one name."""
    return layout.stem_of(os.fspath(record.file))


def parent_record(record: ProcessRecord) -> str:
    """The :func:`record_name` of the process that one descends from; empty where it says none."""
    quoted = record.meta.get("parent_record", "").replace("\\", "/").rpartition("/")[2]
    return layout.stem_of(os.path.join(os.path.dirname(os.fspath(record.file)), quoted)) if quoted else ""


def parent_of(record: ProcessRecord) -> tuple[str, str]:
    """Host and process that started a process, "" where unknown."""
    return host_of(record), record.meta.get("ppid", "")


def host_of(record: ProcessRecord) -> str:
    """What tells the host of a process from others, which may have the same name."""
    return f"{record.meta.get('host', '')} {record.meta.get('boot_id', '')}"


def world_id(record: ProcessRecord) -> str:
    """The identity of the process group that a rank joined, which ranks of other groups do not have; "" for none."""
    return record.meta.get("world_id", "")


def duration_ns(record: ProcessRecord) -> int:
    """How long a process was recorded."""
    start_ns, end_ns = _span_ns(record)
    return end_ns - start_ns


def process_of(record: ProcessRecord) -> tuple[str, str | None]:
    """A process as :func:`parent_of` names the parent of others."""
    return host_of(record), record.meta.get("pid")


def program_of(record: ProcessRecord) -> list[str]:
    """The command line of a process, as far as it says."""
    text = record.meta.get("argv", "[]")
    try:
        words = json.loads(text)
    except ValueError:
        return [text]
    return [str(word) for word in words] if isinstance(words, list) else [text]


def _span_ns(record: ProcessRecord) -> tuple[int, int]:
    """When a process began, and the latest moment of its record, as time of the day."""
    start_ns = record.number("start_ns", 0) or record.first_ns
    real_ns = record.number("unix_ns", 0) or start_ns
    return real_ns, real_ns + max(record.last_ns - start_ns, 0)
