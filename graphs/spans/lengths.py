"""Lengths of the sequences that ranks computed in every step.

``runtime/torch/sequences/calls.py`` writes them, as spans without a duration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import LENGTHS

SOURCES = ("cu_seqlens", "lengths", "sequences", "position_ids", "attention_mask", "shape")
"""What lengths are from, the most certain first."""


@dataclass(frozen=True, slots=True)
class LengthCalls:
    """Calls of a model and the sequences that they got; columns are ``[calls]``, those of sequences ``[sequences]``."""

    source: str
    """One of :data:`SOURCES`."""
    vertex: int
    """Of the call."""
    line: int
    """Of the call, in the file of the vertex; 0 where it is not known."""
    rank: IntArray
    step: IntArray
    tokens: FloatArray
    squares: FloatArray
    """Sum of the squares of the lengths."""
    first: IntArray
    """The first sequence of each call, and the end ``[calls + 1]``."""
    length: FloatArray
    """Of a sequence; the mean of those that were not written one by one."""
    square: FloatArray
    """The square of that, likewise."""

    def __len__(self) -> int:
        return len(self.rank)


def length_calls(spans: Spans) -> LengthCalls | None:
    """The calls that show what ranks computed in a step, of the place in the program that has the surest source; None
    where no lengths were noted.

    Where that place is called several times in a step, steps of which only the first call was noted are left out.
    """
    kind = spans.number(LENGTHS)
    rows = spans.rows("other")
    rows = rows[(spans.texts("kind")[rows] == kind) & (kind >= 0)]
    if not len(rows):
        return None
    texts = {spans.number(source): place for place, source in enumerate(SOURCES) if spans.number(source) >= 0}
    source = np.array([texts.get(text, len(SOURCES)) for text in spans.texts("source")[rows].tolist()], np.int64)
    known = source < len(SOURCES)
    rows, source = rows[known], source[known]
    if not len(rows):
        return None
    vertex = spans.vertex[rows].astype(np.int64)
    chosen = _surest(source, vertex, spans.rank[rows])
    rows = _whole(rows[chosen], spans)
    return _columns(rows, SOURCES[int(source[chosen].min())], spans)


def _surest(source: IntArray, vertex: IntArray, rank: IntArray) -> BoolArray:
    """The calls of one place, with the surest source there; of several, the one with most calls ``[calls]``."""
    best = source == source.min()
    places, calls = np.unique(vertex[best], return_counts=True)
    return best & (vertex == places[int(calls.argmax())])


def _whole(rows: IntArray, spans: Spans) -> IntArray:
    """Of the calls of one place those in steps of which all were noted."""
    whole = spans.integers("whole")[rows] > 0
    rank, step = spans.rank[rows], spans.table.step[rows].astype(np.int64)
    if whole.any():
        number, first = number_columns(rank[whole], step[whole])
        several = len(number) > len(first)
        return rows[whole] if several else rows
    return rows


def _columns(rows: IntArray, source: str, spans: Spans) -> LengthCalls:
    """The columns of some calls."""
    sequences = spans.integers("sequences")[rows]
    tokens, squares = spans.numbers("tokens")[rows], spans.numbers("squares")[rows]
    longest = 0
    while spans.number(str(longest)) >= 0:
        longest += 1
    # What is known one by one, the longest first; NaN behind the last.
    alone = np.stack([spans.numbers(str(place))[rows] for place in range(longest)], axis=1) if longest else None
    length: list[float] = []
    square: list[float] = []
    first = [0]
    for call, count in enumerate(sequences.tolist()):
        known = alone[call][~np.isnan(alone[call])] if alone is not None else np.zeros(0)
        rest = count - len(known)
        length += known.tolist() + [(tokens[call] - float(known.sum())) / rest] * rest if rest else known.tolist()
        square += (known**2).tolist()
        square += [(squares[call] - float((known**2).sum())) / rest] * rest if rest else []
        first.append(len(length))
    return LengthCalls(
        source,
        int(spans.vertex[rows[0]]),
        int(spans.line[rows[0]]) if len(spans.line) else 0,
        spans.rank[rows],
        spans.table.step[rows].astype(np.int64),
        tokens,
        squares,
        np.array(first, np.int64),
        np.array(length),
        np.array(square),
    )
