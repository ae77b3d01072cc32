"""Calls that pools did, by name: ``runtime/remote/tasks.py`` marks them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans

NUMBER = "task"
GIVEN = "task:given_ns"
VALUE, LENGTH = "task:value:", "task:length:"
PIECES = "task:pieces"


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """Calls that pools of processes and of threads did, in the order of their begins."""

    spans: Spans
    row: IntArray
    """Of the spans ``[tasks]``."""
    rank: IntArray
    lane: IntArray
    """Of the thread that did it ``[tasks]``."""
    start_s: FloatArray
    end_s: FloatArray
    given_s: FloatArray
    """When it was handed over, NaN where that is not known ``[tasks]``."""
    cpu_s: FloatArray

    @classmethod
    def of(cls, spans: Spans) -> NamedTasks:
        """All of a run."""
        numbers = spans.integers(NUMBER) if spans.number(NUMBER) >= 0 else np.full(len(spans), -1)
        rows = spans.rows("other")
        rows = rows[(numbers[rows] >= 0) & (spans.rank[rows] >= 0)]
        rows = rows[np.argsort(spans.table.start_ns[rows], kind="stable")]
        start_s, given_s = spans.start_s(rows), np.full(len(rows), np.nan)
        if len(rows) and spans.number(GIVEN) >= 0:
            given_s = start_s - spans.numbers(GIVEN)[rows] * 1e-9
        lane = spans.table.lane[rows].astype(np.int64)
        return cls(spans, rows, spans.rank[rows], lane, start_s, spans.end_s(rows), given_s, spans.cpu_s(rows))

    def __len__(self) -> int:
        return len(self.row)

    def some(self, rows: IntArray) -> NamedTasks:
        """Some of them."""
        columns = (getattr(self, name)[rows] for name in NamedTasks.__slots__[1:])
        return NamedTasks(self.spans, *columns)

    def of_ranks(self) -> NamedTasks:
        """Those in processes that are ranks: threads of a helper, such as a loader's worker that reads ahead, are not
        what the rank waits for. Where none of a rank's lanes is a location, all of them."""
        lanes = self.spans.lanes
        located = lanes.location >= 0
        known = np.isin(lanes.process, lanes.process[located]) | ~np.isin(lanes.rank, lanes.rank[located])
        return self.some(np.flatnonzero(known[self.lane]))

    def at(self, rank: int, begin_s: float, end_s: float) -> int:
        """The task that a rank did for most of a stretch of time, -1 where none is known."""
        inside = np.minimum(self.end_s, end_s) - np.maximum(self.start_s, begin_s)
        inside = np.where(self.rank == rank, inside, 0.0)
        best = int(inside.argmax()) if len(inside) else -1
        return best if best >= 0 and inside[best] > 0.5 * (end_s - begin_s) else -1

    def name(self, task: int) -> str:
        """Such as ``expand(depth=5, prompt: 812 long) #371``."""
        row = int(self.row[task])
        given = []
        for key, value in self.spans.attributes(row).items():
            if key.startswith(VALUE):
                given.append(f"{key.removeprefix(VALUE)}={value}")
            elif key.startswith(LENGTH):
                given.append(f"{key.removeprefix(LENGTH)}: {value} long")
            elif key == PIECES:
                given.append(f"{value} calls")
        name = self.spans.names[int(self.spans.table.name[row])]
        return f"{name}({', '.join(given)}) #{self.spans.attributes(row)[NUMBER]}"
