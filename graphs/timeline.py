"""What every rank did, as columns: communication calls, what they wait for, and own work between them.

A :class:`Timeline` is all that the detectors see of a run besides the structure. It holds no clock of its own (every
time is already on one aligned axis, in seconds) and no Python object per event, so that a million calls stay a few
arrays.

The rows of the four tables refer to each other by row number. These numbers, and codes, take 32 bits or less, which
saves half of the memory of a large run: what is calculated from them must be widened first.

* a **location** is one thread of one rank that communicates, or that rank's main thread (the term is Score-P's);
* a **call** is one communication call of a location: a blocking call, the post of a non-blocking one, or the call
  that completes one (``wait``);
* an **instance** is one matched operation: a collective with all its members, or one message;
* an **activity** is a kind of own work: a vertex of the structure and the line inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import FloatArray, IntArray

ROW: type[np.signedinteger] = np.int32
"""Type of row numbers; calls of which it could not number the last would not fit into a machine's memory."""
CODE: type[np.signedinteger] = np.int16
"""Type of the codes of operations."""


def _narrow(table: object, kind: type[np.signedinteger], *names: str) -> None:
    """Give some columns of a table one type, that kernels are compiled but once."""
    for name in names:
        setattr(table, name, getattr(table, name).astype(kind, copy=False))


@dataclass(slots=True)
class Locations(ColumnTable):
    """Threads that communicate, one row each, ordered by rank and with the main thread of a rank first."""

    rank: IntArray
    """World rank ``[locations]``."""
    is_main: npt.NDArray[np.bool_]
    """Whether this is the main thread of its rank ``[locations]``."""
    start_s: FloatArray
    """Aligned time at which the record of this location begins ``[locations]``."""
    end_s: FloatArray
    """Aligned time at which it ends ``[locations]``."""


@dataclass(slots=True)
class Calls(ColumnTable):
    """Communication calls, sorted by (location, enter). ``first[l]:first[l + 1]`` are the calls of location ``l``."""

    location: IntArray
    """Row in :class:`Locations` ``[calls]``."""
    vertex: IntArray
    """Vertex of the structure graph that made the call ``[calls]``."""
    operation: IntArray
    """Row in the table of operations (``scalana.runtime.operations``) ``[calls]``."""
    enter_s: FloatArray
    """Aligned time of entry ``[calls]``."""
    exit_s: FloatArray
    """Aligned time at which the program went on ``[calls]``."""
    cpu_s: FloatArray
    """CPU time of the calling thread inside the call ``[calls]``."""
    nbytes: IntArray
    """Payload in bytes, 0 where unknown ``[calls]``."""
    posts: IntArray
    """Instance to which this call contributes its arrival (a blocking call or a post), -1 for a pure wait."""
    first: IntArray
    """Start of each location's calls ``[locations + 1]``."""
    wait_first: IntArray
    """``waits[wait_first[c]:wait_first[c + 1]]`` are the instances that call ``c`` waits for ``[calls + 1]``.

    A blocking call waits for the instance that it posts to; a post waits for none."""
    waits: IntArray
    """Instances, see :attr:`wait_first`."""

    def __post_init__(self) -> None:
        _narrow(self, ROW, "location", "vertex", "posts", "wait_first", "waits")
        _narrow(self, CODE, "operation")


@dataclass(slots=True)
class Instances(ColumnTable):
    """Matched operations. ``members[first[i]:first[i + 1]]`` are the calls that post to instance ``i``."""

    operation: IntArray
    """Row in the table of operations; for a message that of its send ``[instances]``."""
    communicator: IntArray
    """Row in the run's communicators, -1 where there is none ``[instances]``."""
    root: IntArray
    """World rank of the root of a rooted collective, the sender's of a message, -1 otherwise ``[instances]``."""
    first: IntArray
    """Start of each instance's members ``[instances + 1]``."""
    members: IntArray
    """Calls, ordered by rank; of a message the send first and the receive second."""
    complete: npt.NDArray[np.bool_]
    """Whether every member that has a record is in it ``[instances]``; only such ones are used for waits."""

    def __post_init__(self) -> None:
        _narrow(self, ROW, "communicator", "root", "members")
        _narrow(self, CODE, "operation")


