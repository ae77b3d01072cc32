"""Prefill and decode with other numbers of threads, and with the weights on another NUMA node than the threads, as far
as a run had several: nothing is extrapolated.

A prefill computes, and gains from more cores. A decode reads all weights for each token, and soon takes longer with
more threads, which wait for each other after each operator (Sandwich, arXiv:2507.18454).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.factors import LARGER_INPUT
from scalana.detectors.thresholds.shares import IN_PART
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.requests import DECODE, PREFILL, Phase, Requests


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """What one phase takes with a number of threads, over several requests."""

    phase: str
    threads: int
    far: bool
    """Whether a good part of the weights lies on another NUMA node than the threads."""
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
    node: int
    memory_node: int
    """NUMA nodes on which most of these requests run, and have their weights, -1 where that is not known."""
    far_share: float
    """Part of the weights on another node than the threads, the mean of the requests of which it is known; NaN if of
    none."""
    on_cores: int
    """On how many cores they run, the median, -1 likewise."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What the requests of a run took."""

    requests: Requests
    phases: list[PhaseTime]
    """By phase, then by where the weights lie, then by the number of threads."""
    processes: int
    threads: int
    """Of all processes together, the most at a time."""
    cores: int
    """That these may use, 0 where that is not known."""
    uncached: int
    """Requests for which the model computed all tokens again for each."""

    def of(self, phase: str, far: bool | None = None) -> list[PhaseTime]:
        """One phase with all its numbers of threads, and weights near the threads, or far away, if one says so."""
        return [one for one in self.phases if one.phase == phase and far in (None, one.far)]

    def fastest(self, phase: str, far: bool | None = None) -> PhaseTime:
        """The number of threads with which a phase is fastest."""
        return min(self.of(phase, far) or self.of(phase), key=lambda one: one.median_s)

    def rows(self, one: PhaseTime) -> BoolArray:
        """Which requests a phase with a number of threads is of ``[requests]``."""
        part = getattr(self.requests, one.phase)
        return np.asarray((part.threads == one.threads) & (is_far(part) == one.far))

    def near(self, one: PhaseTime) -> PhaseTime | None:
        """The same phase with as many threads, and the weights on their node; None where too few requests show it."""
        found = (other for other in self.of(one.phase, False) if other.threads == one.threads)
        return next((other for other in found if other.requests >= SEVERAL), None)

    @property
    def shared_threads(self) -> int:
        """The number of threads that all requests have in both phases, 0 where there are several, or several places."""
        numbers = {one.threads for one in self.phases}
        return numbers.pop() if len(numbers) == 1 and len(self.phases) == 2 else 0


SERVING: SectionName[Serving] = SectionName("serving")


def serving_of(requests: Requests, cores: int) -> Serving:
    """What some requests took, by phase and number of threads."""
    seconds = {PREFILL: requests.prefill.seconds, DECODE: requests.decode.seconds / units_of(requests, DECODE)}
    slow = {PREFILL: requests.prefill.seconds, DECODE: requests.slow_token_s}
    phases = []
    for phase in (PREFILL, DECODE):
        part = getattr(requests, phase)
        far = is_far(part)
        for place, number in sorted(set(zip(far.tolist(), part.threads.tolist(), strict=True))):
            rows = np.flatnonzero((part.threads == number) & (far == place))
            phases.append(_phase_time(phase, requests, (seconds[phase], slow[phase]), rows))
    ranks = np.unique(requests.rank)
    most = sum(int(requests.decode.threads[requests.rank == rank].max()) for rank in ranks.tolist())
    return Serving(requests, phases, len(ranks), most, cores, int(requests.uncached.sum()))


def is_far(phase: Phase) -> BoolArray:
    """Whether a good part of the weights lies on another NUMA node than the threads ``[requests]``."""
    return np.asarray(phase.far >= IN_PART)


def units_of(requests: Requests, phase: str) -> FloatArray:
    """How many prompts or tokens each request has in a phase, one after the other ``[requests]``."""
    tokens = np.maximum(requests.decode.tokens, 1).astype(np.float64)
    return tokens if phase == DECODE else np.ones(len(requests))


def _phase_time(phase: str, requests: Requests, seconds: tuple[FloatArray, FloatArray], rows: IntArray) -> PhaseTime:
    """One phase of requests with one number of threads."""
    some = getattr(requests, phase).some(rows)
    usual, slow = (values[rows] for values in seconds)
    known = some.far[~np.isnan(some.far)]
    low_s, median_s, high_s = np.quantile(usual, (0.25, 0.5, 0.75)).tolist()
    return PhaseTime(
        phase=phase,
        threads=int(some.threads[0]),
        far=bool(is_far(some)[0]),
        requests=len(rows),
        median_s=median_s,
        mean_s=float(some.seconds.sum() / units_of(requests, phase)[rows].sum()),
        slow_s=float(np.quantile(slow, 0.95)),
        low_s=low_s,
        high_s=high_s,
        cores=some.cores(),
        tokens=float(some.tokens.mean()),
        node=_most(some.node),
        memory_node=_most(some.memory_node),
        far_share=float(known.mean()) if len(known) else np.nan,
        on_cores=int(np.median(some.on_cores)),
    )


def _most(nodes: IntArray) -> int:
    values, counts = np.unique(nodes, return_counts=True)
    return int(values[counts.argmax()])


def is_faster(one: PhaseTime, other: PhaseTime) -> bool:
    """Whether a phase is faster in the way of the first, beyond how requests differ, and of no fewer tokens."""
    enough = min(one.requests, other.requests) >= SEVERAL
    alike = one.phase == DECODE or one.tokens * LARGER_INPUT >= other.tokens
    return enough and alike and one.high_s < other.low_s
