"""The tables of a record, each a few columns of integers; :mod:`.format` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    IntColumn = memoryview[int]
else:
    IntColumn = memoryview


class Columns:
    """A table of so many rows as each of its columns has."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.__dataclass_fields__))))


@dataclass(frozen=True, slots=True)
class PathColumns(Columns):
    """Call paths, indexed by path id; row 0 is the root. A path is its parent's path and one more frame inside."""

    parent: IntColumn
    code: IntColumn
    """Id in :attr:`.format.ProcessRecord.codes`; 0 for the root and for paths whose definition was lost."""
    lasti: IntColumn


@dataclass(frozen=True, slots=True)
class SampleColumns(Columns):
    """Samples, in the order of writing (per thread: of time).

    Here and in the tables below a column is as narrow as its values allow, 1, 2, 4 or 8 bytes a value.
    """

    thread: IntColumn
    """index in :attr:`.format.ProcessRecord.threads`."""
    time_ns: IntColumn
    """CLOCK_MONOTONIC, in steps of 1 us."""
    path: IntColumn
    """0 where the thread had no frame outside of scalana's runtime."""
    cpu_us: IntColumn
    """CPU time of the thread since its previous sample, -1 unknown."""
    core_wait_us: IntColumn
    """time that it was runnable without a core since then, -1 unknown."""
    state: IntColumn
    """``STATE_*`` at this moment."""


@dataclass(frozen=True, slots=True)
class EventColumns(Columns):
    """Communication calls, in the order of their ends."""

    id: IntColumn
    thread: IntColumn
    operation: IntColumn
    """code in ``scalana.runtime.operations``."""
    group: IntColumn
    """id in :attr:`.format.ProcessRecord.groups`, 0 none."""
    seq: IntColumn
    peer: IntColumn
    """world rank of the peer or root, -1 none."""
    tag: IntColumn
    nbytes: IntColumn
    flags: IntColumn
    """``EVENT_*``, and the thinning level from bit 8."""
    enter_ns: IntColumn
    """CLOCK_MONOTONIC."""
    duration_ns: IntColumn
    cpu_enter_ns: IntColumn
    """CPU clock of the thread at enter, -1 unknown."""
    cpu_ns: IntColumn
    """CPU time of the thread inside the call, -1 unknown."""
    path: IntColumn
    completes: IntColumn
    """id of the post that this call completes, 0 none."""


@dataclass(frozen=True, slots=True)
class DoneColumns(Columns):
    """Completions of posted operations, as seen by whichever thread saw them."""

    event: IntColumn
    """id of the post."""
    time_ns: IntColumn
    cpu_ns: IntColumn
    """CPU clock of the thread that posted it, then; 0 unknown."""
    source: IntColumn
    """world rank of the sender, -1 unknown."""


@dataclass(frozen=True, slots=True)
class UnwrittenColumns(Columns):
    """How long threads were in calls that were not written, up to the next one that was."""

    thread: IntColumn
    start_ns: IntColumn
    """when it would have begun had it been one call."""
    duration_ns: IntColumn
    cpu_ns: IntColumn


class Lane(NamedTuple):
    """What spans of one process follow each other on, or nest in."""

    kind: int
    """``LANE_*``."""
    thread: int
    """index in :attr:`.format.ProcessRecord.threads`, -1 none."""
    name: str


@dataclass(frozen=True, slots=True)
class SpanColumns(Columns):
    """What has a begin, an end and a name, in the order of writing: of a lane, of their ends."""

    type: IntColumn
    """number in :data:`.format.SPAN_TYPES`."""
    lane: IntColumn
    """index in :attr:`.format.ProcessRecord.lanes`."""
    name: IntColumn
    """index in :attr:`.format.ProcessRecord.names`."""
    start_ns: IntColumn
    """CLOCK_MONOTONIC."""
    duration_ns: IntColumn
    cpu_ns: IntColumn
    """CPU time of its thread in it, -1 unknown."""
    path: IntColumn
    """of where it began."""
    event: IntColumn
    """id of the event whose side on a device it is, 0 none."""
    step: IntColumn
    """number of the step that it began in, -1 outside of any."""
    last: IntColumn
    """where its attributes in :class:`AttributeColumns` end; they begin where those of the span before end."""


@dataclass(frozen=True, slots=True)
class AttributeColumns(Columns):
    """Attributes of spans, those of one span after the other."""

    key: IntColumn
    """index in :attr:`.format.ProcessRecord.names`."""
    tag: IntColumn
    """``ATTRIBUTE_*``."""
    value: IntColumn
    """the number, the bits of the double, or an index in :attr:`.format.ProcessRecord.names`."""


@dataclass(frozen=True, slots=True)
class SpanTotalColumns(Columns):
    """Exact totals of spans per (type, lane, name, path): the latest that were written; none where all were kept."""

    type: IntColumn
    lane: IntColumn
    name: IntColumn
    path: IntColumn
    spans: IntColumn
    wall_ns: IntColumn
    cpu_ns: IntColumn
    """as far as it is known."""


@dataclass(frozen=True, slots=True)
class TotalColumns(Columns):
    """Exact totals per (path, operation, group): the latest that were written. All calls count, thinned or not."""

    path: IntColumn
    operation: IntColumn
    group: IntColumn
    calls: IntColumn
    nbytes: IntColumn
    wall_ns: IntColumn
    cpu_ns: IntColumn


@dataclass(frozen=True, slots=True)
class OpenColumns(Columns):
    """Calls that a thread was inside of at a flush. One call is here once for every flush that it lasted for."""

    thread: IntColumn
    event: IntColumn
    operation: IntColumn
    group: IntColumn
    seq: IntColumn
    peer: IntColumn
    path: IntColumn
    enter_ns: IntColumn
    as_of_ns: IntColumn
    """when the thread was still inside."""
