"""Pipelines: where a step goes, what each stage does, and what changes would bring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.pipeline.detector import Pipeline
from scalana.detectors.pipeline.diagnosis.attribution import StageLoad
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.document.changes import KnownChange
from scalana.report.document.pictures import Picture
from scalana.report.document.sections import (
    Account,
    Column,
    Facts,
    Fit,
    Layout,
    Part,
    Row,
    Section,
    Share,
    Table,
    Tone,
    texts,
)
from scalana.report.pictures import pipeline_svg, pipeline_timeline
from scalana.report.values import plain

NAME = "pipeline"

_MOST_STAGES = 16
_MOST_SCHEDULES = 3
_MOST_SECTIONS = 4
_SMALL = 0.0005
"""Of a step: what is less is not shown by itself."""
_WORTH = 0.01
"""Of a step: a change that brings less is not shown."""

MEANINGS = {
    "compute": "forward and backward passes, average rank",
    "schedule": "fill and drain, also in a balanced step",
    "imbalance": "stages have unequal work",
    "straggler": "some microbatches take longer",
    "link": "messages in transit",
    "host": "between actions, outside waits",
    "data": "input loading",
    "gradients": "gradient reduction over replicas",
    "optimizer": "optimizer steps",
    "unexplained": "not reproduced by the replay",
}
"""What the shares of a step are, in words."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """A section a pipeline, the first with the picture of a step; of many replicas one for the slowest."""
    pipelines = pipelines_of(analysis)
    shown = pipelines if len(pipelines) <= _MOST_SECTIONS else [max(pipelines, key=_without_gradients_s)]
    return [_section(one, analysis, number == 0, len(pipelines) - len(shown)) for number, one in enumerate(shown)]


def _without_gradients_s(pipeline: Pipeline) -> float:
    """What a step takes, but for waiting for other replicas."""
    found = pipeline.diagnosis.attribution
    return found.step_s - found.seconds["gradients"]


def pipelines_of(analysis: Analysis) -> list[Pipeline]:
    """The pipelines of a run."""
    found = analysis.sections.get(NAME)
    return found if isinstance(found, list) else []


def entries(analysis: Analysis) -> dict[str, Any]:
    """One entry a pipeline, for the JSON report."""
    if NAME not in analysis.sections:
        return {}
    return {
        NAME: [
            plain(one.diagnosis.section(one.recorded.engine, list(one.recorded.ranks)))
            | {"inferred": one.recorded.inferred, "on_device": one.recorded.on_device}
            for one in pipelines_of(analysis)
        ]
    }


def timeline(analysis: Analysis) -> str | None:
    """SVG of a step of the first pipeline of a run; None where there is none."""
    pipelines = pipelines_of(analysis)
    if not pipelines:
        return None
    picture = pipeline_timeline.picture_of(pipelines[0], len(pipelines) - 1, analysis.ppg.run.names)
    return pipeline_svg.render(picture)


def _section(pipeline: Pipeline, analysis: Analysis, drawn: bool, others: int) -> Section:
    run, found = analysis.ppg.run, pipeline.diagnosis.attribution
    account = Account(
        "a step of the pipeline",
        found.step_s,
        tuple(shares(pipeline, run.names)),
        Layout.BARS,
        seconds_head="a step",
        behind_head="meaning, or ← cause",
    )
    picture: list[Part] = [Picture("timeline of a step", lambda: timeline(analysis) or "")] if drawn else []
    error = names.percent(abs(found.replay_error))
    says = f"Savings not estimated: the replay differs from the measured step by {error}."
    more = texts(f"The slowest of {others + 1} pipelines; the JSON report has the others." if others else "")
    blocks = (
        (Facts((" · ".join(facts(pipeline, run)),), is_soft=True), Facts((*more, *notes(pipeline)))),
        (account, Facts(texts(avoidable(pipeline))), *picture),
        (_stages(pipeline),),
        _changes(pipeline) if found.trusted else (Facts((says,)),),
    )
    return Section(NAME, "Pipeline", blocks, title(pipeline))


def title(pipeline: Pipeline) -> str:
    """Engine and schedule."""
    recorded = pipeline.recorded
    name = pipeline.diagnosis.schedule or recorded.schedule or "custom order"
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
        meanings["host"] = "devices are idle: hosts launch late"
    if not _trains(pipeline):
        meanings["compute"] = "forward passes, average rank"
    if pipeline.diagnosis.measured.goes_back:
        meanings["schedule"] = "fill, drain, tokens in transit back"
    order = list(MEANINGS)
    return [
        Share(
            name,
            part * found.step_s,
            order.index(name) if name in order else len(order),
            ("← " if name in blamed else "") + (blamed.get(name) or meanings.get(name, "")),
            name in blamed,
        )
        for name, part in shown.items()
    ]


def avoidable(pipeline: Pipeline) -> str:
    """How much of the schedule's own idling another one avoids; "" where that is little."""
    found = pipeline.diagnosis.attribution
    saving, other = pipeline.diagnosis.avoidable
    if other is None or saving < _WORTH * found.step_s:
        return ""
    return (
        "Fill and drain are part of the schedule: no rank causes them. "
        f"{other.text} would save {names.seconds(saving)} of each step, without more memory for activations."
    )


