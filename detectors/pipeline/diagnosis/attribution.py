"""Why a measured step took so long: shares that add up.

The measured order is replayed with each cause on and off. The value of a cause is its Shapley value: what it adds,
averaged over all orders in which causes can be added, so that the values add up to the difference between the replay
with all of them and that with none. What remains without any cause is computing and the schedule's own fill and drain;
what the replay with all of them misses of the measured time is unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from scalana.detectors.pipeline.diagnosis.causes import Cause, Switches
from scalana.detectors.pipeline.diagnosis.roots import Roots, find_roots
from scalana.detectors.pipeline.measured.replayable import Measured
from scalana.detectors.pipeline.model.simulate import replay
from scalana.detectors.thresholds.differences import DEAD_BAND, TRUSTED_REPLAY
from scalana.graphs.arrays.types import FloatArray

SHARES = (
    "compute",
    "schedule",
    "imbalance",
    "straggler",
    "link",
    "host",
    "data",
    "gradients",
    "optimizer",
    "unexplained",
)
"""The shares of a step, in the order of reports; they add up to 1."""


@dataclass(frozen=True)
class StageLoad:
    """What is known of a stage."""

    stage: int
    rank: int
    forward_s: float
    """Usual seconds of a microbatch, as the following; where some microbatches are split, of an average one."""
    backward_s: float
    """Of B, and of I where the backward is split."""
    weight_s: float
    """Of W; 0 where the backward is not split."""
    load: float
    """What it usually takes for a microbatch over the mean of all stages."""
    root_share: float
    """Its share of the waiting that a balanced pipeline of this order would not have; 0 for all where that is less than
    :data:`DEAD_BAND` of all rank-time."""
    critical_share: float
    """The share of the critical path that is computing of it."""


@dataclass(frozen=True)
class Attribution:
    """Why the measured steps took so long; seconds of a step, averaged over ranks and steps."""

    seconds: dict[str, float]
    """By the names of :data:`SHARES`; they add up to ``step_s``."""
    alone_s: dict[str, float]
    """By cause, what a step would be shorter if only this one were gone; differs from ``seconds`` where causes
    overlap."""
    lengths_s: float
    """How much of `straggler` is because microbatches differ in length on all stages alike."""
    step_s: float
    replay_s: float
    """The replay of what was measured."""
    balanced_s: float
    """A step of the same order without any cause: computing, fill and drain."""
    stages: tuple[StageLoad, ...]
    roots: Roots
    usual_s: FloatArray
    """Usual seconds of an action by kind and stage, 0 where there is none ``[4, stages]``."""

    @property
    def shares(self) -> dict[str, float]:
        """The same as shares of the step: they add up to 1."""
        return {name: seconds / self.step_s for name, seconds in self.seconds.items()}

    @property
    def replay_error(self) -> float:
        """How far the replay is off, relative to what was measured."""
        return (self.replay_s - self.step_s) / self.step_s

    @property
    def trusted(self) -> bool:
        """Whether the replay is near enough to what was measured for advice."""
        return abs(self.replay_error) <= TRUSTED_REPLAY


def shapley(value: Callable[[int], float], players: Sequence[int]) -> dict[int, float]:
    """The Shapley value of every player (a bit); ``value`` is called once for each set of them.

    Exact: 2^n calls. The values add up to ``value`` of all less ``value`` of none (Shapley 1953).
    """
    count = len(players)
    known = np.array([value(sum(1 << players[i] for i in range(count) if mask >> i & 1)) for mask in range(1 << count)])
    masks = np.arange(1 << count)
    size = np.array([int(mask).bit_count() for mask in masks])
    weight = np.array([factorial(s) * factorial(count - s - 1) / factorial(count) for s in range(count)] or [0.0])
    result = {}
    for i, player in enumerate(players):
        without = masks[masks >> i & 1 == 0]
        gained = known[without | 1 << i] - known[without]
        result[player] = float((weight[size[without]] * gained).sum())
    return result


def attribute(measured: Measured) -> Attribution:
    """Shares, roots and loads of measured steps."""
    switches = Switches(measured)
    known: dict[int, float] = {}
    steps = len(measured.steps)

    def step_s(on: int) -> float:
        if on not in known:
            known[on] = replay(measured.operations, switches.setting(on)).makespan_s / steps
        return known[on]

    causes = switches.present()
    everything = sum(1 << cause for cause in causes)
    value = shapley(step_s, causes)
    named = {cause: value.get(cause, 0.0) for cause in Cause}
    compute = float(measured.duration_s.sum()) / measured.program.ranks / steps
    even = float(switches.duration_s(0).sum()) / measured.program.ranks / steps
    uneven = named[Cause.STRAGGLER] + named[Cause.LENGTHS] - (compute - even)
    setting = measured.setting()
    timeline = replay(measured.operations, setting)
    replayed = timeline.makespan_s / steps
    seconds = {
        "compute": compute,
        "schedule": step_s(0) - even,
        "imbalance": named[Cause.IMBALANCE],
        "straggler": uneven,
        "link": named[Cause.LINK],
        "host": named[Cause.HOST],
        "data": named[Cause.DATA],
        "gradients": named[Cause.GRADIENTS],
        "optimizer": named[Cause.OPTIMIZER],
        "unexplained": measured.step_s - step_s(everything),
    }
    roots = find_roots(timeline, setting)
    return Attribution(
        seconds=seconds,
        alone_s={cause.name.lower(): step_s(everything) - step_s(everything & ~(1 << cause)) for cause in causes},
        lengths_s=named[Cause.LENGTHS],
        step_s=measured.step_s,
        replay_s=replayed,
        balanced_s=step_s(0),
        stages=_stage_loads(measured, switches, roots, _more_than_balanced(switches, roots)),
        roots=roots,
        usual_s=switches.parts.usual_s,
    )


def _more_than_balanced(switches: Switches, roots: Roots) -> FloatArray:
    """The share of each stage in the waiting that is more than in a balanced pipeline ``[stages]``.

    Fill and drain are rooted in all stages; what is left when those are taken off points to the stage that is
    different.
    """
    operations = switches.measured.operations
    setting = switches.setting(0)
    balanced = find_roots(replay(operations, setting), setting)
    more = np.maximum(roots.waiting_s.sum(axis=0) - balanced.waiting_s.sum(axis=0), 0.0)
    total = float(more.sum())
    rank_time = switches.measured.total_s * switches.measured.program.ranks
    return more[:-3] / total if total > DEAD_BAND * rank_time else np.zeros(len(more) - 3)


def _stage_loads(measured: Measured, switches: Switches, roots: Roots, share: FloatArray) -> tuple[StageLoad, ...]:
    program, parts = measured.program, switches.parts
    rank = program.rank_of_stage
    taken = np.zeros((4, program.stages))
    np.add.at(taken, (program.kind, program.stage), parts.usual_s[program.kind, program.stage])
    forward, whole, inputs, weights = taken / program.microbatches
    work = np.zeros(program.stages)
    np.add.at(work, program.stage, parts.usual_s[program.kind, program.stage])
    load = work / work.mean()
    critical = roots.critical_share()
    return tuple(
        StageLoad(
            stage=s,
            rank=int(rank[s]),
            forward_s=float(forward[s]),
            backward_s=float(whole[s] + inputs[s]),
            weight_s=float(weights[s]),
            load=float(load[s]),
            root_share=float(share[s]),
            critical_share=float(critical[s]),
        )
        for s in range(program.stages)
    )
