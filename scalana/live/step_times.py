"""How long the steps of a run take, as its marks say, read from the last part of the records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

import numpy as np

from scalana.graphs.readers.folder.record_columns import as_integers
from scalana.graphs.spans.marks import SOURCES
from scalana.runtime.record.format import STEP, ProcessRecord

_NS = 1e-9


def step_times(records: Iterable[ProcessRecord]) -> dict[int, float]:
    """Seconds of each step that is marked in some records, of the median rank, by its number.

    Where several sources mark steps, those of the most telling one count.
    """
    by_source: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        spans = record.spans
        rows = np.flatnonzero(as_integers(spans.type) == STEP)
        lasted, number = as_integers(spans.duration_ns)[rows] * _NS, as_integers(spans.step)[rows]
        for row, step, seconds in zip(rows.tolist(), number.tolist(), lasted.tolist(), strict=True):
            by_source[_source(record, row)][step].append(seconds)
    best = next((source for source in (*SOURCES, "") if source in by_source), None)
    return {} if best is None else {step: median(found) for step, found in sorted(by_source[best].items())}


def _source(record: ProcessRecord, row: int) -> str:
    """What marked a step; "" where that is not known."""
    last, attributes = record.spans.last, record.attributes
    for at in range(last[row - 1] if row else 0, last[row]):
        if record.names[attributes.key[at]] == "source":
            return record.names[attributes.value[at]]
    return ""