def _blamed(pipeline: Pipeline, cause: str, processes: ProcessNames) -> str:
    """The stages, ranks or links behind a cause, short."""
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


def _stages(pipeline: Pipeline) -> Table:
    """The table of stages; of many, those with the largest share in what others wait for."""
    recorded, diagnosis, trains = pipeline.recorded, pipeline.diagnosis, _trains(pipeline)
    found, split, has_layers = diagnosis.attribution, diagnosis.splits_backward, diagnosis.layers is not None
    columns = (
        Column("stage", 5),
        Column("rank", 5),
        Column("forward", 9),
        *([Column("backward", 9)] if trains else []),
        *([Column("weights", 9)] if split else []),
        Column("load", 6),
        Column("root", 6),
        Column("critical", 8),
        *([Column("layers", is_text=True, tone=Tone.SOFT)] if has_layers else []),
    )
    most = sorted(found.stages, key=lambda stage: (-stage.root_share, -stage.load))[:_MOST_STAGES]
    rows = []
    for stage in sorted(most, key=lambda stage: stage.stage):
        cells = [str(stage.stage), str(recorded.ranks[stage.rank]), names.seconds(stage.forward_s)]
        cells += [names.seconds(stage.backward_s)] if trains else []
        cells += [names.seconds(stage.weight_s)] if split else []
        cells += [f"{stage.load:.2f}", names.percent(stage.root_share), names.percent(stage.critical_share)]
        rows.append(Row((*cells, *([_layers(pipeline, stage)] if has_layers else []))))
    more = len(found.stages) - len(most)
    return Table(columns, tuple(rows), texts(f"and {more} more stages: see the JSON report" if more else ""))


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
        return layers.names[first]
    return f"{end - first}, most {layers.names[first + worst]} {names.seconds(float(cost[worst]))}"


def _changes(pipeline: Pipeline) -> tuple[Part, ...]:
    """What changes would bring, in the engine's own words."""
    from scalana.detectors.pipeline.diagnosis.engine_flags import in_words_of

    diagnosis = pipeline.diagnosis
    now_s = diagnosis.attribution.step_s
    worth = [one for one in diagnosis.predictions if one.step_s <= (1 - _WORTH) * now_s or one.change == "bound"]
    schedules = [one for one in worth if one.change == "schedule"]
    shown = [one for one in worth if one not in schedules[_MOST_SCHEDULES:]]
    if not shown:
        return ()
    rows = [Row(("as it is", names.seconds(now_s), "1.00 x", _held(diagnosis.held), ""))]
    for one in shown:
        words = in_words_of(pipeline.recorded.engine, one, diagnosis.layers)
        text = one.text + (f": {words}" if words else "") + (f" ({one.file})" if one.file else "")
        cells = _WORDS.get(one.change, one.change), names.seconds(one.step_s), f"{now_s / one.step_s:.2f} x"
        rows.append(Row((*cells, _held(one.peak_activations), text)))
    says = (
        "Memory: the most activations that a rank holds, in microbatches times layers (stages if layers are unknown)."
    )
    return (Table(_CHANGES, tuple(rows), texts("" if math.isnan(diagnosis.held) else says)),)


def known_changes(analysis: Analysis) -> list[KnownChange]:
    """What is predicted of each pipeline, but for the bound that no change reaches."""
    found = []
    pipelines = pipelines_of(analysis)
    for pipeline in pipelines:
        now_s, steps = pipeline.diagnosis.attribution.step_s, len(pipeline.diagnosis.measured.steps)
        for one in pipeline.diagnosis.predictions:
            # Of several replicas, one without its own fault still waits for the others.
            if one.change != "bound" and (len(pipelines) == 1 or one.change not in _WITHOUT_FAULTS):
                text = f"{_WORDS[one.change]}: {one.text}" if one.change in _WORDS else f"{one.change} {one.text}"
                more = one.change == "microbatches"
                found.append(KnownChange(text, now_s, one.step_s, steps, "Pipeline", enlarges_job=more))
    return found


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

_WITHOUT_FAULTS = {"no-straggler", "equal-lengths", "zero-latency", "no-host-gaps", "equal-load"}
"""Changes that are no change of the program, but tell what a fault costs."""

_CHANGES = (
    Column("what if", 12, is_text=True),
    Column("step", 9),
    Column("faster", 7),
    Column("memory", 7),
    Column("change", is_text=True, fit=Fit.WRAP),
)
