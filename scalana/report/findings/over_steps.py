"""When a finding happens, and how its cost changes over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.report import names
from scalana.report.document.pictures import ColumnBar, Columns

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding


def when(finding: Finding) -> str:
    """In which region and steps a finding's seconds are lost, as a sentence; empty where nothing is known of either."""
    evidence = finding.evidence
    parts = [f"in region {evidence['region']}"] if evidence.get("region") else []
    phases, steps = evidence.get("lost_by_phase"), evidence.get("in_steps")
    if isinstance(phases, dict):
        largest = max(phases, key=lambda name: phases[name])
        if largest != "steady_s":
            parts.append({"startup_s": "in start-up", "end_s": "after the last step"}[largest])
        elif isinstance(steps, dict):
            parts.append(_in_steps(steps))
            parts += _a_step(finding, phases, steps)
    return f"It happens {', '.join(parts)}." if parts else ""


NEARLY_EVERY = 0.6
"""Part of the steps that hold nine tenths of what is lost, from which it happens in nearly every step: where the same
is lost in each, these are nine tenths of the steps, and two thirds where it varies as waiting times do."""


def _in_steps(steps: dict[str, object]) -> str:
    numbers, some, every = steps.get("numbers"), int(str(steps["steps"])), int(str(steps["of"]))
    if isinstance(numbers, list):
        return ("in step " if len(numbers) == 1 else "in steps ") + ", ".join(map(str, numbers))
    return "in nearly every step" if some >= NEARLY_EVERY * every else f"mostly in {some} of {every} steps"


def _a_step(finding: Finding, phases: dict[str, float], steps: dict[str, object]) -> list[str]:
    """What mending a finding saves of each step, where it happens in nearly all."""
    if steps.get("numbers") or int(str(steps["steps"])) < NEARLY_EVERY * int(str(steps["of"])) or finding.saving_s <= 0:
        return []
    share = phases["steady_s"] / max(sum(phases.values()), 1e-300)
    return [f"and takes {names.seconds(finding.saving_s * share / int(str(steps['of'])))} of each"]


_COSTS = {
    "work": "Its cost",
    "time": "Its cost, including waits for a core,",
    "waiting": "The waiting that it causes",
    "idle": "The idle time that it causes",
}


def trend(finding: Finding) -> str:
    """How what a finding costs changes over the steps, and what it costs if that goes on; empty where it does not."""
    known = finding.evidence.get("over_steps")
    if not isinstance(known, dict):
        return ""
    before, after = names.seconds(known["before_s"]), names.seconds(known["after_s"])
    rises, each = known["after_s"] > known["before_s"], "a step" if known["steps"] == known["of"] else "each time"
    cost = _COSTS[known["cost"]]
    if known["shape"] == "unclear":
        way = "rises" if rises else "falls"
        return f"{cost} {way} over the steps, steadily or at once, from about {before} {each} to {after}."
    if known["shape"] == "jump":
        text = f"{cost} is {after} {each} from step {known['from_step']} on, before that {before}"
    else:
        way, slope = "grows" if rises else "falls", names.seconds(abs(known["per_step_s"]))
        from_to = f"from {before} in step {known['first_step']} to {after} in step {known['last_step']}"
        text = f"{cost} {way} with the steps, {from_to}, by {slope} a step"
    next_s, so_far = names.seconds(known["next_s"]), names.seconds(known["so_far_s"])
    steps = known.get("stands_for", known["of"])
    return f"{text}. If this continues, the next {steps} steps cost {next_s}, after {so_far} in these."


def growth(finding: Finding) -> Columns | None:
    """A column for each step, or for some steps each; None where the cost of a finding does not change."""
    known = finding.evidence.get("over_steps")
    if not isinstance(known, dict) or max(known["series_s"]) <= 0:
        return None
    numbers, joined = known["series_steps"], len(known["series_s"]) < int(known["of"])
    bars = []
    for number, seconds in zip(numbers, known["series_s"], strict=True):
        which = f"from step {number} on, on average" if joined else f"step {number}"
        bars.append(ColumnBar(seconds, f"{which}: {names.seconds(seconds)}"))
    last = f"step {numbers[-1]}{' on' if joined else ''}"
    return Columns(trend(finding), tuple(bars), f"step {numbers[0]}", last, is_low=True)
