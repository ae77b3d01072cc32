"""Compiling again and again in the steady state, on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Compiling, Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import HALF, NOTHING, CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause, is_worth, step_limit
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.whatif.replay import Change
from scalana.detectors.when.span_periods import periods_of
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.spans.compilations import compilations, compiled_before
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.window import gap_edges

KIND = "compile-bound"
StepWithout = Callable[[float, Periods], float]
"""Gives what a step takes without a part of what hosts do in some periods of their ranks."""


def compile_bound(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: compilations in the steady state, without which a step would be shorter."""

    def step_without(part: float, periods: Periods) -> float:
        return _step_without(part, periods, profile, facts)

    return compile_bound_by(step_without, profile, facts)


def compile_bound_by(step_without: StepWithout, profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """The same by another replay."""
    spans, ranks = facts.ppg.spans, facts.timeline.ranks
    rows = compilations(spans, ranks)
    stretch = facts.stretch if len(rows) else None
    if stretch is None or not stretch.has_steps:
        return []  # the first compilation is start-up
    rows = rows[(spans.start_s(rows) >= stretch.begin_s) & (spans.end_s(rows) <= stretch.end_s)]
    if not len(rows):
        return []
    periods = periods_of(spans, rows, ranks)
    spent_s = periods.rank_s() / stretch.steps
    middle_s = float(np.median(spent_s))
    half_s, without_s = (step_without(part, periods) for part in (HALF, NOTHING))
    if float(spent_s.min()) < MAJORITY * middle_s or not is_worth(without_s, profile):
        return []
    longest = int(rows[np.argmax(spans.end_s(rows) - spans.start_s(rows))])
    at = CodeLocation(TargetKind.OWN, int(spans.vertex[longest]), int(spans.line[longest]) or -1)
    evidence = Evidence(
        step_limit=step_limit(float(spent_s.mean()), half_s, without_s, profile),
        compiling=_compiling(rows, facts),
        callers=callers(at.vertex, facts.psg),
    )
    finding = replace(
        finding_at(at, list(range(ranks)), float(spent_s.sum()) * stretch.steps, facts.psg, KIND),
        saving_s=(profile.step_s - without_s) * stretch.steps,
        evidence=evidence,
        advice=ADVICE[KIND],
    )
    windows_s = joined(np.stack((periods.start_s, periods.end_s), axis=1))
    extent = Extent(tuple(finding.ranks), vertices=np.zeros(0, np.int64), windows_s=windows_s)
    return [SharedCause(finding, extent, float(spent_s.max()) <= (1.0 + ORDINARY) * middle_s)]


def _compiling(rows: IntArray, facts: Facts) -> Compiling:
    """What an average rank compiles in the steady state."""
    spans, ranks = facts.ppg.spans, facts.timeline.ranks
    made = np.unique(np.stack((spans.rank[rows], spans.texts("id")[rows])), axis=1)
    again = sum(compiled_before(spans.names[at]) > 0 for at in made[1].tolist() if at >= 0)
    seconds = float((spans.end_s(rows) - spans.start_s(rows)).sum())
    return Compiling(seconds / ranks, made.shape[1] / ranks, again / ranks)


def _step_without(part: float, periods: Periods, profile: CausalProfile, facts: Facts) -> float:
    """What a step takes without a part of what main threads do in some periods."""
    timeline = facts.timeline
    location, (begin_s, end_s) = burst_locations(timeline), gap_edges(timeline)
    rank = timeline.locations.rank[location].astype(np.int64)
    removed_s: FloatArray = np.where(timeline.locations.is_main[location], periods.inside_s(rank, begin_s, end_s), 0.0)
    measured_s, (changed_s,) = facts.replay.run_ends_s([Change.of(part * removed_s)])
    return max(profile.step_s - max(measured_s - changed_s, 0.0) / profile.steps, 0.0)
