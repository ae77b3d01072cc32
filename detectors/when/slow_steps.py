"""Steps that took longer than the others, and who made them so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.limits import SHOWN_IN_BRIEF
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.metrics import no_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import window


@dataclass(frozen=True, slots=True)
class SlowStep:
    """A step that stands out."""

    number: int
    seconds: float
    cause: Finding | None
    """What holds most of the waiting in it; None where no line on particular ranks explains how long it took."""


def slow_steps(steps: Steps, ppg: PPG, findings_of: Callable[[PPG], list[Finding]]) -> list[SlowStep]:
    """The steps that stand out from the run's own spread, longest first.

    Each of the longest is analysed by itself, by ``findings_of``: what its ranks did elsewhere says nothing of it. One
    that is slow on all ranks alike has no cause.
    """
    rows = steps.slow().tolist()
    if not rows:
        return []
    length = steps.length_s()
    start, end = steps.on_all_ranks()
    usual = sorted(length[steps.steady()].tolist())[(len(length) - steps.warm_up) // 2]
    slow = []
    for order, row in enumerate(rows):
        cause = None
        if order < SHOWN_IN_BRIEF:
            timeline = window(ppg.timeline, start[row], end[row])
            part = PPG(ppg.psg, timeline, no_metrics(len(ppg.psg), timeline.ranks), replace(ppg.run, open_calls=[]))
            cause = _cause(findings_of(part), ppg.timeline.ranks, float(length[row]) - usual)
        slow.append(SlowStep(int(steps.number[row]), float(length[row]), cause))
    return slow


def _cause(found: list[Finding], ranks: int, longer_s: float) -> Finding | None:
    """The largest fault in a step, if it explains how much longer that took."""
    faults = [finding for finding in found if kind_of(finding.kind).is_fault]
    largest = max(faults, key=lambda finding: finding.lost_s, default=None)
    if largest is None:
        return None
    waiting = max(ranks - len(largest.ranks), 1)
    return largest if largest.lost_s >= MAJORITY * longer_s * waiting else None


SLOW_STEPS: SectionName[list[SlowStep]] = SectionName("slow_steps")
"""Longest first."""
