"""What a change of a pipeline would bring: step time and memory of each, by replay.

A saving is what a possible change attains, never what vanishes if work disappeared: work of a slow stage has to go
somewhere, a better schedule still has to be filled and drained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.advice import CHANGES
from scalana.detectors.pipeline.diagnosis.causes import EVERYTHING, Cause, Switches
from scalana.detectors.pipeline.model.actions import Kind, OrderError, Program, peak_activations, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES, Engine, variant
from scalana.detectors.pipeline.model.lowering import lower
from scalana.detectors.pipeline.model.partition import cuts, descend, even_cut, every_cut, smallest_maximum, stage_costs
from scalana.detectors.pipeline.model.schedules import SCHEDULES, Schedule
from scalana.detectors.pipeline.model.simulate import Deadlock, Links, Setting, replay
from scalana.detectors.thresholds.limits import CUTS_REPLAYED
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True)
class Model:
    """What is to be run: costs of layers, and what lies between the ranks."""

    layer_costs: FloatArray
    """Seconds of a microbatch by kind and layer: F, B, I, W ``[4, layers]``; B is what the whole backward takes."""
    ranks: int
    latency_s: FloatArray
    """From source to destination rank ``[ranks, ranks]``."""
    host_s: float = 0.0
    """What the host does before every action."""
    names: tuple[str, ...] = ()
    """Of the layers, for messages; may be empty."""

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return self.layer_costs.shape[1]


@dataclass(frozen=True)
class Prediction:
    """A change and what it brings."""

    change: str
    """What kind: `repartition`, `schedule`, `plan`, `microbatches`, `no-straggler`, `equal-lengths`, `zero-latency`,
    `bound`."""
    text: str
    """What to do, short: `5/5/5/1`, `Interleaved1F1B, 2 chunks` ..."""
    step_s: float
    """Predicted seconds of a step."""
    peak_activations: float
    """The most that a rank holds, in microbatches times layers (stages, where layers are not known)."""
    cut: tuple[int, ...] = ()
    """The first layer of every stage, and the number of layers, where layers are cut anew."""
    program: Program | None = None
    """The order of the change, where it has one."""
    file: str = ""
    """Where the order lies in the run folder; "" for nowhere."""


def split_backward(costs: FloatArray, ratio: float = 0.5) -> FloatArray:
    """Costs with I and W filled in where only B was measured, and the other way round ``[4, ...]``.

    ``ratio`` is the part of B that I takes: half of it where nothing better is known (both are one product of
    matrices).
    """
    filled = costs.copy()
    whole, halves = costs[Kind.B], costs[Kind.I] + costs[Kind.W]
    filled[Kind.B] = np.where(whole > 0, whole, halves)
    unknown = halves <= 0
    filled[Kind.I] = np.where(unknown, filled[Kind.B] * ratio, costs[Kind.I])
    filled[Kind.W] = np.where(unknown, filled[Kind.B] * (1 - ratio), costs[Kind.W])
    return filled


def engine_costs(program: Program, costs: FloatArray, engine: Engine) -> FloatArray:
    """Costs as an engine spends them: where stage 0 has an empty I, its W takes all ``[4, stages]``."""
    if not engine.split_first:
        return costs
    moved = costs.copy()
    moved[Kind.W, 0] += moved[Kind.I, 0]
    moved[Kind.I, 0] = 0.0
    return moved


class Planner:
    """Predicts steps of one model, and keeps what it has lowered."""

    def __init__(self, model: Model, engine: Engine = ENGINES["ideal"]) -> None:
        self.model, self.engine = model, engine
        self.costs = split_backward(model.layer_costs)

    def evaluator(self, program: Program) -> Callable[[IntArray], float]:
        """Step time of a program as a function of the cut, on the engine's variant for it."""
        engine = variant(self.engine, program)
        operations = lower(program, engine)
        try:
            replay(operations, Setting.plain(operations, np.zeros(program.size)))
        except Deadlock:  # as when it was read
            operations = lower(program)
        links = Links.by_ranks(operations, self.model.latency_s)
        plain = Setting.plain(operations, np.zeros(program.size), links)
        plain.lead_s[operations.enter] = self.model.host_s

        def step_s(cut: IntArray) -> float:
            costs = engine_costs(program, stage_costs(self.costs, cut), engine)
            setting = replace(plain, duration_s=spread_costs(program, costs))
            return replay(operations, setting).makespan_s

        return step_s

    def best_cut(
        self, program: Program, start: IntArray | None = None, most_held: float = np.inf
    ) -> tuple[IntArray, float]:
        """The cut of the layers that is fastest in this order, and its step time; infinity if none holds the limit.

        All cuts are replayed where there are few. Otherwise the search goes down from the cut with the smallest maximum
        (which is the best one but for fill and drain), from the even one and from ``start``; it may miss a better one.
        ``most_held`` limits what a rank holds, in microbatches times layers.
        """
        stages, layers = program.stages, self.model.layers
        replayed_s = self.evaluator(program)

        def step_s(cut: IntArray) -> float:
            return replayed_s(cut) if most_held == np.inf or held(program, cut) <= most_held else np.inf

        if cuts(layers, stages) <= CUTS_REPLAYED:
            found = [(step_s(cut), index, cut) for index, cut in enumerate(every_cut(layers, stages))]
            least, _, best = min(found, key=lambda one: one[:2])
            return best, least
        total = self.costs[Kind.F] + self.costs[Kind.B]
        starts = [even_cut(layers, stages), smallest_maximum(total, stages)[0]] + ([] if start is None else [start])
        return min((descend(one, step_s) for one in starts), key=lambda one: one[1])

    def repartition(self, program: Program, start: IntArray | None = None) -> Prediction:
        """The same order with the layers cut anew."""
        cut, seconds = self.best_cut(program, start)
        return self._prediction("repartition", cut_text(cut), program, cut, seconds)

    def schedule(
        self,
        schedule: Schedule,
        microbatches: int,
        chunks: int = 2,
        cut: IntArray | None = None,
        most_held: float = np.inf,
    ) -> Prediction:
        """Another standard schedule, with the layers cut as given, or as is best for it.

        Raises:
            OrderError: where the schedule cannot be run with these numbers, with these layers, or with this memory.
        """
        program = schedule.program(self.model.ranks, microbatches, chunks)
        if self.model.layers < program.stages:
            raise OrderError(f"{self.model.layers} layers are too few for {program.stages} stages")
        if cut is None or len(cut) != program.stages + 1:
            cut, seconds = self.best_cut(program, most_held=most_held)
        else:
            seconds = self.evaluator(program)(cut)
        if seconds == np.inf or held(program, cut) > most_held:
            raise OrderError(f"{schedule.name} needs more than {most_held:g} layers times microbatches on a rank")
        text = schedule.name if schedule.chunks else f"{schedule.name}, {chunks} chunks"
        layers = f", {cut_text(cut)}" if self.model.layers > program.stages else ""
        return self._prediction("schedule", text + layers, program, cut, seconds)

    def schedules(
        self, microbatches: int, chunks: tuple[int, ...] = (2,), most_held: float = np.inf
    ) -> list[Prediction]:
        """All standard schedules that the engine has and that can be run, the fastest first."""
        found = []
        for schedule in SCHEDULES:
            if self.engine.schedules and schedule.name not in self.engine.schedules:
                continue
            for count in (schedule.chunks,) if schedule.chunks else chunks:
                try:
                    found.append(self.schedule(schedule, microbatches, count, most_held=most_held))
                except (OrderError, Deadlock):
                    continue
        return sorted(found, key=lambda one: one.step_s)

    def bound_s(self, microbatches: int) -> float:
        """No cut, placement or order on these ranks is faster, as long as layers are not split; messages take no time.

        The largest of three: the mean of all work; one microbatch there and back; and all work of one layer after the
        first microbatch has come to it, or its forwards and input gradients and the way back from it.
        """
        forward, back, weight = self.costs[Kind.F], self.costs[Kind.I], self.costs[Kind.W]
        work = forward + np.minimum(self.costs[Kind.B], back + weight)
        share = float(work.sum()) / self.model.ranks * microbatches
        before, before_back = np.cumsum(forward) - forward, np.cumsum(back) - back
        wall = before + np.maximum(work * microbatches, (forward + back) * microbatches + before_back)
        return max(share, float((forward + back).sum()), float(wall.max()))

    def wall(self) -> int | None:
        """The layer that alone costs more than the mean of a rank, so that no cut can balance; None if there is
        none."""
        work = self.costs[Kind.F] + self.costs[Kind.B]
        heaviest = int(work.argmax())
        return heaviest if work[heaviest] > work.sum() / self.model.ranks else None

    def _prediction(self, change: str, text: str, program: Program, cut: IntArray, step_s: float) -> Prediction:
        return Prediction(change, text, step_s, held(program, cut), tuple(int(x) for x in cut), program)


