"""Communicators that join worlds: a group of a trainer and all rollouts, over which it sends them new weights.

Nobody in such a group knows the ranks of the others in their worlds; everyone knows the name of the group and its own
place in it. Who has the other places is found out afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.records import Events

Named = list[tuple[str, bytes]]
"""Communicators: name, and processes as 32-bit numbers."""


@dataclass(slots=True)
class Joined:
    """Communicators that were found to be one."""

    row: dict[int, int] = field(default_factory=dict)
    """Row of each part of one -> row that it has from now on."""
    members: dict[int, IntArray] = field(default_factory=dict)
    """Row -> process of each place, -1 where it has no record."""


def find_joined(communicators: Named, claims: IntArray, is_at: IntArray) -> Joined:
    """Communicators of one name in which each world has some of the places.

    Args:
        communicators: as the processes of each world see them.
        claims: communicator, place of a process in it, and that process' number in the table ``[3, claims]``.
        is_at: number in the run of each process in the table ``[processes]``.
    """
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for row, place, process in claims.T.tolist():
        places[row][place] = int(is_at[process])
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in sorted(places):
        name, members = communicators[row]
        alike[name, len(members)].append(row)
    found = Joined()
    for (_, size), rows in alike.items():
        size //= np.dtype(np.int32).itemsize
        taken = [place for row in rows for place in places[row]]
        if len(rows) < 2 or len(set(taken)) < len(taken):
            continue
        if len(taken) < size and all(_as_told(communicators[row][1], places[row]) for row in rows):
            continue
        who = np.full(size, -1, np.int64)
        for row in rows:
            found.row[row] = rows[0]
            for place, process in places[row].items():
                if 0 <= place < size:
                    who[place] = process
        found.members[rows[0]] = who
    return found


def _as_told(members: bytes, places: dict[int, int]) -> bool:
    """Whether processes have the places that their world's ranks would have."""
    processes = np.frombuffer(members, np.int32)
    return all(0 <= place < len(processes) and processes[place] == process for place, process in places.items())


def join(communicators: Named, events: Events, joined: Joined, first: IntArray) -> Named:
    """The communicators with those that were found; in ``events`` their rows, and peers as processes of the run.

    ``first``: by how much the ranks of each process were raised ``[processes]``.
    """
    row = np.arange(len(communicators) + 1)
    row[-1] = -1
    row[list(joined.row)] = list(joined.row.values())
    there = np.flatnonzero(np.isin(events.communicator, list(joined.row)))
    events.communicator[there] = row[events.communicator[there]]
    for whole, members in joined.members.items():
        mine = there[events.communicator[there] == whole]
        place = events.peer[mine].astype(np.int64) - first[events.process[mine]]
        known = (events.peer[mine] >= 0) & (place >= 0) & (place < len(members))
        events.peer[mine] = np.where(known, members[np.clip(place, 0, len(members) - 1)], -1)
    return [
        (name, joined.members[number].astype(np.int32).tobytes() if number in joined.members else members)
        for number, (name, members) in enumerate(communicators)
    ]
