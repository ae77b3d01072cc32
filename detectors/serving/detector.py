"""What loops that generate take by phase, as a detector: its findings are numbers of threads that were slower, and
weights on another NUMA node than the threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.detector import Outcome
from scalana.detectors.evidence import Evidence, FarWeights, ThreadPlan
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.serving.advice import advise_node, advise_threads
from scalana.detectors.serving.thread_plans import SERVING, PhaseTime, Serving, is_faster, serving_of, units_of
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.spans.requests import DECODE, PREFILL, requests_of

THREADS, WEIGHTS = "serving-threads", "serving-weights"
_UNITS = {PREFILL: "a prompt", DECODE: "a token"}


class ServingThreads:
    """See :mod:`scalana.detectors.serving.thread_plans`."""

    kinds = (BY_NAME[THREADS], BY_NAME[WEIGHTS])

    def detect(self, facts: Facts) -> Outcome:
        """Phases that were faster with another number of threads, or nearer weights, in the same run."""
        requests = None if facts.is_part else requests_of(facts.ppg.spans, facts.timeline.ranks)
        if requests is None:
            return Outcome()
        serving = serving_of(requests, facts.run.cores.count(tuple(np.unique(requests.rank).tolist())))
        findings = [found for far in (False, True) for found in _of_threads(far, serving, facts)]
        findings += _of_weights(serving, facts)
        none = np.zeros(0, np.int64)
        verdicts = [Verdict(finding, Extent(tuple(finding.ranks), none, none)) for finding in findings]
        return Outcome(verdicts, sections={SERVING.name: serving})


@dataclass(frozen=True, slots=True)
class _Slower:
    """A phase that was faster in another way."""

    worst: PhaseTime
    """Of the slower ways, that of most requests."""
    fastest: PhaseTime
    """With which it is compared."""
    more_s: FloatArray
    """What requests took longer in the slower ways ``[requests]``."""


def _of_threads(far: bool, serving: Serving, facts: Facts) -> list[Finding]:
    """Of requests whose weights lie on their node, or do not, those with numbers of threads that were slower."""
    compared = [[(one, serving.fastest(phase, far)) for one in serving.of(phase, far)] for phase in (DECODE, PREFILL)]
    slower = [found for pairs in compared if (found := _slower(pairs, serving)) is not None]
    findings = []
    for phases in _by_remedy(slower):
        plan = _plan(phases[0].worst, phases[0].fastest, serving)
        findings += _findings(phases, serving, (Evidence(thread_plan=plan), advise_threads(plan), THREADS), facts)
    return findings


def _of_weights(serving: Serving, facts: Facts) -> list[Finding]:
    """Requests whose weights lie on another node, if those of as many threads were faster on one."""
    compared = [
        [(one, near) for one in serving.of(phase, True) if (near := serving.near(one)) is not None]
        for phase in (DECODE, PREFILL)
    ]
    slower = [found for pairs in compared if (found := _slower(pairs, serving)) is not None]
    if not slower:
        return []
    slower.sort(key=lambda one: -one.more_s.sum())
    far, near = slower[0].worst, slower[0].fastest
    known = FarWeights(
        far_phase=far.phase,
        far_unit=_UNITS[far.phase],
        far_s=far.median_s,
        far_percent=100.0 * far.far_share,
        far_requests=far.requests,
        near_s=near.median_s,
        near_percent=100.0 * near.far_share,
        near_requests=near.requests,
        threads_node=far.node,
        weights_node=far.memory_node,
    )
    return _findings(slower, serving, (Evidence(far_weights=known), advise_node(known), WEIGHTS), facts)


def _slower(pairs: Iterable[tuple[PhaseTime, PhaseTime]], serving: Serving) -> _Slower | None:
    """Of some ways and those with which they are compared, all that are slower."""
    slower = [(one, other) for one, other in pairs if is_faster(other, one)]
    if not slower:
        return None
    more_s = np.zeros(len(serving.requests))
    for one, other in slower:
        usual_s = units_of(serving.requests, one.phase) * other.mean_s
        more_s += np.where(serving.rows(one), getattr(serving.requests, one.phase).seconds - usual_s, 0.0)
    return _Slower(*max(slower, key=lambda pair: pair[0].requests), more_s)


def _by_remedy(slower: list[_Slower]) -> list[list[_Slower]]:
    """Phases that are fastest with the same number of threads together, that which costs most first."""
    most_first = sorted(slower, key=lambda one: -one.more_s.sum())
    numbers = dict.fromkeys(one.fastest.threads for one in most_first)
    return [[one for one in most_first if one.fastest.threads == number] for number in numbers]


def _findings(phases: list[_Slower], serving: Serving, known: tuple[Evidence, str, str], facts: Facts) -> list[Finding]:
    """A finding for phases that one remedy makes faster, if that saves enough of the run; with what is known of it:
    evidence, advice and kind."""
    first, requests, (evidence, advice, kind) = phases[0], serving.requests, known
    more_s = np.sum([one.more_s for one in phases], axis=0)
    ranks = np.unique(requests.rank[more_s != 0.0]).tolist()
    saving_s = max(float(more_s[requests.rank == rank].sum()) for rank in ranks)
    run_s = float((facts.timeline.locations.end_s - facts.timeline.locations.start_s).max())
    if saving_s < WORTH_IF_ONCE * run_s:
        return []
    part = getattr(requests, first.worst.phase)
    row, spans = int(part.row[np.flatnonzero(first.more_s)[0]]), facts.ppg.spans
    place = CodeLocation(TargetKind.OWN, int(spans.vertex[row]), int(spans.line[row]) if len(spans.line) else 0)
    finding = finding_at(place, ranks, float(more_s.sum()), facts.psg, kind)
    return [replace(finding, saving_s=saving_s, evidence=evidence, advice=advice)]


def _plan(slow: PhaseTime, fast: PhaseTime, serving: Serving) -> ThreadPlan:
    other = DECODE if slow.phase == PREFILL else PREFILL
    return ThreadPlan(
        serving_phase=slow.phase,
        plan_unit=_UNITS[slow.phase],
        plan_threads=slow.threads,
        plan_s=slow.median_s,
        plan_requests=slow.requests,
        faster_threads=fast.threads,
        faster_s=fast.median_s,
        faster_requests=fast.requests,
        other_phase_threads=serving.fastest(other, slow.far).threads,
    )
