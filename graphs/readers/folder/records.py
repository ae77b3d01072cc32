"""The records of all analysed processes as one set of columns, with run-wide numbers for threads and call paths."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, IntArray


@dataclass(slots=True)
class Threads(ColumnTable):
    """Threads of all processes."""

    process: IntArray
    """Row in the list of processes ``[threads]``."""
    rank: IntArray
    """World rank to which the thread's process belongs ``[threads]``."""
    is_main: BoolArray
    """Main thread of the process that is the rank itself, not of a child ``[threads]``."""
    is_own: BoolArray
    """Whether the process is the rank itself ``[threads]``."""
    location: IntArray
    """Row in the timeline's locations, -1 for a thread that is none ``[threads]``."""


@dataclass(slots=True)
class Samples(ColumnTable):
    """Samples, sorted by (thread, time)."""

    thread: IntArray
    """Row in :class:`Threads` ``[samples]``."""
    time_ns: IntArray
    """``[samples]``"""
    path: IntArray
    """Run-wide call path ``[samples]``."""
    cpu_ns: IntArray
    """CPU time of the thread since its previous sample ``[samples]``."""
    core_wait_ns: IntArray
    """Time runnable without a core since then ``[samples]``."""
    state: IntArray
    """``STATE_...`` ``[samples]``."""


@dataclass(slots=True)
class Events(ColumnTable):
    """Communication events of all ranks as they were recorded."""

    process: IntArray
    """``[events]``"""
    identity: IntArray
    """Event id, unique in its process ``[events]``."""
    thread: IntArray
    """Row in :class:`Threads` ``[events]``."""
    operation: IntArray
    """Code of the table of operations ``[events]``."""
    communicator: IntArray
    """Run-wide communicator, -1 for none ``[events]``."""
    seq: IntArray
    """``[events]``"""
    peer: IntArray
    """World rank of the partner or root, -1 for none ``[events]``."""
    tag: IntArray
    """``[events]``"""
    nbytes: IntArray
    """``[events]``"""
    flags: IntArray
    """``[events]``"""
    enter_ns: IntArray
    """``[events]``"""
    exit_ns: IntArray
    """``[events]``"""
    cpu_enter_ns: IntArray
    """CPU clock of the thread at entry ``[events]``."""
    cpu_exit_ns: IntArray
    """CPU clock of the thread at exit ``[events]``."""
    path: IntArray
    """Run-wide call path ``[events]``."""
    completes: IntArray
    """Event row that this one completes, -1 for none ``[events]``."""
    done_ns: IntArray
    """When the operation was seen complete, -1 if that was not seen ``[events]``."""
    done_cpu_ns: IntArray
    """CPU clock of the issuing thread at that moment, -1 if unknown ``[events]``."""
