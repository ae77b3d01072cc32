"""Processes without a rank that were started again: actors of Ray that died, and had restarts left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.graphs.readers.processes.launches import duration_ns, host_of
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.worlds import World
from scalana.runtime.record.format import ProcessRecord

_SHOWN = 4
"""Of them that are described one by one."""


@dataclass(frozen=True, slots=True)
class StartedAgain:
    """One that ended, and the one in its place."""

    ended: ProcessRecord
    again: ProcessRecord
    process: int
    """The number in the run of the first."""
    in_place: int
    """That of the second."""


def started_again(worlds: Sequence[World]) -> list[StartedAgain]:
    """Those of some worlds, in the order in which they ended. Both have the name by which their maker knows them."""
    of_name: dict[str, list[tuple[ProcessRecord, int]]] = defaultdict(list)
    for world in worlds:
        for rank, records in world.records.items():
            for record in records:
                if record.role == "member" and record.meta.get("made_as"):
                    of_name[record.meta["made_as"]].append((record, world.first + rank))
    found = []
    for some in of_name.values():
        some.sort(key=lambda one: one[0].last_ns)
        for (ended, process), (again, in_place) in zip(some[:-1], some[1:], strict=True):
            # The process in its place may have run before, and waited for work.
            if host_of(ended) == host_of(again) and ended.meta.get("pid") != again.meta.get("pid"):
                found.append(StartedAgain(ended, again, process, in_place))
    return sorted(found, key=lambda one: one.ended.last_ns)


def described(found: Sequence[StartedAgain], names: ProcessNames) -> list[str]:
    """For the user: which ended, and which are in their place."""
    lines = []
    for one in found[:_SHOWN]:
        name, new = names.one(one.process), names.one(one.in_place)
        place = f", as {new}" if new != name else ""
        lines.append(f"{name} ended after {duration_ns(one.ended) * 1e-9:.1f} s, and was started again{place}")
    return [*lines, f"{len(found) - _SHOWN} more such starts"] if len(found) > _SHOWN else lines
