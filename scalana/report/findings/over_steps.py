"""When a finding happens, and how its cost changes over the steps."""

from __future__ import annotations

from scalana.detectors.evidence import InSteps
from scalana.detectors.finding import Finding
from scalana.report import names
from scalana.report.document.pictures import ColumnBar, Columns


def when(finding: Finding) -> str:
    """In which region and steps a finding's seconds are lost, as a sentence; empty where nothing is known of either."""
    evidence = finding.evidence
    parts = [f"in region {evidence.region}"] if evidence.region else []
    phases, steps = evidence.lost_by_phase, evidence.in_steps
    if phases is not None:
        if phases.startup_s >= max(phases.steady_s, phases.end_s):
            parts.append("in start-up")
        elif phases.end_s > phases.steady_s:
            parts.append("after the last step")
        elif steps is not None:
            parts.append(_in_steps(steps))
    return f"It happens {', '.join(parts)}." if parts else ""


NEARLY_EVERY = 0.6
"""Part of the steps that hold nine tenths of what is lost, from which it happens in nearly every step: where the same
is lost in each, these are nine tenths of the steps, and two thirds where it varies as waiting times do."""


def _in_steps(steps: InSteps) -> str:
    if steps.numbers is not None:
        return ("in step " if len(steps.numbers) == 1 else "in steps ") + ", ".join(map(str, steps.numbers))
    if steps.counted:
        return "in every step" if steps.steps == steps.of else f"in {steps.steps} of {steps.of} steps"
    nearly_all = steps.steps >= NEARLY_EVERY * steps.of
    return "in nearly every step" if nearly_all else f"mostly in {steps.steps} of {steps.of} steps"


def shorter_step(finding: Finding) -> str:
    """What a step of the steady state would take without a finding, where it happens in many of them; else ""."""
    steps, phases = finding.evidence.in_steps, finding.evidence.lost_by_phase
    if steps is None or phases is None or steps.numbers or steps.step_s is None or steps.without_s is None:
        return ""
    if phases.steady_s < max(phases.startup_s, phases.end_s):
        return ""
    step = "a step" if steps.steps >= NEARLY_EVERY * steps.of else "an average step"
    return f"{step} would take {names.seconds(steps.without_s)} instead of {names.seconds(steps.step_s)}"


_COSTS = {
    "work": "Its cost",
    "time": "Its cost, including waits for a core,",
    "waiting": "The waiting that it causes",
    "idle": "The idle time that it causes",
}


def trend(finding: Finding) -> str:
    """How what a finding costs changes over the steps, and what it costs if that goes on; empty where it does not."""
    known = finding.evidence.over_steps
    if known is None:
        return ""
    before, after = names.seconds(known.before_s), names.seconds(known.after_s)
    each = "a step" if known.steps == known.of else "each time"
    cost = _COSTS[known.cost]
    if known.so_far_s is None or known.next_s is None:
        way = "rises" if known.rises else "falls"
        return f"{cost} {way} over the steps, steadily or at once, from about {before} {each} to {after}."
    if known.per_step_s is None:
        text = f"{cost} is {after} {each} from step {known.from_step} on, before that {before}"
    else:
        way, slope = "grows" if known.rises else "falls", names.seconds(abs(known.per_step_s))
        from_to = f"from {before} in step {known.first_step} to {after} in step {known.last_step}"
        text = f"{cost} {way} with the steps, {from_to}, by {slope} a step"
    next_s, so_far = names.seconds(known.next_s), names.seconds(known.so_far_s)
    steps = known.of if known.stands_for is None else known.stands_for
    return f"{text}. If this continues, the next {steps} steps cost {next_s}, after {so_far} in these."


def growth(finding: Finding) -> Columns | None:
    """A column for each step, or for some steps each; None where the cost of a finding does not change."""
    known = finding.evidence.over_steps
    if known is None or max(known.series_s) <= 0:
        return None
    numbers, joined = known.series_steps, len(known.series_s) < known.of
    bars = []
    for number, seconds in zip(numbers, known.series_s, strict=True):
        which = f"from step {number} on, on average" if joined else f"step {number}"
        bars.append(ColumnBar(seconds, f"{which}: {names.seconds(seconds)}"))
    last = f"step {numbers[-1]}{' on' if joined else ''}"
    return Columns(trend(finding), tuple(bars), f"step {numbers[0]}", last, is_low=True)