@dataclass(slots=True)
class OwnWork(ColumnTable):
    """What locations did between their calls.

    Gap ``c`` is the stretch before call ``c`` (from the exit of the previous call of its location, or the start of
    the record); burst ``calls + l`` is the stretch after the last call of location ``l``. Rows are sorted by burst, and
    the seconds of the rows of a burst add up to the length of the burst, less what it holds of unwritten calls.
    """

    burst: IntArray
    """``[rows]``"""
    activity: IntArray
    """Row in :class:`Activities` ``[rows]``."""
    seconds: FloatArray
    """Wall seconds ``[rows]``."""
    cpu_s: FloatArray
    """Of these on a CPU ``[rows]``."""
    core_wait_s: FloatArray
    """Of these runnable, but waiting for a core ``[rows]``."""
    samples: IntArray
    """Samples behind the row; 0 where the time was inferred from like bursts ``[rows]``."""
    seen_row: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows in long bursts of which it is known when in the burst they were seen, ascending ``[rows seen]``."""
    seen_s: FloatArray = field(default_factory=lambda: np.zeros((0, 2)))
    """Aligned times from which and until which ``[rows seen, 2]``."""

    def __post_init__(self) -> None:
        _narrow(self, ROW, "burst", "activity", "samples")


@dataclass(frozen=True, slots=True)
class WaitsForHelpers:
    """Where locations waited for what their helpers did: one row a pair of places, and a short time."""

    activity: IntArray
    """What the helper did ``[rows]``."""
    vertex: IntArray
    """Where the location waited ``[rows]``."""
    line: IntArray
    """The line there, 0 where unknown ``[rows]``."""
    seconds: FloatArray
    """``[rows]``"""
    interpreter_s: FloatArray
    """Of these, what may be waiting for the interpreter's lock: the location was in no function that waits, and the
    helper, a thread of its process, ran ``[rows]``."""
    at_s: FloatArray
    """When that was, aligned: the middle of a tenth of a second ``[rows]``."""

    @classmethod
    def none(cls) -> WaitsForHelpers:
        """No waits."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros(0), np.zeros(0), np.zeros(0))


@dataclass(slots=True)
class Activities(ColumnTable):
    """Kinds of own work. One row per (vertex, line) at which any rank was seen."""

    vertex: IntArray
    """Vertex of the structure graph ``[activities]``."""
    line: IntArray
    """Line of the user's code in the file of the vertex, 0 where unknown ``[activities]``."""
    helper: npt.NDArray[np.bool_]
    """Whether the work was done by another thread or child process for which the location waited."""
    waits_vertex: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Where most was waited for it if it was, else -1; empty where nothing is known of that ``[activities]``."""
    waits_line: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The line there, likewise; 0 where unknown."""
    waits: WaitsForHelpers = field(default_factory=WaitsForHelpers.none)
    """Where was waited for each of them, all places."""


@dataclass(slots=True)
class Unwritten:
    """Calls that were not written one by one, because there were too many (:mod:`~scalana.graphs.calls.thinning`)."""

    burst_s: FloatArray
    """Exact seconds of every burst in such calls, which are none of its own work ``[bursts]``."""
    stands_for: FloatArray
    """Seconds at its place for which each second of a written call stands, itself included; estimated ``[calls]``."""


@dataclass(slots=True)
class Timeline:
    """One run. See the module's docstring."""

    ranks: int
    locations: Locations
    calls: Calls
    instances: Instances
    own: OwnWork
    activities: Activities
    period_s: float = 0.005
    """Sampling period: what one sample stands for."""
    steps: FloatArray = field(default_factory=lambda: np.zeros((0, 3)))
    """Training steps that were marked, rows of (location, start_s, end_s), sorted by both."""
    step_number: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """The number of each, the same on all ranks; -1 where it has none."""
    unwritten: Unwritten | None = None
    """None where all calls were written."""
    whole: Timeline | None = None
    """The run that this is a part of: what repeats is seen there; None where this is the run."""
    role: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of the role of each process ``[ranks]``; empty where all have the same."""

    @property
    def has_roles(self) -> bool:
        """Whether processes have different roles."""
        return len(self.role) > 0

    def call_s(self) -> FloatArray:
        """Seconds in every call, with those that it stands for ``[calls]``."""
        seconds = self.calls.exit_s - self.calls.enter_s
        return seconds if self.unwritten is None else seconds * self.unwritten.stands_for
