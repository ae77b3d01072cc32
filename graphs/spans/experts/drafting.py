"""Speculative decoding: calls of a model that drafts tokens, before each call of one that verifies them.

``runtime/torch/experts/model_calls.py`` writes the outermost calls of modules of a program that loads experts. The
model whose calls look experts up verifies; others that are called in between draft. Both
are called with tokens (integers), as parts of a model are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.experts.weight_loads import Uses
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import MODEL_CALL


@dataclass(frozen=True, slots=True)
class Drafting:
    """Rounds of drafting and verifying, of all threads that look experts up."""

    rounds: int
    """With a draft."""
    draft_s: FloatArray
    """From when the draft begins to the first lookup of a pass, 0 for other lookups ``[uses]``."""
    mean_draft_s: float
    """From the begin of the draft to that of verifying."""
    mean_verify_s: float
    mean_calls: float
    """Of the draft model in a round."""


def drafting_of(spans: Spans, uses: Uses) -> Drafting | None:
    """That of a run; None where most passes through the layers have no draft."""
    rows = spans.rows("other", MODEL_CALL)
    rows = rows[np.isin(spans.table.lane[rows], uses.lane) & (spans.integers("tokens")[rows] > 0)]
    rows = rows[np.lexsort((spans.start_s(rows), spans.table.lane[rows]))]
    if not len(rows):
        return None
    lane, model = spans.table.lane[rows].astype(np.int64), spans.integers("model")[rows]
    start_s, end_s = spans.start_s(rows), spans.end_s(rows)
    first = np.flatnonzero(np.diff(uses.turn, prepend=-1))
    call = _call_around(uses.lane, uses.start_s, (lane, start_s, end_s))
    verifying = np.unique(model[call[call >= 0]])
    call = call[first]
    draft_s = np.zeros(len(uses))
    drafts, verifies, calls = [], [], []
    for use, at in zip(first.tolist(), call.tolist(), strict=True):
        before = at - 1
        while at >= 0 and before >= 0 and lane[before] == lane[at] and model[before] not in verifying:
            before -= 1
        if at < 0 or before == at - 1:
            continue
        begun_s = float(start_s[before + 1])
        draft_s[use] = float(uses.start_s[use]) - begun_s
        drafts.append(float(start_s[at]) - begun_s)
        verifies.append(float(end_s[at] - start_s[at]))
        calls.append(at - before - 1)
    if 2 * len(drafts) <= len(first):
        return None
    means = (float(np.mean(values)) for values in (drafts, verifies, calls))
    return Drafting(len(drafts), draft_s, *means)


def _call_around(lane: IntArray, at_s: FloatArray, calls: tuple[IntArray, FloatArray, FloatArray]) -> IntArray:
    """Row of the call that each moment of a thread lies in, -1 for none ``[moments]``."""
    lanes, start_s, end_s = calls
    found = np.full(len(lane), -1)
    for one in np.unique(lane).tolist():
        mine, moments = np.flatnonzero(lanes == one), np.flatnonzero(lane == one)
        before = np.searchsorted(start_s[mine], at_s[moments], side="right") - 1
        row = mine[np.maximum(before, 0)] if len(mine) else np.zeros(len(moments), np.int64)
        inside = (before >= 0) & (at_s[moments] <= end_s[row])
        found[moments[inside]] = row[inside]
    return found
