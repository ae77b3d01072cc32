"""What engines can express of a plan, in their own words: each its best plan within its means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.actions import OrderError
from scalana.detectors.pipeline.flags import megatron_layout
from scalana.detectors.pipeline.lowering import ENGINES
from scalana.detectors.pipeline.partition import descend, smallest_maximum
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.plan import Plan, evaluator, make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError, uniform_cut
from scalana.detectors.pipeline.plans.search import Effort, search
from scalana.detectors.pipeline.plans.seeds import even_loads, seeds
from scalana.detectors.pipeline.schedules import BY_NAME, stage_placement
from scalana.detectors.pipeline.simulate import Deadlock
from scalana.graphs.arrays.types import IntArray

TRIES = 400
"""Replays of one order with other cuts."""
QUICK = Effort()
"""No limit but :data:`TRIES`."""


@dataclass(frozen=True)
class Means:
    """What an engine makes of these layers."""

    engine: str
    can: str
    """What of a plan it can express, short."""
    plan: Plan | None
    """The best within that; None where there is none."""
    settings: tuple[str, ...]
    """What to type or write, a line each; a reason where there is no plan."""
    file: str = ""
    """The name of the order's file, where it needs one."""


def fixed_order(
    profile: LayerProfile, schedule: str, chunks: int, engine: str, cut: IntArray | None = None, effort: Effort = QUICK
) -> Plan | None:
    """A standard schedule with the best cut that is found for it, or a given one; None where it cannot be run."""
    began_s = effort.clock()
    known = BY_NAME[schedule]
    try:
        program = known.program(profile.ranks, profile.microbatches, chunks)
    except OrderError:
        return None
    if program.stages > profile.layers:
        return None
    rank = np.array(stage_placement(known.placement, profile.ranks, program.stages // profile.ranks), np.int64)
    text = schedule if known.chunks else f"{schedule}, {chunks} chunks"
    try:
        if cut is None:
            replayed_s = evaluator(profile, program, ENGINES[engine])

            def step_s(cut: IntArray) -> float:
                return replayed_s(cut) if effort.clock() - began_s <= effort.budget_s else np.inf

            starts = _starts(profile, rank)
            cut, seconds = min((descend(one, step_s, TRIES) for one in starts), key=lambda one: one[1])
            if seconds == np.inf:  # or there was no time
                cut = min(starts, key=replayed_s)
                if replayed_s(cut) == np.inf:
                    return None
        return make_plan(profile, Stages(cut, rank), program, ENGINES[engine], text)
    except Deadlock:
        return None


def _starts(profile: LayerProfile, rank: IntArray) -> list[IntArray]:
    """Cuts from which a search goes down."""
    cut, _ = smallest_maximum(profile.work_s, len(rank))
    starts = [cut, even_loads(Stages(cut, rank), profile.work_s, profile.ranks).cut]
    try:
        starts.append(uniform_cut(profile, len(rank)))
    except ProfileError:
        pass
    return starts


def uniform_plan(profile: LayerProfile, engine: str = "ideal", chunks: int = 2) -> Plan | None:
    """What most run: interleaved 1F1B with the same number of blocks in every stage; 1F1B where it cannot be run."""
    for count, name in ((chunks, "Interleaved1F1B"), (1, "1F1B")):
        try:
            cut = uniform_cut(profile, profile.ranks * count)
        except ProfileError:
            continue
        found = fixed_order(profile.within(None), name, count, engine, cut)
        if found is not None:
            return replace(found, text=f"uniform {found.text}")
    return None


def torchtitan(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut and order, but the same number of stages on all ranks, in a loop or a V."""
    can = "any cut and order; stages in a loop or a V"
    begin = [one for one in seeds(profile, (2, 3, 4)) if one.count > profile.ranks]
    if not begin:
        return Means("torchtitan", can, None, ("too few layers: it wants two stages a rank for an order of one's own",))
    try:
        plan, _ = search(profile, ENGINES["torch"], effort, tuple(begin), fixed=True)
    except ProfileError as error:
        return Means("torchtitan", can, None, (str(error),))
    loop = stage_placement("loop", profile.ranks, plan.stages.count // profile.ranks)
    style = "Interleaved1F1B" if plan.stages.rank.tolist() == loop else "ZBVZeroBubble"
    parts = [list(profile.names[a:b]) for a, b in zip(plan.stages.cut[:-1], plan.stages.cut[1:], strict=True)]
    file = "torchtitan.csv"
    settings = (
        "[parallelism]",
        f'pipeline_parallel_schedule = "{style}"  # says where stages go; the order is the file\'s',
        f'pipeline_parallel_schedule_csv = "{file}"',
        f"module_fqns_per_model_part = {parts}".replace("'", '"'),
    )
    return Means("torchtitan", can, plan, settings, file)


def megatron(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut, in the order of 1F1B or interleaved 1F1B."""
    can = "any cut; 1F1B or interleaved 1F1B"
    each = replace(effort, budget_s=effort.budget_s / 4)
    found = [fixed_order(profile, "1F1B", 1, "megatron", effort=each)]
    found += [fixed_order(profile, "Interleaved1F1B", chunks, "megatron", effort=each) for chunks in (2, 3, 4)]
    plans = [plan for plan in found if plan is not None]
    if not plans:
        return Means("Megatron", can, None, ("no cut fits into memory, or microbatches are no multiple of ranks",))
    plan = min(plans, key=lambda one: one.step_s)
    blocks = np.array([i not in profile.outside for i in range(profile.layers)])
    sizes = np.add.reduceat(blocks.astype(int), plan.stages.cut[:-1]).tolist()
    settings = (
        f"--pipeline-model-parallel-size {profile.ranks}",
        f'--pipeline-model-parallel-layout "{megatron_layout(sizes)}"',
    )
    return Means("Megatron", can, plan, settings)


def deepspeed(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut, in the order of 1F1B."""
    can = "any cut; 1F1B"
    plan = fixed_order(profile, "1F1B", 1, "deepspeed", effort=effort)
    if plan is None:
        return Means("DeepSpeed", can, None, ("no cut fits into memory",))
    settings = (
        "class PlannedModule(PipelineModule):",
        '    def _partition_layers(self, method="uniform"):',
        f"        self.parts = {plan.stages.cut.tolist()}",
        "        stage = self._topo.get_coord(self.global_rank).pipe",
        "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])",
    )
    return Means("DeepSpeed", can, plan, settings)


ENGINES_WITH_MEANS: tuple[Callable[[LayerProfile, Effort], Means], ...] = (torchtitan, megatron, deepspeed)
"""Beside torch's own runtime, which takes any plan."""
