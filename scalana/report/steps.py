"""The steps of a run, as reports tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names
from scalana.report.paint import wrap

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.evidence import InSteps, LostByPhase
    from scalana.detectors.finding import Finding
    from scalana.detectors.when.slow_steps import SlowStep

_MOST_SLOW = 3
"""Slow steps that are named in the text."""

_INFERRED = {"communication": "from repeated communication"}
"""How to say where steps are from that nobody marked."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A job as its users think of it. Start-up, steady state, what lies between its steps, and end add up to the
    seconds of the job."""

    source: str
    first: int
    """Number of the first step of all."""
    count: int
    """All steps."""
    warm_up: int
    """So many of the first steps are start-up."""
    median_s: float
    """Of a step of the steady state."""
    mean_s: float
    """Of a step of the steady state, on average over ranks: all of them together take ``steady_s``."""
    least_s: float
    most_s: float
    startup_s: float
    """From the start of the job, its launcher's time included, to that of the steady state, on average over ranks."""
    steady_s: float
    """In steps of the steady state, on average over ranks."""
    between_s: float
    """Between these, on average over ranks."""
    end_s: float
    """From the last step, on average over ranks, to the end of the last record."""
    ahead: bool
    """Whether hosts launch steps ahead of their devices, so that only the mean says how long a step takes."""


def summary(analysis: Analysis) -> Summary | None:
    """The numbers of an analysis' steps; None where there are none."""
    steps = analysis.steps
    if steps is None:
        return None
    start, end = steps.on_all_ranks()
    length = steps.length_s()[steps.steady()]
    span = float((end[-1] - start[steps.warm_up]).mean())
    last = float(analysis.ppg.timeline.locations.end_s.max())
    end_s = max(last - float(end[-1].mean()), 0.0)
    steady_s = steps.steady_s()
    return Summary(
        source=steps.source,
        first=int(steps.number[0]),
        count=len(steps),
        warm_up=steps.warm_up,
        median_s=float(np.median(length)),
        mean_s=steady_s / len(length),
        least_s=float(length.min()),
        most_s=float(length.max()),
        startup_s=max(analysis.ppg.run.seconds - span - end_s, 0.0),
        steady_s=steady_s,
        between_s=max(span - steady_s, 0.0),
        end_s=end_s,
        ahead=steps.ahead,
    )


def head(analysis: Analysis, width: int) -> list[str]:
    """One line: start-up, so many steps of so long each, the end."""
    text = in_words(analysis)
    return wrap(text, width, "  ") if text else []


def in_words(analysis: Analysis) -> str:
    """Start-up, so many steps of so long each, the end; "" where there are no steps."""
    told = summary(analysis)
    if told is None:
        return ""
    steady = told.count - told.warm_up
    word = "step" if steady == 1 else "steps"
    if told.warm_up:
        word = f"more {word}"
    length = f"{steady} {word} of {names.seconds(told.mean_s if told.ahead else told.median_s)}"
    if names.seconds(told.least_s) != names.seconds(told.most_s):
        length += " on average" if told.ahead else ""
        length += f" ({names.span(told.least_s, told.most_s)})"
    if analysis.window is not None:
        first, last = analysis.window
        parts = [f"step {first} alone" if first == last else f"steps {first} to {last} alone", length]
    else:
        start_up = f"start-up {names.seconds(told.startup_s)}"
        if told.warm_up:
            start_up += " with the first " + ("step" if told.warm_up == 1 else f"{told.warm_up} steps")
        parts = [start_up, length]
        if told.between_s > 0.01 * told.steady_s:
            parts.append(f"{names.seconds(told.between_s)} between")
        parts.append(f"end {names.seconds(told.end_s)}")
    if told.source in _INFERRED:
        parts.append(_INFERRED[told.source])
    return " · ".join(parts)


def slow(analysis: Analysis, width: int) -> list[str]:
    """One line: which steps were slow, and who made them so."""
    text = slow_in_words(analysis)
    return wrap(text, width, "    ", "  ") if text else []


def slow_in_words(analysis: Analysis) -> str:
    """Which steps were slow, and who made them so; "" where none was."""
    if not analysis.slow_steps:
        return ""
    shown = analysis.slow_steps[:_MOST_SLOW]
    causes: dict[str, list[SlowStep]] = {}
    for step in shown:
        causes.setdefault(_cause(step, analysis), []).append(step)
    texts = []
    for cause, of in causes.items():
        told = ", ".join(f"{step.number} ({names.seconds(step.seconds)})" for step in of)
        texts.append(f"{told}: {cause}" if cause else told)
    more = len(analysis.slow_steps) - len(shown)
    if more:
        texts.append(f"and {more} more")
    word = "slow step: " if len(analysis.slow_steps) == 1 else "slow steps: "
    return word + "; ".join(texts)


def _cause(step: SlowStep, analysis: Analysis) -> str:
    cause = step.cause
    if cause is None:
        return ""
    run = analysis.ppg.run
    where = names.place(names.near(cause.file, run.cwd), cause.line)
    return f"{run.names.many(cause.ranks, run.ranks)}, {where} {cause.function}".rstrip()


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
            parts += _a_step(finding, phases, steps)
    return f"It happens {', '.join(parts)}." if parts else ""


NEARLY_EVERY = 0.6
"""Part of the steps that hold nine tenths of what is lost, from which it happens in nearly every step: where the same
is lost in each, these are nine tenths of the steps, and two thirds where it varies as waiting times do."""


def _in_steps(steps: InSteps) -> str:
    if steps.numbers is not None:
        return ("in step " if len(steps.numbers) == 1 else "in steps ") + ", ".join(map(str, steps.numbers))
    nearly_all = steps.steps >= NEARLY_EVERY * steps.of
    return "in nearly every step" if nearly_all else f"mostly in {steps.steps} of {steps.of} steps"


def _a_step(finding: Finding, phases: LostByPhase, steps: InSteps) -> list[str]:
    """What mending a finding saves of each step, where it happens in nearly all."""
    if steps.numbers or steps.steps < NEARLY_EVERY * steps.of or finding.saving_s <= 0:
        return []
    share = phases.steady_s / max(phases.total_s, 1e-300)
    return [f"and takes {names.seconds(finding.saving_s * share / steps.of)} of each"]


_COSTS = {
    "work": "Its cost",
    "time": "Its cost, with what is waited for a core,",
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
        return f"{cost} {way} over the steps, from about {before} {each} to {after}, whether steadily or at once."
    if known.per_step_s is None:
        text = f"{cost} is {after} {each} from step {known.from_step} on, before that {before}. If it stays so"
    else:
        way, slope = "grows" if known.rises else "falls", names.seconds(abs(known.per_step_s))
        from_to = f"from {before} in step {known.first_step} to {after} in step {known.last_step}"
        text = f"{cost} {way} with the steps, {from_to}, by {slope} a step. If it goes on so"
    next_s, so_far = names.seconds(known.next_s), names.seconds(known.so_far_s)
    steps = known.of if known.stands_for is None else known.stands_for
    return f"{text}, the next {steps} steps cost {next_s}, after {so_far} in these."
