"""What loops that generate take by phase, as a detector: its findings are numbers of threads that were slower."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.detector import Outcome
from scalana.detectors.evidence import Evidence, ThreadPlan
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.serving.advice import advise_threads
from scalana.detectors.serving.thread_plans import SERVING, PhaseTime, Serving, is_faster, serving_of, units_of
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.spans.requests import DECODE, PREFILL, requests_of

KIND = "serving-threads"


class ServingThreads:
    """See :mod:`scalana.detectors.serving.thread_plans`."""

    kinds = (BY_NAME[KIND],)

    def detect(self, facts: Facts) -> Outcome:
        """Phases that were faster with another number of threads in the same run."""
        requests = None if facts.is_part else requests_of(facts.ppg.spans, facts.timeline.ranks)
        if requests is None:
            return Outcome()
        serving = serving_of(requests, facts.run.cores.count(tuple(np.unique(requests.rank).tolist())))
        slower = [found for phase in (DECODE, PREFILL) if (found := _slower(phase, serving)) is not None]
        findings = [found for plan in _by_remedy(slower) for found in _findings(plan, serving, facts)]
        none = np.zeros(0, np.int64)
        verdicts = [Verdict(finding, Extent(tuple(finding.ranks), none, none)) for finding in findings]
        return Outcome(verdicts, sections={SERVING.name: serving})


@dataclass(frozen=True, slots=True)
class _Slower:
    """A phase that was faster with another number of threads."""

    worst: PhaseTime
    """Of the slower numbers of threads, that of most requests."""
    fastest: PhaseTime
    more_s: FloatArray
    """What requests took longer with the slower numbers ``[requests]``."""


def _slower(phase: str, serving: Serving) -> _Slower | None:
    fastest, requests = serving.fastest(phase), serving.requests
    slower = [one for one in serving.of(phase) if is_faster(fastest, one)]
    if not slower:
        return None
    part = getattr(requests, phase)
    there = np.isin(part.threads, [one.threads for one in slower])
    more_s = np.where(there, part.seconds - units_of(requests, phase) * fastest.mean_s, 0.0)
    return _Slower(max(slower, key=lambda one: one.requests), fastest, more_s)


def _by_remedy(slower: list[_Slower]) -> list[list[_Slower]]:
    """Phases that are fastest with the same number of threads together, that which costs most first."""
    most_first = sorted(slower, key=lambda one: -one.more_s.sum())
    numbers = dict.fromkeys(one.fastest.threads for one in most_first)
    return [[one for one in most_first if one.fastest.threads == number] for number in numbers]


def _findings(phases: list[_Slower], serving: Serving, facts: Facts) -> list[Finding]:
    """A finding for phases that one number of threads makes faster, if that saves enough of the run."""
    first, requests = phases[0], serving.requests
    more_s = np.sum([one.more_s for one in phases], axis=0)
    ranks = np.unique(requests.rank[more_s != 0.0]).tolist()
    saving_s = max(float(more_s[requests.rank == rank].sum()) for rank in ranks)
    run_s = float((facts.timeline.locations.end_s - facts.timeline.locations.start_s).max())
    if saving_s < WORTH_IF_ONCE * run_s:
        return []
    plan = _plan(first.worst, first.fastest, serving)
    row, spans = int(getattr(requests, plan.serving_phase).row[np.flatnonzero(first.more_s)[0]]), facts.ppg.spans
    place = CodeLocation(TargetKind.OWN, int(spans.vertex[row]), int(spans.line[row]) if len(spans.line) else 0)
    finding = finding_at(place, ranks, float(more_s.sum()), facts.psg, KIND)
    return [replace(finding, saving_s=saving_s, evidence=Evidence(thread_plan=plan), advice=advise_threads(plan))]


def _plan(slow: PhaseTime, fast: PhaseTime, serving: Serving) -> ThreadPlan:
    other = DECODE if slow.phase == PREFILL else PREFILL
    return ThreadPlan(
        serving_phase=slow.phase,
        plan_unit="a token" if slow.phase == DECODE else "a prompt",
        plan_threads=slow.threads,
        plan_s=slow.median_s,
        plan_requests=slow.requests,
        faster_threads=fast.threads,
        faster_s=fast.median_s,
        faster_requests=fast.requests,
        other_phase_threads=serving.fastest(other).threads,
    )
