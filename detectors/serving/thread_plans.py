"""Prefill and decode with other numbers of threads, as far as a run had several: nothing is extrapolated.

A prefill computes, and gains from more cores. A decode reads all weights for each token, and soon takes longer with
more threads, which wait for each other after each operator (Sandwich, arXiv:2507.18454).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.factors import LARGER_INPUT
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.requests import DECODE, PREFILL, Requests


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """What one phase takes with a number of threads, over several requests."""

    phase: str
    threads: int
    requests: int
    median_s: float
    """Of a prefill; or of what a token of a request takes on average."""
    mean_s: float
    """The same over all requests: a few slow ones are part of what others would take, too."""
    slow_s: float
    """The 95th percentile of a prefill; or of one token."""
    low_s: float
    high_s: float
    """The quartiles."""
    cores: float
    """That the process keeps busy."""
    tokens: float
    """Of a request, on average."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What the requests of a run took."""

    requests: Requests
    phases: list[PhaseTime]
    """By phase, then by the number of threads."""
    processes: int
    threads: int
    """Of all processes together, the most at a time."""
    cores: int
    """That these may use, 0 where that is not known."""
    uncached: int
    """Requests for which the model computed all tokens again for each."""

    def of(self, phase: str) -> list[PhaseTime]:
        """One phase with all its numbers of threads."""
        return [one for one in self.phases if one.phase == phase]

    def fastest(self, phase: str) -> PhaseTime:
        """The number of threads with which a phase is fastest."""
        return min(self.of(phase), key=lambda one: one.median_s)

    @property
    def shared_threads(self) -> int:
        """The number of threads that all requests have in both phases, 0 where there are several."""
        numbers = {one.threads for one in self.phases}
        return numbers.pop() if len(numbers) == 1 else 0


SERVING: SectionName[Serving] = SectionName("serving")


def serving_of(requests: Requests, cores: int) -> Serving:
    """What some requests took, by phase and number of threads."""
    seconds = {PREFILL: requests.prefill.seconds, DECODE: requests.decode.seconds / units_of(requests, DECODE)}
    slow = {PREFILL: requests.prefill.seconds, DECODE: requests.slow_token_s}
    phases = []
    for phase in (PREFILL, DECODE):
        threads = getattr(requests, phase).threads
        for number in np.unique(threads).tolist():
            phases.append(
                _phase_time(phase, requests, (seconds[phase], slow[phase]), np.flatnonzero(threads == number))
            )
    ranks = np.unique(requests.rank)
    most = sum(int(requests.decode.threads[requests.rank == rank].max()) for rank in ranks.tolist())
    return Serving(requests, phases, len(ranks), most, cores, int(requests.uncached.sum()))


def units_of(requests: Requests, phase: str) -> FloatArray:
    """How many prompts or tokens each request has in a phase, one after the other ``[requests]``."""
    tokens = np.maximum(requests.decode.tokens, 1).astype(np.float64)
    return tokens if phase == DECODE else np.ones(len(requests))


def _phase_time(phase: str, requests: Requests, seconds: tuple[FloatArray, FloatArray], rows: IntArray) -> PhaseTime:
    """One phase of requests with one number of threads."""
    some = getattr(requests, phase).some(rows)
    usual, slow = (values[rows] for values in seconds)
    low_s, median_s, high_s = np.quantile(usual, (0.25, 0.5, 0.75)).tolist()
    return PhaseTime(
        phase=phase,
        threads=int(some.threads[0]),
        requests=len(rows),
        median_s=median_s,
        mean_s=float(some.seconds.sum() / units_of(requests, phase)[rows].sum()),
        slow_s=float(np.quantile(slow, 0.95)),
        low_s=low_s,
        high_s=high_s,
        cores=some.cores(),
        tokens=float(some.tokens.mean()),
    )


def is_faster(one: PhaseTime, other: PhaseTime) -> bool:
    """Whether a phase is faster with the threads of the first, beyond how requests differ, and of no fewer tokens."""
    enough = min(one.requests, other.requests) >= SEVERAL
    alike = one.phase == DECODE or one.tokens * LARGER_INPUT >= other.tokens
    return enough and alike and one.high_s < other.low_s
