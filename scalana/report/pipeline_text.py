"""Pipelines, as reports tell of them: where a step goes, what each stage does, and what changes would bring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalana.report import names
from scalana.report.paint import NARROW, Paint, clip, rule, wrap
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.pipeline.detector import Pipeline
    from scalana.detectors.pipeline.diagnosis.attribution import StageLoad
    from scalana.graphs.readers.processes.process_names import ProcessNames
    from scalana.graphs.run_info import RunInfo

_MOST_STAGES = 16
_MOST_SCHEDULES = 3
_SMALL = 0.0005
"""Of a step: what is less is not told by itself."""
_BAR = 24
_WORTH = 0.01
"""Of a step: a change that brings less is not told."""

MEANINGS = {
    "compute": "forwards and backwards, average rank",
    "schedule": "fill and drain, in a balanced step too",
    "imbalance": "stages have different amounts to do",
    "straggler": "some microbatches take longer",
    "link": "messages on their way",
    "host": "between actions, outside of waits",
    "data": "loading of input",
    "gradients": "reducing gradients over replicas",
    "optimizer": "steps of the optimizer",
    "unexplained": "what the replay does not reproduce",
}
"""What the shares of a step are, in words."""


def text(pipelines: Sequence[Pipeline], analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The block of all pipelines of a run."""
    lines: list[str] = []
    for pipeline in pipelines:
        lines += ([""] if lines else []) + _one(pipeline, analysis.ppg.run, width, paint)
    return lines


def document(pipelines: Sequence[Pipeline], analysis: Analysis) -> list[dict[str, Any]]:
    """One entry a pipeline."""
    return [
        plain(one.diagnosis.section(one.recorded.engine, list(one.recorded.ranks)))
        | {"inferred": one.recorded.inferred, "on_device": one.recorded.on_device}
        for one in pipelines
    ]


def _one(pipeline: Pipeline, run: RunInfo, width: int, paint: Paint) -> list[str]:
    left, line, right = rule("Pipeline", title(pipeline), width)
    lines = [paint(left, "bold") + paint(line + right, "dim"), *wrap(" · ".join(facts(pipeline, run)), width, "  ")]
    for said in notes(pipeline):
        lines += wrap(said, width, "  ")
    lines += ["", *_shares(pipeline, run.names, width, paint), *wrap(avoidable(pipeline), width, "  "), ""]
    return lines + tables(pipeline, width, paint)


def title(pipeline: Pipeline) -> str:
    """Engine and schedule."""
    recorded = pipeline.recorded
    name = pipeline.diagnosis.schedule or recorded.schedule or "an order of its own"
    engine = "hand-written" if recorded.inferred else recorded.engine
    return (f"{engine} {name}" if _trains(pipeline) else f"{engine}, {name}").strip()


def facts(pipeline: Pipeline, run: RunInfo) -> list[str]:
    """Ranks and stages, microbatches, steps, and how well they are replayed."""
    recorded, diagnosis = pipeline.recorded, pipeline.diagnosis
    found, program = diagnosis.attribution, diagnosis.measured.program
    held = program.stages // max(program.ranks, 1)
    counts = sorted(set(diagnosis.measured.microbatches.tolist()))
    microbatches = " to ".join(str(count) for count in (counts if len(counts) == 1 else [counts[0], counts[-1]]))
    steps = len(diagnosis.measured.steps)
    return [
        f"{run.names.many(recorded.ranks, run.ranks)} x {held} {'stage' if held == 1 else 'stages'}",
        f"{microbatches} microbatch" + ("" if microbatches == "1" else "es"),
        f"{steps} {'step' if steps == 1 else 'steps'} of {names.seconds(found.step_s)}",
        f"replayed {names.seconds(found.replay_s)} ({found.replay_error:+.1%})".replace("%", " %"),
    ]


def notes(pipeline: Pipeline) -> list[str]:
    """What to know about how it was recorded, a sentence each."""
    inferred = ["Stages and microbatches are inferred from the messages between the ranks."]
    said = [f"{note[:1].upper()}{note[1:]}." for note in pipeline.diagnosis.measured.notes]
    return [*(inferred if pipeline.recorded.inferred else []), *said]


