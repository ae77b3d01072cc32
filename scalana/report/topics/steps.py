"""The steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.slow_steps import SLOW_STEPS, SlowStep
from scalana.detectors.when.steady import STEADY
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.document.pictures import ColumnBar, Columns
from scalana.report.document.sections import Facts, Part, Section
from scalana.report.findings.claims import claim
from scalana.report.findings.entry import ranks_entry, root_entry
from scalana.report.findings.sentences import cost
from scalana.report.topics import time
from scalana.report.values import plain

_STARTED_LATE = "started-late"
"""Kind of findings that are about start-up, and are no faults of the steps."""
_MOST_SLOW = 3
"""Slow steps that are named in the text."""
MOST_COLUMNS = 240
"""Of more steps, neighbours are one column, as high as the longest of them."""
_KINDS = {"slow": ", slow", "first": ", start-up", "step": ""}
""":attr:`ColumnBar.kind` in words."""

_INFERRED = {"communication": "inferred from repeated communication"}
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


def sections(analysis: Analysis) -> Sequence[Section]:
    """Ranks that start late, which steps were slow, and how long every one took."""
    columns, slow = _columns(analysis), slow_in_words(analysis)
    parts: list[Part] = [Facts((line,), hangs=True) for line in (*_started_late(analysis), slow) if line]
    parts += [columns] if columns is not None else []
    return [Section("steps", "Steps", (tuple(parts),), is_head=True)] if parts else []


def _started_late(analysis: Analysis) -> list[str]:
    """What each line that starts ranks late brings to start-up, and to no step."""
    run, said = analysis.ppg.run, []
    for finding in analysis.findings:
        if finding.kind == _STARTED_LATE:
            where = f"{names.place(names.near(finding.file, run.cwd), finding.line)} {finding.function}"
            sentences = claim(finding, run.ranks, run.names), cost(finding, run), finding.advice
            said.append(f"start-up: {where}: {' '.join(filter(None, sentences))}")
    return said


def _columns(analysis: Analysis) -> Columns | None:
    """A column for every step, slow ones marked."""
    found = analysis.steps
    length = found.length_s() if found is not None and len(found) else np.zeros(0)
    known = np.where(np.isfinite(length), length, 0.0)
    if found is None or not known.any():
        return None
    slow = {step.number for step in analysis.section(SLOW_STEPS) or []}
    size = -(-len(known) // MOST_COLUMNS)
    bars = []
    for begin in range(0, len(known), size):
        end = min(begin + size, len(known))
        numbers = found.number[begin:end].tolist()
        seconds = float(known[begin:end].max())
        kind = "first" if end <= found.warm_up else "step"
        kind = kind if slow.isdisjoint(numbers) else "slow"
        which = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {numbers[0]} to {numbers[-1]}, at most"
        bars.append(ColumnBar(seconds, f"{which}: {names.seconds(seconds)}{_KINDS[kind]}", kind))
    keys = [*(["▼ slow"] if slow else []), *(["gray: start-up"] if known[: found.warm_up].any() else [])]
    if size > 1:
        keys.append(f"each column: {size} steps, as high as the longest")
    first, last = int(found.number[0]), int(found.number[-1])
    ends = f"step {first}", f"step {last}" if last > first else ""
    return Columns(f"length of every step: {in_words(analysis)}", tuple(bars), *ends, keys=tuple(keys))


def in_words(analysis: Analysis) -> str:
    """Start-up, number and length of the steps, the end; "" where there are no steps."""
    known = summary(analysis)
    if known is None:
        return ""
    steady = known.count - known.warm_up
    word = "step" if steady == 1 else "steps"
    if known.warm_up:
        word = f"more {word}"
    length = f"{steady} {word} of {names.seconds(known.mean_s if known.ahead else known.median_s)}"
    if names.seconds(known.least_s) != names.seconds(known.most_s):
        length += " on average" if known.ahead else ""
        length += f" ({names.span(known.least_s, known.most_s)})"
    if analysis.window is not None:
        first, last = analysis.window
        parts = [f"only step {first}" if first == last else f"only steps {first} to {last}", length]
    else:
        start_up = f"start-up {names.seconds(known.startup_s)}"
        if known.warm_up:
            start_up += " with the first " + ("step" if known.warm_up == 1 else f"{known.warm_up} steps")
        parts = [start_up, length]
        if known.between_s > 0.01 * known.steady_s:
            parts.append(f"{names.seconds(known.between_s)} between")
        parts.append(f"end {names.seconds(known.end_s)}")
    if known.source in _INFERRED:
        parts.append(_INFERRED[known.source])
    return " · ".join(parts)


def slow_in_words(analysis: Analysis) -> str:
    """Which steps were slow, and the causes; "" where none was."""
    slow = analysis.section(SLOW_STEPS)
    if not slow:
        return ""
    shown, texts = slow[:_MOST_SLOW], []
    causes = _by_cause(shown, analysis)
    for cause, of in causes.items():
        listed = ", ".join(f"{step.number} ({names.seconds(step.seconds)})" for step in of)
        texts.append(f"{listed}: {cause}" if cause else listed)
    more = len(slow) - len(shown)
    if more:
        texts.append(f"and {more} more")
    word = "slow step: " if len(slow) == 1 else "slow steps: "
    return word + "; ".join(texts)


def slow_causes(analysis: Analysis) -> str:
    """What makes the slowest steps longer, where that is known; "" where none has a cause."""
    causes = _by_cause((analysis.section(SLOW_STEPS) or [])[:_MOST_SLOW], analysis)
    causes.pop("", None)
    texts = []
    for cause, of in causes.items():
        word = "step" if len(of) == 1 else "steps"
        texts.append(f"{word} {', '.join(str(step.number) for step in of)} (cause: {cause})")
    return "; ".join(texts)


def _by_cause(steps: Sequence[SlowStep], analysis: Analysis) -> dict[str, list[SlowStep]]:
    """Steps by what makes them longer, in words; "" for an unknown cause."""
    causes: dict[str, list[SlowStep]] = {}
    for step in steps:
        causes.setdefault(_cause(step, analysis), []).append(step)
    return causes


def _cause(step: SlowStep, analysis: Analysis) -> str:
    cause = step.cause
    if cause is None:
        return ""
    run = analysis.ppg.run
    where = names.place(names.near(cause.file, run.cwd), cause.line)
    return f"{run.names.many(cause.ranks, run.ranks)}, {where} {cause.function}".rstrip()


def entries(analysis: Analysis) -> dict[str, Any]:
    """The steps, which of them were slow, and where their time went, for the JSON report."""
    found: dict[str, Any] = {}
    known, slow, steady = summary(analysis), analysis.section(SLOW_STEPS) or [], analysis.section(STEADY)
    if known is not None:
        found["steps"] = {
            **{name: plain(value) for name, value in asdict(known).items()},
            "slowest": [step.number for step in slow],
            "slow": [_slow_entry(step, analysis.ppg.run) for step in slow if step.cause is not None],
            **({"window": list(analysis.window)} if analysis.window is not None else {}),
        }
    if steady is not None:
        found["time_steady"] = time.entry(steady.time)
    return found


def _slow_entry(step: SlowStep, run: RunInfo) -> dict[str, Any]:
    """A slow step of which the cause is known."""
    assert step.cause is not None
    return {
        "step": step.number,
        "seconds": plain(step.seconds),
        "root": root_entry(step.cause, run.cwd),
        **ranks_entry(step.cause, run.names),
        "lost_s": plain(step.cause.lost_s),
    }
