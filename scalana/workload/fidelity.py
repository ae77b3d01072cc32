"""How well a replay, and a workload that is drawn, stand for recorded steps: fitted to some, compared with others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.costs import Decode
from scalana.workload.draw import Draw, draw
from scalana.workload.errors import WorkloadError
from scalana.workload.profile import profile_of
from scalana.workload.replay import Setting, replay
from scalana.workload.step_costs import StepCosts, fit_decode, fit_steps
from scalana.workload.trajectories import StepTimes, Workload

MINOR = 0.02
"""Part of a step up to which a phase is too short to compare."""
INTERVAL = 0.9
"""Of the draws."""


def accuracy(replayed: FloatArray, recorded: FloatArray) -> float:
    """One minus the mean relative error."""
    return 1.0 - float(np.mean(np.abs(replayed - recorded) / np.maximum(recorded, 1e-12)))


@dataclass(frozen=True, slots=True)
class Replayability:
    """Steps replayed with their own lengths, compared with what they took."""

    fitted: IntArray
    """Steps that costs were fitted to."""
    tested: IntArray
    """Steps that were replayed: others, where there are enough."""
    recorded_s: FloatArray
    """Length of each tested step ``[tested]``."""
    replayed_s: FloatArray
    """``[tested]``"""
    phases: Mapping[str, float]
    """Accuracy of each phase that takes more than :data:`MINOR` of the steps, by name."""

    @property
    def steps(self) -> float:
        """Accuracy of the length of a step, on average."""
        return accuracy(self.replayed_s, self.recorded_s)

    @property
    def total(self) -> float:
        """Accuracy of the length of all together."""
        return accuracy(self.replayed_s.sum(keepdims=True), self.recorded_s.sum(keepdims=True))

    @property
    def is_tested(self) -> bool:
        """Whether the tested steps are others than those of the fit."""
        return not np.isin(self.tested, self.fitted).any()


@dataclass(frozen=True, slots=True)
class Generative:
    """Steps drawn from a profile of some steps, compared with other steps."""

    real_s: float
    """What the tested steps take: recorded, or replayed with their own lengths where no times were recorded."""
    drawn_s: FloatArray
    """The same of each draw ``[draws]``."""
    recorded: bool
    """Whether :attr:`real_s` is recorded."""

    @property
    def interval_s(self) -> tuple[float, float]:
        """In which :data:`INTERVAL` of the draws lie."""
        low, high = np.quantile(self.drawn_s, ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2))
        return float(low), float(high)

    @property
    def accuracy(self) -> float:
        """Of the mean of the draws."""
        return accuracy(np.array([self.drawn_s.mean()]), np.array([self.real_s]))


def halves(steps: int) -> tuple[IntArray, IntArray]:
    """Steps to fit, and steps to test: the first half and the others; all for both where there are fewer than four."""
    if steps < 4:
        return np.arange(steps), np.arange(steps)
    return np.arange(steps // 2), np.arange(steps // 2, steps)


def replayability(workload: Workload) -> Replayability:
    """Replay recorded steps on the replicas that they were recorded on, with costs that other steps were fitted to.

    Raises:
        WorkloadError: what steps took, or when trajectories began and ended, is not known.
    """
    if workload.times is None:
        raise WorkloadError(f"{workload.source}: does not say what its steps took, so nothing to compare a replay with")
    fit, test = halves(workload.steps)
    decode, costs = _fitted(workload.chosen(fit))
    tested = workload.chosen(test)
    assert tested.times is not None
    replayed = replay(tested, as_recorded(tested, decode, costs))
    return Replayability(fit, test, tested.times.wall_s, replayed.step_s, phase_accuracy(tested.times, replayed.phases))


def as_recorded(workload: Workload, decode: Decode, costs: StepCosts | None) -> Setting:
    """How to replay recorded steps: on the replicas that they were recorded on; from one queue, where steps did not
    await their trajectories."""
    assert workload.times is not None
    if workload.runs_on:
        replicas = workload.generating
        return Setting("async", len(replicas), decode.of(replicas), costs, staleness=workload.steps)
    return Setting("recorded", workload.times.ranks, decode, costs)


def phase_accuracy(times: StepTimes, replayed: Mapping[str, FloatArray]) -> dict[str, float]:
    """Accuracy of each phase that is not minor: of the longest that a process spends in it, in all steps."""
    found = {}
    for name, seconds in times.phases.items():
        longest = seconds.max(axis=0)
        if name in replayed and longest.sum() > MINOR * times.wall_s.sum():
            found[name] = accuracy(replayed[name].sum(keepdims=True), longest.sum(keepdims=True))
    return found


def _fitted(workload: Workload) -> tuple[Decode, StepCosts | None]:
    decode = fit_decode(workload)
    if decode is None:
        raise WorkloadError(
            f"{workload.source}: does not say when and where trajectories were generated, which costs are fitted to"
        )
    return decode, fit_steps(workload)


def generative(workload: Workload, setting: Setting, draws: int, seed: int = 0) -> Generative:
    """Draw steps like those of the first half, as many as the second half has, and compare with these.

    Args:
        workload: at least four steps.
        setting: costs and replicas; where times were recorded, costs are fitted to the first half instead.
        draws: how many.
        seed: of the first draw; those that follow have the next ones.
    """
    fit, test = halves(workload.steps)
    known, tested = workload.chosen(fit), workload.chosen(test)
    profile, like = profile_of(known), profile_of(tested)
    if workload.times is not None:
        decode, costs = _fitted(known)
        setting = replace(setting, decode=decode, steps=costs, policy="batch", replicas=len(np.unique(known.replica)))
    pairs = np.unique(np.stack((tested.step, tested.prompts())), axis=1)
    prompts = np.bincount(pairs[0], minlength=len(test))
    asked = Draw(len(test), int(prompts.max()), like.answers)
    drawn = []
    for number in range(draws):
        whole = draw(profile, replace(asked, seed=seed + number))
        part = whole.rows(np.flatnonzero(whole.group < prompts[whole.step]))
        drawn.append(replay(part, setting).total_s)
    if tested.times is not None:
        return Generative(float(tested.times.wall_s.sum()), np.array(drawn), True)
    return Generative(replay(tested, setting).total_s, np.array(drawn), False)
