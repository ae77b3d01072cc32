"""Which operations of a table belong together: messages between stages, and collectives of groups."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.importers.tables.operation_kinds import Kind, Members, Role
from scalana.importers.tables.operations import UNKNOWN, Operations, Table


@dataclass(frozen=True, slots=True)
class Message:
    """What one action makes and another one needs."""

    maker: int
    """Row in the operations, as the following."""
    user: int
    receive: int
    """The operation that receives it, -1 where the table has none."""
    is_backward: bool
    number: int
    """In its channel."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that take part in collectives together."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collectives:
    """Collectives of all ranks ``[collectives]``."""

    row: IntArray
    """In the operations."""
    group: IntArray
    """Row in :attr:`groups`."""
    number: IntArray
    """In its group; the same for one collective on all its ranks."""
    groups: tuple[Group, ...]


def messages_of(operations: Operations, kinds: tuple[Kind, ...]) -> list[Message]:
    """The messages between stages on different ranks: what a stage makes of a microbatch, the next one needs."""
    action = [kind.action if kind.role is Role.ACTION else "" for kind in kinds]
    made: dict[tuple[int, ...], int] = {}
    columns = (operations.kind, operations.step, operations.replica, operations.stage, operations.microbatch)
    every = [
        (row, action[kind] != "F", step, replica, stage, microbatch)
        for row, (kind, step, replica, stage, microbatch) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
        if action[kind] in ("F", "B", "I")
    ]
    for row, *key in every:
        made[tuple(key)] = row
    receives = _receives(operations, kinds, [one for one in every if (*_before(one), one[5]) in made])
    numbers: defaultdict[tuple[int, int, bool], int] = defaultdict(int)
    found = []
    for one in sorted(every, key=lambda each: (each[2], each[5], each[4])):
        maker = made.get((*_before(one), one[5]), UNKNOWN)
        channel = int(operations.rank[maker]), int(operations.rank[one[0]]), one[1]
        if maker != UNKNOWN and channel[0] != channel[1]:
            found.append(Message(maker, one[0], receives.get(one[0], UNKNOWN), one[1], numbers[channel]))
            numbers[channel] += 1
    return found


_Action = tuple[int, bool, int, int, int, int]
"""Row, whether it is a backward, step, replica, stage and microbatch."""


def _before(one: _Action) -> tuple[bool, int, int, int]:
    """Of the action that makes what one needs: whether it is a backward, its step, replica and stage."""
    _, backward, step, replica, stage, _ = one
    return backward, step, replica, stage + 1 if backward else stage - 1


def _receives(operations: Operations, kinds: tuple[Kind, ...], users: list[_Action]) -> dict[int, int]:
    """The operation by which each action receives what it needs, by row: told by the microbatch, or the n-th of a rank.

    Recorders also write receives that were never begun (on the first stage, before a step, behind it): those from
    behind the last action are left out, and where the numbers still differ no receive is known.
    """
    role = np.array([kind.role is Role.RECEIVE for kind in kinds], bool)
    backward = np.array([kind.action == "B" for kind in kinds], bool)
    rows = np.flatnonzero(role[operations.kind])
    of: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for row in rows.tolist():
        key = int(operations.rank[row]), int(operations.step[row]), bool(backward[operations.kind[row]])
        of[key].append(row)
    need: defaultdict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for one in users:
        need[int(operations.rank[one[0]]), one[2], one[1]].append(one[0])
    found = {}
    for key, actions in need.items():
        actions.sort(key=lambda row: int(operations.begin_ns[row]))
        last = int(operations.begin_ns[actions[-1]])
        mine = sorted(of[key], key=lambda row: int(operations.begin_ns[row]))
        told = {int(operations.microbatch[row]): row for row in mine if operations.microbatch[row] != UNKNOWN}
        if len(told) == len(mine) and told:
            found.update({a: told[m] for a in actions if (m := int(operations.microbatch[a])) in told})
            continue
        mine = mine if len(mine) == len(actions) else [row for row in mine if operations.begin_ns[row] <= last]
        if len(mine) == len(actions):
            found.update(zip(actions, mine, strict=True))
    return found


def collectives_of(table: Table, operations: Operations) -> Collectives:
    """The collectives, each with its group and its number there."""
    chosen = np.array([kind.role is Role.COLLECTIVE for kind in table.kinds], bool)
    rows = np.flatnonzero(chosen[operations.kind])
    group, groups = _groups(table, operations, rows)
    kind, step, rank = operations.kind[rows], operations.step[rows], operations.rank[rows]
    nth = _occurrence(rank, group, step, kind)
    every, place = np.unique(np.column_stack((group, step, kind, nth)), axis=0, return_inverse=True)
    first = np.searchsorted(every[:, 0], np.arange(len(groups))) if len(rows) else np.zeros(0, np.int64)
    return Collectives(rows, group, place.reshape(-1) - first[group], groups)


def _occurrence(*columns: IntArray) -> IntArray:
    """How many rows before each have the same values in all columns ``[rows]``."""
    _, key = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    order = np.argsort(key.reshape(-1), kind="stable")
    ordered = key.reshape(-1)[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else order
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return number


def _groups(table: Table, operations: Operations, rows: IntArray) -> tuple[IntArray, tuple[Group, ...]]:
    """The group of some collectives: as told, or as kinds of them are known to have ``[rows]``; and all groups."""
    ranks = np.unique(operations.rank)
    places = np.unique(np.column_stack((operations.rank, operations.stage, operations.replica)), axis=0)
    places = places[(places[:, 1] != UNKNOWN) & (places[:, 2] != UNKNOWN)]
    stage_of = {int(rank): int(stage) for rank, stage, _ in places[::-1]}
    replica_of = {int(rank): int(replica) for rank, _, replica in places}
    last = int(places[:, 1].max(initial=0))
    names: dict[str, set[int]] = {}
    keys = []
    columns = operations.kind[rows], operations.rank[rows], operations.group[rows]
    for kind, rank, group in zip(*(column.tolist() for column in columns), strict=True):
        members = table.kinds[kind].members
        if group != UNKNOWN:
            key = f"group {table.groups[group]}"
        elif members is Members.REPLICAS and rank in stage_of:
            key = f"replicas of stage {stage_of[rank]}"
        elif members is Members.ENDS and rank in replica_of:
            key = f"first and last stage of replica {replica_of[rank]}" if last else f"rank {rank} alone"
        else:
            key = "all ranks"
        names.setdefault(key, set()).add(rank)
        keys.append(key)
    if "all ranks" in names:
        names["all ranks"] = set(ranks.tolist())
    number = {key: row for row, key in enumerate(names)}
    groups = tuple(Group(key, tuple(sorted(members))) for key, members in names.items())
    return np.array([number[key] for key in keys], np.int64), groups
