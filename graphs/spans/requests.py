"""Requests of loops that generate: ``runtime/torch/sequences/generation.py`` writes a prefill and a decode of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans

KEY = "serving"
PREFILL, DECODE = "prefill", "decode"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of requests; columns are ``[requests]``."""

    row: IntArray
    """Of the spans."""
    seconds: FloatArray
    tokens: IntArray
    """Of the prompts of a batch; or that each sequence of a batch got after the first."""
    threads: IntArray
    """Of torch in one operator."""
    cpu_s: FloatArray
    """Of the whole process."""

    def some(self, chosen: BoolArray | IntArray) -> Phase:
        """That of some requests."""
        return Phase(*(getattr(self, name)[chosen] for name in Phase.__slots__))

    def cores(self) -> float:
        """Cores that the process keeps busy, on average."""
        return float(self.cpu_s.sum() / max(float(self.seconds.sum()), 1e-300))


@dataclass(frozen=True, slots=True)
class Requests(ColumnTable):
    """All requests; columns are ``[requests]``."""

    rank: IntArray
    batch: IntArray
    prefill: Phase
    decode: Phase
    token_s: FloatArray
    """For one more token of all sequences of the batch, the median of a request."""
    slow_token_s: FloatArray
    """The same, the 95th percentile."""
    uncached: BoolArray
    """Whether the model got all tokens again for each one."""

    def some(self, chosen: BoolArray | IntArray) -> Requests:
        """Some of them."""
        phases = (self.prefill.some(chosen), self.decode.some(chosen))
        times = (self.token_s[chosen], self.slow_token_s[chosen])
        return Requests(self.rank[chosen], self.batch[chosen], *phases, *times, self.uncached[chosen])


def requests_of(spans: Spans, ranks: int) -> Requests | None:
    """Those of a run; None where it generates nothing."""
    rows, lanes = [], spans.table.lane
    for phase in (PREFILL, DECODE):
        of_phase = spans.of_ranks(spans.rows("other", phase), ranks)
        of_phase = of_phase[spans.texts(KEY)[of_phase] == spans.number(phase)]
        # The threads of a process write theirs in between; each of a thread has both phases, in order.
        rows.append(of_phase[np.lexsort((spans.table.start_ns[of_phase], lanes[of_phase]))])
    if not len(rows[0]) or len(rows[0]) != len(rows[1]):
        return None
    decode = rows[1]
    return Requests(
        spans.rank[decode],
        spans.integers("batch")[decode],
        _phase(rows[0], spans),
        _phase(decode, spans),
        np.asarray(spans.integers("median_ns")[decode] * 1e-9),
        np.asarray(spans.integers("p95_ns")[decode] * 1e-9),
        spans.integers("uncached")[decode] > 0,
    )


def _phase(rows: IntArray, spans: Spans) -> Phase:
    seconds = spans.end_s(rows) - spans.start_s(rows)
    tokens, threads, cpu_ns = (spans.integers(key)[rows] for key in ("tokens", "threads", "process_cpu_ns"))
    return Phase(rows, seconds, tokens, threads, np.asarray(cpu_ns * 1e-9))
