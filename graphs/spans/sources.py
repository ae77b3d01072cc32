"""What the sources of a mixture of data cost to load, batch by batch, and which of these batches ranks waited for.

``runtime/torch/sources/loads.py`` writes a span for each source of a batch, in the process that makes the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import SOURCE


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches that were made of a mixture, those of a rank in the order of their numbers; columns are ``[batches]``."""

    names: tuple[str, ...]
    """Of the sources."""
    rank: IntArray
    worker: IntArray
    """Number of the worker that made it, -1 for the rank itself."""
    workers: IntArray
    """Of its loader, 0 where the rank makes its batches itself."""
    number: IntArray
    """As its loader numbers batches."""
    start_s: FloatArray
    end_s: FloatArray
    cpu_s: FloatArray
    load_s: FloatArray
    """Seconds of each source ``[batches, sources]``."""
    items: FloatArray
    """``[batches, sources]``"""

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def cost_s(self) -> FloatArray:
        """What making each takes, with what is done to all of its samples together."""
        return np.asarray(self.end_s - self.start_s)


@dataclass(frozen=True, slots=True)
class Gets(ColumnTable):
    """Batches that ranks asked their loaders for, those of a rank in order; columns are ``[gets]``."""

    rank: IntArray
    batch: IntArray
    """Row of the batch that they got, -1 where it is not known how that was made."""
    start_s: FloatArray
    end_s: FloatArray
    ahead: IntArray
    """Batches of its loader that are under way at most; -1 where that is not known."""
    row: IntArray
    """Of the span of waiting."""


def batches_of(spans: Spans, ranks: int) -> Batches | None:
    """The batches of a run whose sources are known; None where there are none."""
    kind = spans.number(SOURCE)
    rows = spans.of_ranks(spans.rows("other"), ranks)
    rows = rows[(spans.texts("kind")[rows] == kind) & (kind >= 0)]
    text = spans.texts("source")[rows]
    rows, text = rows[text >= 0], text[text >= 0]
    if not len(rows):
        return None
    numbers, source = np.unique(text, return_inverse=True)
    # A process makes one batch after the other.
    made = np.stack((spans.process[rows], spans.table.start_ns[rows].astype(np.int64)))
    _, first, batch = np.unique(made, axis=1, return_index=True, return_inverse=True)
    batch, count = batch.reshape(-1), len(first)
    place = batch * len(numbers) + source.reshape(-1)
    seconds, items = (spans.integers(key, 0)[rows].astype(np.float64) for key in ("load_ns", "items"))
    load_s, how_many = (
        weighted_count(place, values, count * len(numbers)).reshape(count, -1) for values in (seconds * 1e-9, items)
    )
    cpu_s = weighted_count(batch, np.nan_to_num(spans.cpu_s(rows)), count)
    head = rows[first]
    rank, start_s, end_s = spans.rank[head], spans.start_s(head), spans.end_s(head)
    worker, workers, number = (spans.integers(key)[head] for key in ("worker", "workers", "batch"))
    order = np.lexsort((end_s, number, rank))
    return Batches(
        tuple(spans.names[text] for text in numbers.tolist()),
        rank[order],
        worker[order],
        workers[order],
        number[order],
        start_s[order],
        end_s[order],
        cpu_s[order],
        load_s[order],
        how_many[order],
    )


def gets_of(spans: Spans, batches: Batches, ranks: int) -> Gets:
    """What ranks asked their loaders for: each with the last batch of its number that was made before."""
    rows = spans.of_ranks(spans.rows("data"), ranks)
    rows = rows[np.lexsort((spans.start_s(rows), spans.rank[rows]))]
    rank, number = spans.rank[rows], spans.integers("batch")[rows]
    end_s = spans.end_s(rows)
    made = len(batches)
    of = np.concatenate((batches.rank, rank)), np.concatenate((batches.number, number))
    order = np.lexsort((np.arange(made + len(rows)) >= made, np.concatenate((batches.end_s, end_s)), of[1], of[0]))
    last = np.maximum.accumulate(np.where(order < made, np.arange(len(order)), -1))
    before = order[np.maximum(last, 0)]
    alike = (last >= 0) & (of[0][before] == of[0][order]) & (of[1][before] == of[1][order])
    batch = np.full(made + len(rows), -1)
    batch[order] = np.where(alike, before, -1)
    return Gets(rank, batch[made:], spans.start_s(rows), end_s, spans.integers("ahead")[rows], rows)
