"""Cores that limit a step: the job keeps all of them busy by itself, and its ranks wait for a turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import BusyCores, Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_worth, step_limit
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.factors import AS_MUCH
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import own_by_rank

KIND = "core-bound"


def cores(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: too few cores for what the threads and children of ranks compute. Where ranks alone outnumber
    their cores, or other programs take these, a warning says so."""
    if facts.run.cores.sharing() or not is_worth(profile.all_cores_s, profile):
        return []
    busiest = _busiest(facts)
    waiting = [place for place in profile.places if place.core_wait_s > 0.0]
    if busiest is None or busiest.busy_cores < AS_MUCH * busiest.host_cores or not waiting:
        return []
    most = max(waiting, key=lambda place: place.core_wait_s)
    finding = finding_of_place(KIND, most, profile, facts)
    waited_s = sum(place.core_wait_s for place in waiting)
    limit = step_limit(waited_s, (profile.step_s + profile.all_cores_s) / 2, profile.all_cores_s, profile)
    whole = replace(
        finding,
        evidence=Evidence(step_limit=limit, busy_cores=busiest, callers=finding.evidence.callers),
        saving_s=(profile.step_s - profile.all_cores_s) * profile.steps,
        lost_s=waited_s * profile.steps * facts.timeline.ranks,
        advice=ADVICE[KIND],
    )
    nothing = np.zeros(0, np.int64)
    return [SharedCause(whole, Extent(tuple(finding.ranks), nothing, nothing), False)]


def _busiest(facts: Facts) -> BusyCores | None:
    """The cores that the job keeps busiest; None where none are known."""
    timeline, known = facts.timeline, facts.run.cores
    lasted_s = float(timeline.locations.end_s.max() - timeline.locations.start_s.min())
    busy = known.least_s(_computed_s(facts) / max(lasted_s, 1e-300))
    if not busy.any():
        return None
    rank = int(np.argmax(busy))
    count = known.count([rank])
    there = [other for other in range(timeline.ranks) if known.host[other] == known.host[rank]]
    return BusyCores(count, float(busy[rank]) * count, len(there))


def _computed_s(facts: Facts) -> FloatArray:
    """CPU seconds of every rank, with those of its threads and children ``[ranks]``."""
    timeline = facts.timeline
    calls, of_own = timeline.calls, own_by_rank(timeline, timeline.own.cpu_s)
    of_calls = np.bincount(timeline.locations.rank[calls.location], calls.cpu_s, timeline.ranks)
    return np.asarray(of_own + of_calls + facts.ppg.metrics["helper_cpu_s"].sum(axis=0)[: timeline.ranks])
