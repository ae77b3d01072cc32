"""Cores that limit a step: the job keeps all of them busy by itself, and its ranks wait for a turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.evidence import CHILDREN, PYTHON_THREADS, THREADS, THREADS_OF_CHILDREN, BusyCores, Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import advise_cores
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_worth, step_limit
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.shares import MAJORITY, MINOR
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import add_calls, add_to, burst_locations, own_by_rank
from scalana.graphs.timeline import Timeline

KIND = "core-bound"


def cores(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: too few cores for what the threads and children of ranks compute. Where ranks alone outnumber
    their cores, or other programs take these, a warning says so."""
    if _ranks_outnumber_cores(facts) or not is_worth(profile.all_cores_s, profile):
        return []
    busy = profile.busy
    waiting = [place for place in profile.places if place.core_wait_s > 0.0]
    if busy is None or not busy.is_full or not waiting:
        return []
    most = max(waiting, key=lambda place: place.core_wait_s)
    finding = finding_of_place(KIND, most, profile, facts)
    waited_s = sum(place.core_wait_s for place in waiting)
    limit = step_limit(waited_s, (profile.step_s + profile.all_cores_s) / 2, profile.all_cores_s, profile)
    whole = replace(
        finding,
        evidence=Evidence(step_limit=limit, busy_cores=busy, callers=finding.evidence.callers),
        saving_s=(profile.step_s - profile.all_cores_s) * profile.steps,
        lost_s=waited_s * profile.steps * facts.timeline.ranks,
        advice=advise_cores(busy, _has_loader(facts)),
    )
    nothing = np.zeros(0, np.int64)
    return [SharedCause(whole, Extent(tuple(finding.ranks), nothing, nothing), False)]


def keeps_cores_busy(facts: Facts) -> bool:
    """Whether the job itself has so much to do that its ranks wait for a turn on their cores."""
    busy = busiest(facts)
    return bool(facts.run.cores.sharing()) or (busy is not None and busy.is_full)


def _ranks_outnumber_cores(facts: Facts) -> bool:
    """Whether the ranks alone, or the main processes of a job that has others, are more than their cores."""
    role = facts.timeline.role
    main = role == role[0] if len(role) else np.ones(facts.timeline.ranks, bool)
    return bool((facts.run.cores.least_s(main.astype(np.float64)) > 1.0).any())


def busiest(facts: Facts) -> BusyCores | None:
    """The cores that the job keeps busiest in its steps; None where none are known."""
    stretch, known = facts.stretch, facts.run.cores
    if stretch is None:
        return None
    busy = known.least_s(_computed_s(facts, stretch) / max(stretch.end_s - stretch.begin_s, 1e-300))
    if not busy.any():
        return None
    rank = int(np.argmax(busy))
    count = known.count([rank])
    there = known.confined_to(rank)
    here = np.isin(facts.ppg.threads.rank, there)
    main_s = own_by_rank(facts.timeline, facts.timeline.own.cpu_s)[there]
    threads = len(there) + int((facts.ppg.threads.cpu_s[here] >= MINOR * main_s.max()).sum())
    unused = known.unused(rank) or None
    return BusyCores(count, float(busy[rank]) * count, len(there), *_next_to(here, facts), unused, threads)


def _next_to(there: BoolArray, facts: Facts) -> tuple[str | None, int | None]:
    """What computes most next to the main threads of ranks, of some threads ``[threads]``; and how many of these do in
    the rank, or child, that has most of them: as much as half of what the busiest does. None and None for nothing."""
    threads = facts.ppg.threads
    own, python = threads.is_own, threads.has_python
    kinds = {
        THREADS: there & own & ~python,
        PYTHON_THREADS: there & own & python,
        CHILDREN: there & ~own & python,
        THREADS_OF_CHILDREN: there & ~own & ~python,
    }
    spent_s = {kind: float(threads.cpu_s[which].sum()) for kind, which in kinds.items()}
    most = max(spent_s, key=lambda kind: spent_s[kind])
    if not spent_s[most]:
        return None, None
    # A child process counts once for its rank, a thread for its process.
    of_child, some = most == CHILDREN, np.flatnonzero(kinds[most])
    unit = threads.process[some] if of_child else some
    owner = dict(zip(unit.tolist(), (threads.rank if of_child else threads.process)[some].tolist(), strict=True))
    cpu_s = np.bincount(unit, threads.cpu_s[some])
    busy = np.flatnonzero(cpu_s >= MAJORITY * cpu_s.max())
    return most, max(Counter(owner[one] for one in busy.tolist()).values())


def _has_loader(facts: Facts) -> bool:
    """Whether child processes load data."""
    waits = facts.data_waits
    return waits is not None and int(waits.workers.max()) > 0


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
