"""Cores that limit a step: the job keeps all of them busy by itself, and its ranks wait for a turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.evidence import BusyCores, Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_worth, step_limit
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.factors import AS_MUCH
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.metrics import add_calls, add_to, burst_locations, own_by_rank
from scalana.graphs.timeline import Timeline

KIND = "core-bound"


def cores(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: too few cores for what the threads and children of ranks compute. Where ranks alone outnumber
    their cores, or other programs take these, a warning says so."""
    if _ranks_outnumber_cores(facts) or not is_worth(profile.all_cores_s, profile):
        return []
    busiest = _busiest(facts)
    waiting = [place for place in profile.places if place.core_wait_s > 0.0]
    if busiest is None or not _is_busy(busiest) or not waiting:
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


def keeps_cores_busy(facts: Facts) -> bool:
    """Whether the job itself has so much to do that its ranks wait for a turn on their cores."""
    busiest = _busiest(facts)
    return bool(facts.run.cores.sharing()) or (busiest is not None and _is_busy(busiest))


def _is_busy(busiest: BusyCores) -> bool:
    return busiest.busy_cores >= AS_MUCH * busiest.host_cores


def _ranks_outnumber_cores(facts: Facts) -> bool:
    """Whether the ranks alone, or the main processes of a job that has others, are more than their cores."""
    role = facts.timeline.role
    main = role == role[0] if len(role) else np.ones(facts.timeline.ranks, bool)
    return bool((facts.run.cores.least_s(main.astype(np.float64)) > 1.0).any())


def _busiest(facts: Facts) -> BusyCores | None:
    """The cores that the job keeps busiest in its steps; None where none are known."""
    stretch, known = facts.stretch, facts.run.cores
    if stretch is None:
        return None
    busy = known.least_s(_computed_s(facts, stretch) / max(stretch.end_s - stretch.begin_s, 1e-300))
    if not busy.any():
        return None
    rank = int(np.argmax(busy))
    count = known.count([rank])
    there = [other for other in range(facts.timeline.ranks) if known.host[other] == known.host[rank]]
    return BusyCores(count, float(busy[rank]) * count, len(there))


def _computed_s(facts: Facts, stretch: Stretch) -> FloatArray:
    """CPU seconds of every rank in a stretch, with those of its threads and children ``[ranks]``. What these compute is
    known by place, not by time: as much of it is inside as of what the rank itself spends at the place, and all of it
    where only they are, as workers are there for the steps."""
    timeline, ranks = facts.timeline, facts.timeline.ranks
    calls, own = timeline.calls, timeline.own
    of_own = own_by_rank(timeline, own.cpu_s * stretch.row_part)
    of_calls = np.bincount(timeline.locations.rank[calls.location], calls.cpu_s * stretch.call_part, ranks)
    helpers_s = facts.ppg.metrics["helper_cpu_s"][:, :ranks]
    row_s, call_s = own.seconds, calls.exit_s - calls.enter_s
    whole_s = _at_places(row_s, call_s, len(helpers_s), timeline)
    inside_s = _at_places(row_s * stretch.row_part, call_s * stretch.call_part, len(helpers_s), timeline)
    inside = np.divide(inside_s, whole_s, out=np.ones(whole_s.shape), where=whole_s > 0.0)
    return np.asarray(of_own + of_calls + (helpers_s * inside).sum(axis=0))


def _at_places(row_s: FloatArray, call_s: FloatArray, vertices: int, timeline: Timeline) -> FloatArray:
    """Seconds of every row of own work ``[rows]`` and of every call ``[calls]``, by place ``[vertices, ranks]``."""
    own, result = timeline.own, np.zeros((vertices, timeline.ranks))
    row_rank = timeline.locations.rank[burst_locations(timeline)][own.burst]
    add_to(result, timeline.activities.vertex[own.activity], row_rank, row_s)
    add_calls(result, timeline, call_s)
    return result
