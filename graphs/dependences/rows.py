"""Signals: a call that gives one, and a call that waits for it; and what all that find them need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import IntArray
from scalana.runtime.operations import BY_NAME, GIVING, TAKING

NEIGHBOURS = BY_NAME["neighbor_collective"].code
POST, START, COMPLETE, WAIT = (BY_NAME[f"win_{name}"].code for name in ("post", "start", "complete", "wait"))
LOCK, UNLOCK, FLUSH = (BY_NAME[f"win_{name}"].code for name in ("lock", "unlock", "flush"))
ACCESS = BY_NAME["one_sided"].code
SIGNALLING = (NEIGHBOURS, *range(POST, FLUSH + 1), ACCESS, *GIVING, *TAKING)
"""Operations that signals are found from."""


class Members(Protocol):
    """The name of a communicator and its world ranks.

    What belongs to another one has its name and a slash before its own: ``X/neighbours:3`` are those that rank 3
    receives from in X, and ``W/...`` those with whom an epoch of window W is.
    """

    @property
    def name(self) -> str: ...

    @property
    def ranks(self) -> Sequence[int]: ...


class MemberTable(NamedTuple):
    """The world ranks of all communicators."""

    first: IntArray
    """Where those of each begin, and the end ``[communicators + 1]``."""
    ranks: IntArray
    """One communicator's behind the other's."""


@dataclass(slots=True)
class Signals(ColumnTable):
    """One row per call that waits for another one."""

    given: IntArray
    """Call that gives the signal ``[rows]``."""
    awaited: IntArray
    """Call that waits for it ``[rows]``."""
    operation: IntArray
    """What the instance is to be called ``[rows]``."""


def signals_of(given: IntArray, awaited: IntArray, operation: int) -> Signals:
    """Signals of one operation, by the calls that give them and those that wait ``[rows]``."""
    return Signals(given, awaited, np.full(len(given), operation, np.int64))


def members_of(communicators: Sequence[Members]) -> MemberTable:
    """The world ranks of some communicators, in arrays."""
    size = np.array([len(communicator.ranks) for communicator in communicators], np.int64)
    first = np.r_[0, np.cumsum(size)].astype(np.int64)
    ranks = [member for communicator in communicators for member in communicator.ranks]
    return MemberTable(first, np.array(ranks, np.int64))


def expand(first: IntArray, end: IntArray, owner: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers of the ranges, and the owner of the range of each."""
    size = end - first
    begins = np.cumsum(size) - size
    return np.arange(int(size.sum())) + np.repeat(first - begins, size), np.repeat(owner, size)