def tables(pipeline: Pipeline, width: int, paint: Paint) -> list[str]:
    """The stages, and what changes would bring."""
    found = pipeline.diagnosis.attribution
    lines = _stages(pipeline, width, paint)
    if not found.trusted:
        says = "The replay is too far from what was measured for advice: nothing is predicted."
        return [*lines, "", *wrap(says, width, "  ")]
    changes = _changes(pipeline, width, paint)
    return lines + (["", *changes] if changes else [])


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a step, in words."""

    name: str
    part: float
    """Of the step."""
    told: str
    """Who or what is behind it, or what it means."""
    blamed: bool
    """Whether somebody is."""


def shares(pipeline: Pipeline, processes: ProcessNames) -> list[Share]:
    """Where a step goes; all rows add up to it."""
    found = pipeline.diagnosis.attribution
    blamed = {culprit.cause: _blamed(pipeline, culprit.cause, processes) for culprit in pipeline.culprits}
    if pipeline.awaits:
        blamed["gradients"] = f"waits for {processes.many(pipeline.awaits)}"
    shown = {name: share for name, share in found.shares.items() if abs(share) >= _SMALL}
    rest = 1.0 - sum(shown.values())
    if abs(rest) >= _SMALL:
        shown["other"] = rest
    meanings = dict(MEANINGS)
    if pipeline.recorded.on_device:
        meanings["host"] = "devices had nothing to do: hosts launched late"
    if not _trains(pipeline):
        meanings["compute"] = "forwards, average rank"
    if pipeline.diagnosis.measured.goes_back:
        meanings["schedule"] = "fill, drain, tokens on their way back"
    return [
        Share(name, part, blamed.get(name) or meanings.get(name, ""), name in blamed) for name, part in shown.items()
    ]


def _shares(pipeline: Pipeline, processes: ProcessNames, width: int, paint: Paint) -> list[str]:
    step_s, lines = pipeline.diagnosis.attribution.step_s, []
    for share in shares(pipeline, processes):
        fixed = f"  {share.name:<12}{names.percent(share.part):>7}{names.seconds(share.part * step_s):>9}  "
        bar = "█" * round(max(share.part, 0.0) * _BAR)
        room = width - len(fixed) - _BAR - 2
        style = "red" if share.blamed else "dim"
        cells = fixed + (paint(f"{bar:<{_BAR}}", "blue") + "  " if width >= NARROW else "")
        room = room if width >= NARROW else room + _BAR + 2
        lines.append((cells + paint(clip(("← " if share.blamed else "") + share.told, room), style)).rstrip())
    return lines


def avoidable(pipeline: Pipeline) -> str:
    """How much of the schedule's own idling another one avoids; "" where that is little."""
    found = pipeline.diagnosis.attribution
    saving, other = pipeline.diagnosis.avoidable
    if other is None or saving < _WORTH * found.step_s:
        return ""
    return (
        f"Fill and drain belong to the schedule: no rank is to blame. {other.text} would avoid {names.seconds(saving)} "
        "of each step, with no more activations in memory."
    )


def _blamed(pipeline: Pipeline, cause: str, processes: ProcessNames) -> str:
    """Who or what is behind a cause, short."""
    culprit = next(one for one in pipeline.culprits if one.cause == cause)
    world = [pipeline.recorded.ranks[rank] for rank in culprit.ranks]
    if cause == "link" and (links := culprit.evidence.links) is not None:
        ranks = pipeline.recorded.ranks
        return ", ".join(f"from {processes.one(ranks[a])} to {processes.number_of(ranks[b])}" for a, b in links)
    if culprit.stages:
        stages = ", ".join(map(str, sorted(culprit.stages)))
        word = "stage" if len(culprit.stages) == 1 else "stages"
        return f"{word} {stages} on {processes.many(world, len(pipeline.recorded.ranks))}"
    return processes.many(world, len(pipeline.recorded.ranks))


