"""How large the arguments are with which ranks call their models, on the steps on which modules are timed.

``runtime/torch/sequences/calls.py`` writes them, as spans without a duration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import SIZES

ARGUMENT = "argument:"
"""What stands before the name of an argument in the key of its size."""


@dataclass(frozen=True, slots=True)
class ArgumentSize:
    """One argument of one call of a model."""

    name: str
    vertex: int
    """Of the call."""
    line: int
    """Of the call, in the file of the vertex; 0 where it is not known."""
    elements: FloatArray
    """Of all calls in a step, on average ``[ranks]``."""


def argument_sizes(spans: Spans, ranks: int) -> list[ArgumentSize]:
    """The arguments that were noted on all ranks."""
    kind = spans.number(SIZES)
    rows = spans.rows("other")
    rows = spans.of_ranks(rows[(spans.texts("kind")[rows] == kind) & (kind >= 0)], ranks)
    found = []
    for key in spans.keys() if len(rows) else ():
        if not key.startswith(ARGUMENT):
            continue
        sizes = spans.integers(key)
        mine = rows[sizes[rows] >= 0]
        for vertex in np.unique(spans.vertex[mine]).tolist():
            calls = mine[spans.vertex[mine] == vertex]
            elements = _of_steps(sizes[calls].astype(np.float64), calls, spans, ranks)
            if (elements > 0.0).all():
                line = int(spans.line[calls[0]]) if len(spans.line) else 0
                found.append(ArgumentSize(key.removeprefix(ARGUMENT), int(vertex), line, elements))
    return found


def _of_steps(elements: FloatArray, calls: np.ndarray, spans: Spans, ranks: int) -> FloatArray:
    """Elements of a step of each rank, 0 where there are none ``[ranks]``."""
    rank, step = spans.rank[calls], spans.table.step[calls].astype(np.int64)
    steps = np.unique(np.stack((rank, step)), axis=1)[0]
    count = np.maximum(np.bincount(steps, minlength=ranks), 1)
    return weighted_count(rank, elements, ranks) / count
