"""Which rank, stage or link is behind a cause of lost time, and what mending it alone brings.

A cause that all ranks share alike has no culprit: blaming all of them tells nobody what to change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import PipelineTime
from scalana.detectors.pipeline.advice import A_LAYER, SOME_MICROBATCHES
from scalana.detectors.pipeline.diagnosis.attribution import Attribution
from scalana.detectors.pipeline.diagnosis.causes import EVERYTHING, Switches
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis
from scalana.detectors.pipeline.measured.replayable import Measured
from scalana.detectors.pipeline.model.simulate import Setting, replay
from scalana.detectors.thresholds.factors import FAR_MORE, HELD_UP
from scalana.detectors.thresholds.shares import MAJORITY, WORTH_IF_ONCE
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Culprit:
    """Who or what is behind a cause."""

    cause: str
    """Its name among the shares of a step."""
    ranks: tuple[int, ...]
    """Numbered from 0 within the pipeline."""
    stages: tuple[int, ...]
    """Whose work it is, the worst first; none for links, the host and data."""
    lost_s: float
    """Share of a step, seconds."""
    saving_s: float
    """What mending it alone brings, seconds of a step."""
    evidence: PipelineTime = PipelineTime()
    actions: BoolArray | None = None
    """Those that are longer than usual ``[actions]``; None where all are alike."""
    by_step: FloatArray | None = None
    """What its ranks do more than usual, or than others, in each step, seconds ``[steps]``."""


def find_culprits(diagnosis: Diagnosis) -> list[Culprit]:
    """One for every cause that is worth it and has one, the largest first."""
    measured, found = diagnosis.measured, diagnosis.attribution
    if not found.trusted:
        return []
    looks = (
        ("imbalance", _imbalance),
        ("straggler", _straggler),
        ("link", _link),
        ("host", _host),
        ("data", _data),
    )
    look = _Look(measured, Switches(measured), found, diagnosis)
    culprits = [find(look) for name, find in looks if found.shares[name] >= WORTH_IF_ONCE]
    return sorted((c for c in culprits if c is not None), key=lambda c: -c.lost_s)


class _Look:
    """What all of them need."""

    def __init__(self, measured: Measured, switches: Switches, found: Attribution, diagnosis: Diagnosis) -> None:
        self.measured, self.switches, self.found, self.diagnosis = measured, switches, found, diagnosis
        self.all_on = switches.setting(EVERYTHING)
        self.now_s = self.step_s(self.all_on)
        starts = np.ones(measured.program.size, bool)
        rank, step = measured.program.rank, measured.step
        starts[1:] = (rank[1:] != rank[:-1]) | (step[1:] != step[:-1])
        self.inner = np.ones(measured.operations.size, bool)
        self.inner[measured.operations.enter[starts]] = False

    def step_s(self, setting: Setting) -> float:
        return replay(self.measured.operations, setting).makespan_s / len(self.measured.steps)

    def saving_s(self, **changes: object) -> float:
        """Seconds of a step that a changed setting saves."""
        return max(self.now_s - self.step_s(replace(self.all_on, **changes)), 0.0)  # type: ignore[arg-type]

    @property
    def rank_of_operation(self) -> IntArray:
        return np.repeat(np.arange(self.measured.program.ranks), np.diff(self.measured.operations.first))


def _worst(amount: FloatArray) -> list[int]:
    """Those with a notable part, worst first; none where most have."""
    chosen = [int(k) for k in np.argsort(-amount, kind="stable") if amount[k] >= MAJORITY * amount.max() > 0]
    return chosen if 2 * len(chosen) <= len(amount) else []


def _imbalance(look: _Look) -> Culprit | None:
    found, program = look.found, look.measured.program
    load = 1 / look.switches.even  # times what the stage would have without imbalance
    rank = program.rank_of_stage
    heavy = [int(s) for s in np.argsort(-load, kind="stable") if load[s] >= 1 + MAJORITY * (load.max() - 1)]
    ranks = list(dict.fromkeys(int(rank[s]) for s in heavy))
    work = {s.stage: s.forward_s + s.backward_s + s.weight_s for s in found.stages if s.stage in heavy}
    mean = float(np.mean([s.forward_s + s.backward_s + s.weight_s for s in found.stages]))
    stages = sorted((s for s in work if work[s] >= mean), key=lambda s: -work[s]) or [max(work, key=lambda s: work[s])]
    cures = {one.change: one for one in look.diagnosis.predictions}
    cure = cures.get("repartition")
    evidence = PipelineTime(load=float(load.max()), mean_s=float(mean), stage_s=work[stages[0]])
    if cure is None:
        saving = look.now_s - cures["equal-load"].step_s
        evidence = replace(evidence, at_most=True)
    else:
        saving = found.step_s - cure.step_s
        if saving < WORTH_IF_ONCE * found.step_s / 2:
            saving = 0.0
            evidence = replace(evidence, wall=look.diagnosis.wall or A_LAYER)
        else:
            evidence = replace(evidence, split=cure.text)
    by_step = _more_than_others(look.measured, ranks)
    lost_s = found.seconds["imbalance"]
    return Culprit("imbalance", tuple(ranks), tuple(stages), lost_s, max(saving, 0.0), evidence, by_step=by_step)


def _more_than_others(measured: Measured, ranks: list[int]) -> FloatArray:
    """What some ranks compute more than others in each step, on average ``[steps]``."""
    shape = len(measured.steps), measured.program.ranks
    work_s = weighted_count(
        measured.step * shape[1] + measured.program.rank, measured.duration_s, shape[0] * shape[1]
    ).reshape(shape)
    others = np.delete(work_s, ranks, axis=1)
    return np.maximum(work_s[:, ranks].mean(axis=1) - (others.mean(axis=1) if others.size else 0.0), 0.0)


def _straggler(look: _Look) -> Culprit | None:
    measured, parts = look.measured, look.switches.parts
    program = measured.program
    usual = measured.duration_s / parts.rest
    over = np.where(parts.rest > HELD_UP, measured.duration_s - usual, 0.0)
    ranks = _worst(weighted_count(program.rank, over, program.ranks))
    if not ranks:
        return None
    here = np.isin(program.rank, ranks)
    stage = weighted_count(program.stage[here], over[here], program.stages)
    stages = [int(s) for s in np.argsort(-stage, kind="stable") if stage[s] >= MAJORITY * stage.max()]
    long = here & (over > 0)
    offset = np.concatenate([[0], np.cumsum(measured.microbatches)[:-1]])
    index = program.microbatch - offset[measured.step]
    which = np.unique(index[long])
    times = np.array([len(np.unique(measured.step[long & (index == m)])) for m in which])
    usually = which[2 * times > len(measured.steps)].tolist()
    evidence = PipelineTime(
        microbatches=usually,
        which=_which(usually, int(np.median(measured.microbatches))),
        times=float(np.median(parts.rest[long])),
        long_s=float(np.median(measured.duration_s[long])),
        usual_s=float(np.median(usual[long])),
    )
    saving = look.saving_s(duration_s=np.where(long, usual, measured.duration_s))
    if saving < WORTH_IF_ONCE * look.now_s:  # most of it is that microbatches differ in length on all stages
        return None
    by_step = weighted_count(measured.step[long], over[long], len(measured.steps))
    lost_s = look.found.seconds["straggler"]
    return Culprit("straggler", tuple(ranks), tuple(stages), lost_s, saving, evidence, long, by_step)


def _which(microbatches: list[int], count: int) -> str:
    """In words, which microbatches of a step are meant."""
    if not microbatches:
        return SOME_MICROBATCHES
    every = range(microbatches[0], count, microbatches[1] - microbatches[0]) if len(microbatches) > 1 else None
    if every is not None and list(every) == microbatches and every.step > 1:
        ordinals = {2: "second", 3: "third", 4: "fourth"}
        return f"every {ordinals.get(every.step, f'{every.step}th')} microbatch"
    return ("microbatch " if len(microbatches) == 1 else "microbatches ") + ", ".join(map(str, microbatches))


def _link(look: _Look) -> Culprit | None:
    """Links that are usually slow: a message that was late once is nothing that a link could be mended for."""
    measured = look.measured
    operations, latency = measured.operations, measured.links.latency_s
    ranks = measured.program.ranks
    numbers = np.unique(operations.link)
    usual = np.array([np.median(latency[operations.link == number]) for number in numbers])
    slow = [k for k in range(len(usual)) if len(usual) > 1 and usual[k] >= FAR_MORE * np.median(np.delete(usual, k))]
    slow = [k for k in slow if usual[k] >= MAJORITY * usual.max()]
    slow = slow if 2 * len(slow) <= len(usual) else []
    here = np.isin(operations.link, numbers[slow] if slow else numbers)
    others = float(np.median(latency[~here])) if slow else 0.0
    excess = np.maximum(usual - others, 0.0)[np.searchsorted(numbers, operations.link)]
    mended = np.where(here, np.maximum(latency - excess, 0.0), latency)
    saving = look.saving_s(links=replace(measured.links, latency_s=mended))
    if saving < WORTH_IF_ONCE * look.now_s:
        return None
    if not slow:
        evidence = PipelineTime(latency_s=float(np.median(latency)))
        return Culprit("link", tuple(range(ranks)), (), look.found.seconds["link"], saving, evidence)
    slow.sort(key=lambda k: -usual[k])
    pairs = [(int(numbers[k]) // ranks, int(numbers[k]) % ranks) for k in slow]
    links = [list(pair) for pair in pairs]
    evidence = PipelineTime(latency_s=float(usual[slow[0]]), others_s=others, links=links)
    together = tuple(dict.fromkeys(rank for pair in pairs for rank in pair))
    return Culprit("link", together, (), look.found.seconds["link"], saving, evidence)


def _host(look: _Look) -> Culprit | None:
    """Host time inside the steps; what ranks do between them is no matter of the pipeline."""
    measured = look.measured
    seconds = np.where(look.inner, measured.host_s, 0.0)
    of_rank = weighted_count(look.rank_of_operation, seconds, measured.program.ranks)
    ranks = _worst(of_rank)
    if not ranks:
        return None
    gone = np.where(np.isin(look.rank_of_operation, ranks), seconds, 0.0)
    saving = look.saving_s(lead_s=look.all_on.lead_s - gone)
    if saving < WORTH_IF_ONCE * look.now_s:
        return None
    steps = len(measured.steps)
    evidence = PipelineTime(host_s=float(of_rank[ranks].mean()) / steps)
    return Culprit("host", tuple(ranks), (), look.found.seconds["host"], saving, evidence)


def _data(look: _Look) -> Culprit | None:
    measured = look.measured
    of_rank = weighted_count(look.rank_of_operation, measured.data_s, measured.program.ranks)
    ranks = _worst(of_rank) or list(range(measured.program.ranks))
    gone = np.where(np.isin(look.rank_of_operation, ranks), measured.data_s, 0.0)
    saving = look.saving_s(lead_s=look.all_on.lead_s - gone)
    evidence = PipelineTime(data_s=float(of_rank[ranks].mean()) / len(measured.steps))
    return Culprit("data", tuple(ranks), (), look.found.seconds["data"], saving, evidence)
