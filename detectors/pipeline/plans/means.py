"""What engines can express of a plan, in their own words: each its best plan within its means."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.diagnosis.engine_flags import megatron_layout
from scalana.detectors.pipeline.model.actions import OrderError
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.partition import descend, smallest_maximum
from scalana.detectors.pipeline.model.schedules import BY_NAME, stage_placement
from scalana.detectors.pipeline.model.simulate import Deadlock
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.plan import Plan, evaluator, make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError, blocks_of, join_ends, uniform_cut
from scalana.detectors.pipeline.plans.search import Effort, search
from scalana.detectors.pipeline.plans.seeds import even_loads, seeds
from scalana.detectors.thresholds.limits import ORDERS_REPLAYED
from scalana.graphs.arrays.types import IntArray

QUICK = Effort()
"""No limit but :data:`ORDERS_REPLAYED`."""


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
            cut, seconds = min((descend(one, step_s, ORDERS_REPLAYED) for one in starts), key=lambda one: one[1])
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
    has = ENGINES[engine].schedules
    for count, name in ((chunks, "Interleaved1F1B"), (1, "1F1B")):
        if has and name not in has:
            continue
        try:
            cut = uniform_cut(profile, profile.ranks * count)
        except ProfileError:
            continue
        found = fixed_order(profile.within(None), name, count, engine, cut)
        if found is not None:
            return replace(found, text=f"uniform {found.text}")
    return None


def present_plan(profile: LayerProfile, engine: str) -> Plan | None:
    """What runs now, where that is known and one of the engine's schedules; otherwise the uniform plan."""
    now, has = profile.now, ENGINES[engine].schedules
    if now is not None and now.schedule in BY_NAME and (not has or now.schedule in has):
        stages = Stages.of_layers(np.array(now.rank_of_layer, np.int64))
        known = BY_NAME[now.schedule]
        placed = stages.count % profile.ranks == 0
        if placed and stages.rank.tolist() == stage_placement(
            known.placement, profile.ranks, stages.count // profile.ranks
        ):
            chunks = stages.count // profile.ranks
            found = fixed_order(profile.within(None), now.schedule, chunks, engine, stages.cut)
            if found is not None:
                return found
    return uniform_plan(profile, engine)


TITAN_ORDER = "torchtitan.csv"
"""The name of the file with torchtitan's order."""