def cut_text(cut: IntArray) -> str:
    """`4/4/4/4`: layers of the stages."""
    return "/".join(str(size) for size in np.diff(cut))


def held(program: Program, cut: IntArray) -> float:
    """The most that a rank holds, in microbatches times layers."""
    return float(peak_activations(program, np.diff(cut).astype(float)).max())


def without_causes(switches: Switches) -> list[Prediction]:
    """The measured order with one cause gone; seconds of a step on average."""
    measured = switches.measured
    steps = len(measured.steps)
    peak = float(peak_activations(measured.first_step()).max())
    changes = (
        ("no-straggler", Cause.STRAGGLER),
        ("equal-lengths", Cause.LENGTHS),
        ("zero-latency", Cause.LINK),
        ("no-host-gaps", Cause.HOST),
        ("equal-load", Cause.IMBALANCE),
    )
    found = []
    for change, cause in changes:
        if cause in switches.present():
            setting = switches.setting(EVERYTHING & ~(1 << cause))
            step_s = replay(measured.operations, setting).makespan_s / steps
            found.append(Prediction(change, CHANGES[change], step_s, peak))
    return found


def more_microbatches(
    planner: Planner, schedule: Schedule, cut: IntArray, now: int, times: tuple[int, ...] = (2,), beside_s: float = 0.0
) -> list[Prediction]:
    """So many times the microbatches of now, of the same size: batches that are so many times as large.

    ``step_s`` is that of as many microbatches as there are now, for comparison; ``beside_s`` is what a step has once,
    however many microbatches there are.
    """
    chunks = (len(cut) - 1) // planner.model.ranks
    found = []
    for factor in times:
        try:
            one = planner.schedule(schedule, now * factor, chunks, cut)
        except (OrderError, Deadlock):
            continue
        text = CHANGES["microbatches"].format(more=now * factor, now=now)
        found.append(replace(one, change="microbatches", text=text, step_s=(one.step_s + beside_s) / factor))
    return found


def avoidable_by_schedule(
    planner: Planner, program: Program, cut: IntArray, chunks: tuple[int, ...] = (2,)
) -> tuple[float, Prediction | None]:
    """What the best standard schedule saves of a step at no more memory, beyond the best cut for the order as it is.

    Seconds, and that schedule; 0 and None if none does.
    """
    memory = held(program, cut)
    here = min(planner.evaluator(program)(cut), planner.best_cut(program, cut, memory)[1])
    best = planner.schedules(program.microbatches, chunks, memory)
    return (here - best[0].step_s, best[0]) if best and best[0].step_s < here else (0.0, None)
