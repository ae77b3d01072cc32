"""All of it in one call: rows of one pipeline in; shares, loads, and what changes would bring, out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.advice import BOUND, LAYERS_ALONE
from scalana.detectors.pipeline.diagnosis.attribution import Attribution, attribute
from scalana.detectors.pipeline.diagnosis.causes import Switches
from scalana.detectors.pipeline.diagnosis.predictions import (
    Model,
    Planner,
    Prediction,
    avoidable_by_schedule,
    held,
    more_microbatches,
    without_causes,
)
from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.measured.replayable import ActionRows, Between, Measured, read_rows
from scalana.detectors.pipeline.model.actions import Kind, Program, forward_only
from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.pipeline.model.partition import stage_costs
from scalana.detectors.pipeline.model.schedules import BY_NAME, recognise
from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True)
class Diagnosis:
    """What there is to say of one pipeline."""

    measured: Measured
    attribution: Attribution
    schedule: str
    """Name of the standard schedule; "" if it is none."""
    layers: Layers | None
    """Scaled to what was measured."""
    predictions: tuple[Prediction, ...]
    """What changes would bring, the fastest first, the bound last; none where the replay is not to be trusted."""
    wall: str
    """The layer that alone costs more than the mean of a rank; "" if there is none, or layers are not known."""
    held: float = float("nan")
    """The most that a rank holds as it is, as :attr:`Prediction.peak_activations`; NaN where nothing is predicted, or
    nothing is kept for backwards."""
    avoidable: tuple[float, Prediction | None] = (0.0, None)
    """What the best other schedule saves of a step at no more memory beyond a new cut, and that schedule."""

    @property
    def splits_backward(self) -> bool:
        """Whether the backward was split into I and W in what was measured."""
        return bool((self.measured.program.kind == Kind.W).any())

    def section(self, engine: str, ranks: list[int]) -> dict[str, object]:
        """The entry of ``pipeline`` in a JSON report; ``ranks`` are the job's."""
        found = self.attribution
        stages = []
        for stage in found.stages:
            entry: dict[str, object] = {
                "stage": stage.stage,
                "rank": ranks[stage.rank],
                "forward_s": stage.forward_s,
                "backward_s": stage.backward_s,
                "weight_s": stage.weight_s,
                "load": stage.load,
                "root_share": stage.root_share,
                "critical_share": stage.critical_share,
            }
            if self.layers is not None:
                entry["layers_share"] = float(self.layers.share[stage.stage])
                entry["layers"] = [
                    {
                        "name": self.layers.names[i],
                        "forward_s": float(self.layers.cost_s[Kind.F, i]),
                        "backward_s": float(self.layers.cost_s[Kind.B :, i].sum()),
                    }
                    for i in range(self.layers.cut[stage.stage], self.layers.cut[stage.stage + 1])
                ]
            stages.append(entry)
        return {
            "engine": engine,
            "schedule": self.schedule,
            "ranks": ranks,
            "stages": self.measured.program.stages,
            "microbatches": int(np.median(self.measured.microbatches)),
            "steps": len(self.measured.steps),
            "step_s": found.step_s,
            "replay_s": found.replay_s,
            "shares": found.shares,
            "stage": stages,
            "what_if": [
                {
                    "change": p.change,
                    "text": p.text,
                    "step_s": p.step_s,
                    "peak_activations": p.peak_activations if np.isfinite(p.peak_activations) else None,
                }
                | ({"file": p.file} if p.file else {})
                for p in self.predictions
            ],
        }


def diagnose(
    rows: ActionRows, engine: Engine, between: Between | None = None, layers: Layers | None = None
) -> Diagnosis:
    """Diagnose the measured steps of one pipeline.

    Raises:
        OrderError: where no step is recorded in full.
    """
    measured = read_rows(rows, engine, between)
    found = attribute(measured)
    first = measured.first_step()
    scaled = None if layers is None else scale_layers(found, layers)
    predictions: list[Prediction] = []
    wall, most_held = "", float("nan")
    avoidable: tuple[float, Prediction | None] = (0.0, None)
    if found.trusted:
        planner = Planner(_model(measured, found, scaled), engine)
        cut = np.arange(first.stages + 1) if scaled is None else scaled.cut
        trains = not forward_only(first)
        most_held = held(first, cut) if trains else most_held
        predictions = [replace(one, peak_activations=most_held) for one in without_causes(Switches(measured))]
        predictions += _changes(planner, measured, found, cut, known=scaled is not None)
        if scaled is not None:  # then a new cut says what there is to gain
            predictions = [one for one in predictions if one.change != "equal-load"]
        if trains:
            avoidable = avoidable_by_schedule(planner, first, cut)
        heaviest = planner.wall()
        wall = "" if heaviest is None or scaled is None else scaled.names[heaviest]
    order = sorted(predictions, key=lambda one: (one.change == "bound", one.step_s))
    return Diagnosis(measured, found, recognise(first), scaled, tuple(order), wall, most_held, avoidable)


