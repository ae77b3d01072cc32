"""When the seconds of a finding are lost: in start-up, steady state or end, and in which steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.annotate.trend import with_trend
from scalana.detectors.annotator import Annotated
from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.evidence import InSteps, LostByPhase
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.paths import reaching_entries
from scalana.detectors.thresholds.limits import NAMED
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, NEARLY_ALL, NEXT_TO_NOTHING
from scalana.detectors.when.slow_steps import SLOW_STEPS, SlowStep, slow_steps
from scalana.detectors.when.steady import STEADY
from scalana.detectors.when.step_costs import CostByStep
from scalana.detectors.when.step_presence import steps_with_cost
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.steps.find_steps import REPEATED
from scalana.graphs.steps.steps import Steps


class InWhichSteps:
    """Steps, and those that took longer than others."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings of waiting with when it is lost, and how that changes over the steps."""
        steps = facts.steps
        if steps is None:
            return Annotated(findings)
        lost, costs = _Lost.of(steps, facts), CostByStep.of(facts.blame, steps, facts.timeline)
        by_step = [lost.of_finding(one, one.entries) if one.entries is not None else None for one in findings]
        annotated = [
            _with_steps(one, *known, costs, steps) if known is not None else one
            for one, known in zip(findings, by_step, strict=True)
        ]
        known = [(one, lost_s[1]) for one, lost_s in zip(annotated, by_step, strict=True) if lost_s is not None]
        if facts.causes_only:
            return Annotated(annotated, {STEADY.name: facts.steady})
        slow = [_of_the_run(step, known, costs.number) for step in slow_steps(steps, facts.ppg, facts.findings_of)]
        return Annotated(annotated, {STEADY.name: facts.steady, SLOW_STEPS.name: slow})


@dataclass(frozen=True, slots=True)
class _Lost:
    """When ranks wait. A wait is lost where it ends."""

    table: BlameTable
    steps: Steps
    wait_s: FloatArray
    """``[waits]``"""
    group: IntArray
    """Of the blame table: as large a part of such waits is a finding's in every step ``[waits]``."""
    step: IntArray
    """Row of the step, -1 outside of any ``[waits]``."""
    early: BoolArray
    """Before the steady state ``[waits]``."""
    late: BoolArray
    """After the last step ``[waits]``."""

    @classmethod
    def of(cls, steps: Steps, facts: Facts) -> _Lost:
        """Those of a run."""
        timeline, waits = facts.timeline, facts.waits
        waiting = np.flatnonzero(waits.wait_s > 0.0)
        rank = timeline.locations.rank[timeline.calls.location[waiting]]
        released = timeline.calls.enter_s[waiting] + waits.wait_s[waiting]
        start, end = steps.on_all_ranks()
        return cls(
            facts.blame,
            steps,
            wait_s=waits.all_s(timeline)[waiting],
            group=facts.blame.groups.group_of_call[waiting],
            step=steps.periods().row_at(rank, released),
            early=released <= start[steps.steady()][0][rank],
            late=released > end[-1][rank],
        )

    def of_finding(self, finding: Finding, entries: IntArray) -> tuple[LostByPhase, FloatArray]:
        """What a finding loses by phase, and in each step of the steady state ``[steps]``."""
        part = np.append(reaching_entries(entries, self.table)[1], 0.0)  # the last for no group
        lost_s = self.wait_s * part[self.group]
        total_s = max(float(lost_s.sum()), 1e-300)
        phases = (float(lost_s[rows].sum()) for rows in (self.early, ~self.early & ~self.late, self.late))
        phase = LostByPhase(*(finding.lost_s * seconds / total_s for seconds in phases))
        inside = ~self.early & (self.step >= self.steps.warm_up)
        by_step = weighted_count(self.step[inside], lost_s[inside], len(self.steps))
        return phase, by_step[self.steps.steady()]


def _with_steps(finding: Finding, phase: LostByPhase, by_step: FloatArray, costs: CostByStep, steps: Steps) -> Finding:
    if float(by_step.sum()) <= 0.0:
        return replace(finding, evidence=replace(finding.evidence, lost_by_phase=phase))
    counted = _counted(finding, by_step, costs, steps) or _in_steps(by_step, costs.number)
    numbers = _with_length(counted, phase, finding.saving_s, steps)
    evidence = replace(finding.evidence, lost_by_phase=phase, in_steps=numbers)
    return with_trend(replace(finding, evidence=evidence), by_step, costs)


def _of_the_run(step: SlowStep, known: Sequence[tuple[Finding, FloatArray]], number: IntArray) -> SlowStep:
    """A slow step with the finding of the whole run as its cause, where that explains most of what the step's own
    analysis found: both are one cause then, which has one place. ``known`` are findings with what is lost by step."""
    at = np.flatnonzero(number == step.number)
    if step.cause is None or not len(at):
        return step
    ranks, least_s = set(step.cause.ranks), MAJORITY * step.cause.lost_s
    fits = [(float(lost_s[at[0]]), one) for one, lost_s in known if ranks & set(one.ranks)]
    largest_s, cause = max(fits, key=lambda fit: fit[0], default=(0.0, step.cause))
    return replace(step, cause=replace(cause, lost_s=step.cause.lost_s)) if largest_s >= least_s else step


def _counted(finding: Finding, by_step: FloatArray, costs: CostByStep, steps: Steps) -> InSteps | None:
    """In how many steps the ranks of a finding do what no other rank does; None where others do it, too, or where that
    cannot be counted.

    Where steps are inferred, nobody knows when the first one of all began: what is lost in it (``by_step``) decides, or
    that all others have it."""
    place = finding.evidence.place
    if place is None or place.seconds_others is None:
        return None
    longer = costs.longer_s(finding) if place.seconds_others <= NEXT_TO_NOTHING * place.seconds_here else None
    if longer is None:
        return None
    present = steps_with_cost(longer[1], max(costs.timeline.period_s, costs.seen_every_s(finding)))
    if present is None:
        return None
    if steps.source == REPEATED and steps.warm_up == 0 and present.any():
        present[0] |= present[1:].all() or by_step[0] > MINOR * float(np.median(by_step[present]))
    count = int(np.count_nonzero(present))
    few = count <= NAMED and count < NEARLY_ALL * len(present)
    return InSteps(count, len(present), costs.number[present].tolist() if few else None, counted=True)


def _in_steps(lost_s: FloatArray, number: IntArray) -> InSteps:
    """In how many steps most is lost, of how many, and in which if these are few."""
    order = np.argsort(-lost_s, kind="stable")
    reached = np.cumsum(lost_s[order])
    needed = int(np.searchsorted(reached, NEARLY_ALL * reached[-1])) + 1
    few = needed <= NAMED and needed < NEARLY_ALL * len(lost_s)
    return InSteps(needed, len(lost_s), sorted(number[order[:needed]].tolist()) if few else None)


def _with_length(found: InSteps, phase: LostByPhase, saving_s: float, steps: Steps) -> InSteps:
    """How long a step is on average, and how long it would be if all of its part of the saving came back."""
    start, end = (float(edge.mean()) for edge in (steps.on_all_ranks()[0][steps.warm_up], steps.on_all_ranks()[1][-1]))
    step_s = (end - start) / found.of
    saved_s = saving_s * phase.steady_s / max(phase.total_s, 1e-300) / found.of
    if not 0.0 < saved_s < step_s:
        return found
    return replace(found, step_s=step_s, without_s=step_s - saved_s)
