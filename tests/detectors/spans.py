"""Spans of a run, as recorders write them, made of what each says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scalana.graphs.readers.columns.span_reading import Lanes, SpanTable
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.format import ATTRIBUTE_NUMBER, ATTRIBUTE_TEXT, SPAN_TYPE


class Span(NamedTuple):
    """One span."""

    lane: int
    type: str
    """Of ``SPAN_TYPES``."""
    name: str
    start_s: float
    end_s: float
    says: Mapping[str, str | int] = {}
    """Attributes by key."""
    step: int = -1


def as_columns(
    spans: Iterable[Span],
    rank_of_lane: Sequence[int],
    vertex: int = 0,
    line: int = 0,
    process_of_lane: Sequence[int] | None = None,
) -> Spans:
    """Some spans, all of which began at one place. A rank is one process unless ``process_of_lane`` says otherwise."""
    rows = list(spans)
    count = len(rows)
    said = [(key, value) for one in rows for key, value in one.says.items()]
    texts = (
        [one.name for one in rows] + [key for key, _ in said] + [value for _, value in said if isinstance(value, str)]
    )
    number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    lanes = zip(process_of_lane or rank_of_lane, rank_of_lane, strict=True)
    table = SpanTable(
        lane=np.array([one.lane for one in rows], np.int64),
        type=np.array([SPAN_TYPE[one.type] for one in rows], np.int64),
        name=np.array([number[one.name] for one in rows], np.int64),
        start_ns=np.array([round(one.start_s * 1e9) for one in rows], np.int64),
        end_ns=np.array([round(one.end_s * 1e9) for one in rows], np.int64),
        cpu_ns=np.full(count, -1),
        path=np.zeros(count, np.int64),
        event=np.full(count, -1),
        step=np.array([one.step for one in rows], np.int64),
        first=np.cumsum([0, *(len(one.says) for one in rows)]),
        key=np.array([number[key] for key, _ in said], np.int64),
        tag=np.array([ATTRIBUTE_TEXT if isinstance(value, str) else ATTRIBUTE_NUMBER for _, value in said], np.int64),
        value=np.array([number[value] if isinstance(value, str) else value for _, value in said], np.int64),
        lanes=Lanes(*np.array([[process, rank, 0, -1, 0] for process, rank in lanes]).T),
        names=list(number),
    )
    return Spans(table, np.full(count, vertex), np.full(count, -1), np.full(count, line))