def scale_layers(found: Attribution, layers: Layers) -> Layers:
    """The layers' costs such that those of a stage add up to what it takes, kind by kind: what it does outside of them
    is spread over them."""
    usual = _stage_usual(found)
    given = stage_costs(layers.cost_s, layers.cut)
    whole = stage_costs(layers.cost_s.sum(axis=0)[None], layers.cut)[0]
    stage = np.repeat(np.arange(len(layers.cut) - 1), np.diff(layers.cut))
    scaled = np.zeros_like(layers.cost_s)
    for kind in Kind:
        # Where a kind is not known by layer, it is spread as all kinds together are.
        known = given[kind][stage] > 0
        parts = np.where(known, layers.cost_s[kind], layers.cost_s.sum(axis=0))
        total = np.where(known, given[kind][stage], whole[stage])
        scaled[kind] = usual[kind][stage] * parts / np.where(total > 0, total, 1.0)
    known_s, all_s = given.sum(axis=0), np.where(given > 0, usual, 0.0).sum(axis=0)
    return replace(layers, cost_s=scaled, share=known_s / np.where(all_s > 0, all_s, 1.0))


def what_is_no_layer(layers: Layers) -> tuple[str, ...]:
    """Of which stages the layers are not what they take, in words; nothing where they are."""
    told = [
        f"stage {stage} {share:.0%}" for stage, share in enumerate(layers.share.tolist()) if abs(share - 1.0) > MINOR
    ]
    return (LAYERS_ALONE.format(", ".join(told)),) if told else ()


def _stage_usual(found: Attribution) -> FloatArray:
    """Usual seconds by kind and stage ``[4, stages]``: the whole backward as B, or I and W where it is split."""
    return found.usual_s


def planning_model(diagnosis: Diagnosis) -> Model:
    """What a planner needs of a diagnosed pipeline."""
    return _model(diagnosis.measured, diagnosis.attribution, diagnosis.layers)


def _model(measured: Measured, found: Attribution, layers: Layers | None) -> Model:
    """What a planner needs; without layers, every stage is one that cannot be cut."""
    operations, ranks = measured.operations, measured.program.ranks
    usual = float(np.median(measured.links.latency_s)) if len(measured.links.latency_s) else 0.0
    latency = np.full(ranks * ranks, usual)
    for link in np.unique(operations.link):
        latency[link] = np.median(measured.links.latency_s[operations.link == link])
    inner = np.ones(operations.size, bool)
    inner[operations.enter[_starts(measured)]] = False
    host = float(measured.host_s[inner].sum()) / measured.program.size
    costs = _stage_usual(found) if layers is None else layers.cost_s
    return Model(costs, ranks, latency.reshape(ranks, ranks), host, () if layers is None else layers.names)


def _starts(measured: Measured) -> IntArray:
    """The first action of every rank in every step."""
    rank, step = measured.program.rank, measured.step
    return np.flatnonzero(np.concatenate([[True], (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])]))


def _is_same(prediction: Prediction, name: str, program: Program) -> bool:
    """Whether another schedule is the one that there is, which then only needs its new cut."""
    other = prediction.program
    return other is not None and other.stages == program.stages and prediction.text.split(",")[0] == name


def _changes(planner: Planner, measured: Measured, found: Attribution, cut: IntArray, known: bool) -> list[Prediction]:
    """A new cut, other schedules, and the bound. What a step has beside the model of costs stays as it is."""
    program = measured.first_step()
    now_s = planner.evaluator(program)(cut)
    beside_s = found.step_s - now_s
    name = recognise(program)
    # That what comes back is waited for is not in the planner's model.
    changes = [planner.repartition(program, cut)] if known and not measured.goes_back else []
    if forward_only(program):  # in which any order is the same, and nothing is kept for backwards
        changes = [replace(one, peak_activations=float("nan")) for one in changes]
    else:
        others = planner.schedules(program.microbatches)
        others = [one for one in others if not known or not _is_same(one, name, program)]
        changes += [one for one in others if one.step_s < now_s]
    bound = planner.bound_s(program.microbatches)
    changes = [replace(one, step_s=one.step_s + beside_s) for one in changes]
    if name:
        changes += more_microbatches(planner, BY_NAME[name], cut, program.microbatches, beside_s=beside_s)
    return [*changes, Prediction("bound", BOUND[known], bound, float("nan"))]