def torchtitan(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut and order, but the same number of stages on all ranks, in a loop or (two a rank) a V."""
    can = "any cut and order; stages in a loop or a V"
    deep = [name for name in profile.names if name.count(".") > 1]
    if deep:
        return Means(
            "torchtitan",
            can,
            None,
            (f"{deep[0]} is nested too deeply: only children of a model and its lists can be split",),
        )
    if len(set(profile.names)) < profile.layers:
        return Means("torchtitan", can, None, ("layers need different names, and some have the same",))
    ring = seeds(profile, (2, 3, 4))
    begin = [one for one in ring if one.count == 2 * profile.ranks or _in_loop(one, profile.ranks)]
    if not begin:
        return Means("torchtitan", can, None, ("too few layers: a custom order needs two stages per rank",))
    try:
        plan, _ = search(profile, ENGINES["torch"], effort, tuple(begin), fixed=True)
    except ProfileError as error:
        return Means("torchtitan", can, None, (str(error),))
    return Means("torchtitan", can, plan, torchtitan_settings(profile, plan, TITAN_ORDER), TITAN_ORDER)


def _in_loop(stages: Stages, ranks: int) -> bool:
    return stages.rank.tolist() == stage_placement("loop", ranks, stages.count // ranks)


def torchtitan_settings(profile: LayerProfile, plan: Plan, file: str, schedule: str = "") -> tuple[str, ...]:
    """A section of torchtitan's configuration, with the order in ``file``, or a schedule by name."""
    style = schedule or ("Interleaved1F1B" if _in_loop(plan.stages, profile.ranks) else "ZBVZeroBubble")
    parts = [profile.names[a:b] for a, b in zip(plan.stages.cut[:-1], plan.stages.cut[1:], strict=True)]
    settings = [
        f"# local_batch_size must be {profile.microbatches} times pipeline_parallel_microbatch_size.",
        "[parallelism]",
        f"pipeline_parallel_degree = {profile.ranks}",
        f'pipeline_parallel_schedule = "{style}"' + (file and "  # says where stages go; the order is the file's"),
        *([f'pipeline_parallel_schedule_csv = "{file}"'] if file else []),
        "module_fqns_per_model_part = " + json.dumps([list(part) for part in parts]),
    ]
    return tuple(settings)


def own_settings(engine: str, profile: LayerProfile, plan: Plan) -> tuple[str, ...]:
    """What scalana writes for an engine's best plan, from the plan alone."""
    if engine == "torchtitan":
        return torchtitan_settings(profile, plan, TITAN_ORDER)
    return settings_of(engine, profile, plan, "")


def settings_of(engine: str, profile: LayerProfile, plan: Plan, schedule: str) -> tuple[str, ...]:
    """What an engine, named as on the command line, is told to carry out a plan in the order of a standard schedule;
    nothing for torch's runtime."""
    told = {
        "torchtitan": lambda: torchtitan_settings(profile, plan, "", schedule),
        "megatron": lambda: megatron_settings(profile, plan),
        "deepspeed": lambda: deepspeed_settings(plan),
    }
    return told[engine]() if engine in told else ()


def megatron(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut between blocks, in the order of 1F1B or interleaved 1F1B."""
    can = "any cut; 1F1B or interleaved 1F1B"
    first, end = blocks_of(profile)
    between = [i for i in profile.outside if first <= i < end]
    if between:
        return Means("Megatron", can, None, (f"{profile.names[between[0]]} is not a block but lies between blocks",))
    joined, cut = join_ends(profile)
    each = replace(effort, budget_s=effort.budget_s / 4)
    found = [fixed_order(joined, "1F1B", 1, "megatron", effort=each)]
    if profile.microbatches % profile.ranks == 0:  # as Megatron wants it
        found += [fixed_order(joined, "Interleaved1F1B", chunks, "megatron", effort=each) for chunks in (2, 3, 4)]
    plans = [plan for plan in found if plan is not None]
    if not plans:
        return Means("Megatron", can, None, ("no cut fits into memory, or there are too few layers",))
    best = min(plans, key=lambda one: one.step_s)
    plan = replace(best, stages=Stages(cut[best.stages.cut], best.stages.rank))
    return Means("Megatron", can, plan, megatron_settings(profile, plan))


def megatron_settings(profile: LayerProfile, plan: Plan) -> tuple[str, ...]:
    """Arguments of Megatron."""
    blocks = np.array([i not in profile.outside for i in range(profile.layers)])
    sizes = np.add.reduceat(blocks.astype(int), plan.stages.cut[:-1]).tolist()
    return (
        f"--pipeline-model-parallel-size {profile.ranks}",
        f'--pipeline-model-parallel-layout "{megatron_layout(sizes)}"',
    )


def deepspeed(profile: LayerProfile, effort: Effort) -> Means:
    """Any cut, in the order of 1F1B."""
    can = "any cut; 1F1B"
    plan = fixed_order(profile, "1F1B", 1, "deepspeed", effort=effort)
    if plan is None:
        return Means("DeepSpeed", can, None, ("no cut fits into memory",))
    return Means("DeepSpeed", can, plan, deepspeed_settings(plan))


def deepspeed_settings(plan: Plan) -> tuple[str, ...]:
    """A class in the place of DeepSpeed's own."""
    return (
        "class PlannedModule(PipelineModule):",
        '    def _partition_layers(self, method="uniform"):',
        f"        self.parts = {plan.stages.cut.tolist()}",
        "        stage = self._topo.get_coord(self.global_rank).pipe",
        "        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])",
    )


ENGINES_WITH_MEANS: tuple[Callable[[LayerProfile, Effort], Means], ...] = (torchtitan, megatron, deepspeed)
"""Beside torch's own runtime, which takes any plan."""

SUFFIXES = {"torchtitan": "toml", "Megatron": "args", "DeepSpeed": "py"}
"""Of the files with an engine's settings."""
