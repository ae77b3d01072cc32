"""A plan: who holds which layers, what every rank does in which order, and what that would bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind, Program, peak_activations, spread_costs
from scalana.detectors.pipeline.model.engines import Engine, variant
from scalana.detectors.pipeline.model.lowering import Operations, lower
from scalana.detectors.pipeline.model.simulate import Links, Setting, Timeline, replay
from scalana.detectors.pipeline.plans.assignment import StageCosts, Stages, stage_costs_of
from scalana.detectors.pipeline.plans.profile import LayerProfile
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True)
class Plan:
    """A plan, replayed as an engine would carry it out."""

    stages: Stages
    program: Program
    step_s: float
    """Predicted seconds of a step."""
    memory: FloatArray
    """Predicted memory of each rank, static and activations, in the unit of the profile ``[ranks]``."""
    bubble: float
    """Idle rank-time over all rank-time of the step."""
    text: str
    """Where it comes from, short."""

    @property
    def peak(self) -> float:
        """Memory of the rank that needs most."""
        return float(self.memory.max())

    @property
    def splits(self) -> bool:
        """Whether a backward is split."""
        return bool((self.program.kind == Kind.W).any())


class _Timing:
    """What a replay takes beside the operations, for any cut."""

    def __init__(self, profile: LayerProfile, operations: Operations) -> None:
        program = operations.program
        self.profile, self.operations = profile, operations
        stage = program.stage[operations.sender]
        forward = program.kind[operations.sender] == Kind.F
        self.border = np.where(forward, stage + 1, stage)
        source, target = program.rank[operations.sender], program.rank[operations.receiver]
        self.latency_s = profile.latency_s[source, target]

    def setting(self, cut: IntArray, costs: StageCosts) -> Setting:
        """Durations, links and the host, where the layers are cut like this."""
        operations, profile = self.operations, self.profile
        travel = profile.output[cut[self.border] - 1] / profile.bytes_per_s
        durations = spread_costs(operations.program, costs.seconds)
        setting = Setting.plain(operations, durations, Links(self.latency_s + travel, travel))
        setting.lead_s[operations.enter] = profile.host_s
        return setting


def replay_plan(profile: LayerProfile, stages: Stages, program: Program, engine: Engine) -> tuple[StageCosts, Timeline]:
    """How an engine would carry out a program with these stages.

    Raises:
        Deadlock: where its ranks wait for each other.
    """
    engine = variant(engine, program)
    costs = stage_costs_of(profile, stages, engine, host=False)
    operations = lower(program, engine)
    return costs, replay(operations, _Timing(profile, operations).setting(stages.cut, costs))


def make_plan(profile: LayerProfile, stages: Stages, program: Program, engine: Engine, text: str) -> Plan:
    """A plan from an order for these stages.

    Raises:
        Deadlock: where its ranks wait for each other.
    """
    costs, timeline = replay_plan(profile, stages, program, engine)
    memory = costs.static + peak_activations(program, costs.activation)
    return Plan(stages, program, timeline.makespan_s, memory, timeline.bubble_share(), text)


def evaluator(profile: LayerProfile, program: Program, engine: Engine) -> Callable[[IntArray], float]:
    """Step time of one order as a function of the cut; infinity where it does not fit into memory."""
    engine = variant(engine, program)
    operations = lower(program, engine)
    timing = _Timing(profile, operations)

    def step_s(cut: IntArray) -> float:
        costs = stage_costs_of(profile, Stages(cut, program.rank_of_stage), engine, host=False)
        if profile.capacity is not None:
            memory = costs.static + peak_activations(program, costs.activation)
            if (memory > profile.capacity * (1 + 1e-9)).any():
                return float("inf")
        return replay(operations, timing.setting(cut, costs)).makespan_s

    return step_s