def _stages(pipeline: Pipeline, width: int, paint: Paint) -> list[str]:
    """The table of stages; of many, those with the largest share in what others wait for."""
    recorded, found = pipeline.recorded, pipeline.diagnosis.attribution
    split = pipeline.diagnosis.splits_backward
    trains = _trains(pipeline)
    head = f"  {'stage':>5} {'rank':>5} {'forward':>9}" + (f" {'backward':>9}" if trains else "")
    head += (f" {'weights':>9}" if split else "") + f" {'load':>6} {'root':>6} {'critical':>8}"
    layers = pipeline.diagnosis.layers
    rows = sorted(found.stages, key=lambda stage: (-stage.root_share, -stage.load))[:_MOST_STAGES]
    lines = [paint(head + ("  layers" if layers is not None else ""), "dim")]
    for stage in sorted(rows, key=lambda stage: stage.stage):
        cells = f"  {stage.stage:>5} {recorded.ranks[stage.rank]:>5} {names.seconds(stage.forward_s):>9}"
        cells += f" {names.seconds(stage.backward_s):>9}" if trains else ""
        cells += f" {names.seconds(stage.weight_s):>9}" if split else ""
        cells += f" {stage.load:>6.2f} {names.percent(stage.root_share):>6} {names.percent(stage.critical_share):>8}"
        lines.append(cells + paint(clip(_layers(pipeline, stage), max(width - len(cells), 0)), "dim"))
    if len(rows) < len(found.stages):
        lines.append(paint(f"  and {len(found.stages) - len(rows)} more stages: see the JSON report", "dim"))
    return lines


def _trains(pipeline: Pipeline) -> bool:
    """Whether it has backwards."""
    return any(stage.backward_s > 0 for stage in pipeline.diagnosis.attribution.stages)


def _layers(pipeline: Pipeline, stage: StageLoad) -> str:
    layers = pipeline.diagnosis.layers
    if layers is None:
        return ""
    first, end = int(layers.cut[stage.stage]), int(layers.cut[stage.stage + 1])
    cost = layers.cost_s[:, first:end].sum(axis=0)
    worst = int(cost.argmax())
    if end - first == 1:
        return f"  {layers.names[first]}"
    return f"  {end - first}, most {layers.names[first + worst]} {names.seconds(float(cost[worst]))}"


def _changes(pipeline: Pipeline, width: int, paint: Paint) -> list[str]:
    """What changes would bring, in the engine's own words."""
    from scalana.detectors.pipeline.diagnosis.engine_flags import in_words_of

    diagnosis = pipeline.diagnosis
    now_s = diagnosis.attribution.step_s
    worth = [one for one in diagnosis.predictions if one.step_s <= (1 - _WORTH) * now_s or one.change == "bound"]
    schedules = [one for one in worth if one.change == "schedule"]
    shown = [one for one in worth if one not in schedules[_MOST_SCHEDULES:]]
    if not shown:
        return []
    lines = [paint(f"  {'what if':<12} {'step':>9} {'faster':>7} {'memory':>7}  change", "dim")]
    lines.append(f"  {'as it is':<12} {names.seconds(now_s):>9} {'1.00 x':>7} {_held(diagnosis.held):>7}".rstrip())
    for one in shown:
        memory = _held(one.peak_activations)
        cells = f"  {_WORDS.get(one.change, one.change):<12} {names.seconds(one.step_s):>9}"
        cells += f" {f'{now_s / one.step_s:.2f} x':>7} {memory:>7}  "
        words = in_words_of(pipeline.recorded.engine, one, diagnosis.layers)
        told = one.text + (f": {words}" if words else "") + (f" ({one.file})" if one.file else "")
        lines += wrap(told, width, " " * len(cells), cells)
    if math.isnan(diagnosis.held):
        return lines
    says = "Memory is the most activations that a rank holds, in microbatches times layers (stages, without layers)."
    return [*lines, *(paint(line, "dim") for line in wrap(says, width, "  "))]


def _held(activations: float) -> str:
    """How many activations a rank holds; nothing where that is not known."""
    return "" if math.isnan(activations) else f"{activations:.0f}"


_WORDS = {
    "repartition": "new split",
    "no-straggler": "straggler",
    "equal-lengths": "lengths",
    "zero-latency": "network",
    "no-host-gaps": "host",
    "equal-load": "equal load",
}
