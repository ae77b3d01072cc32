"""What a workload is like: lengths, turns, tools and verifier as distributions, prompts, steps, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.workload.errors import WorkloadError
from scalana.workload.fitting import Fit, fits_of
from scalana.workload.special import normal_quantile
from scalana.workload.trajectories import Workload

RESPONSE, PROMPT, TURN, READ, TOOL, VERIFIER = "response", "prompt", "turn", "tool-answer", "tool", "verifier"
"""Quantities that a profile describes: lengths of responses, of prompts, of turns where there are several, and of what
tools answer; seconds of tools and of the verifier."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity: what its values are like, and distributions for it."""

    count: int
    quantiles: tuple[float, float, float, float]
    """Half, 90 %, 99 % and all of the values are at most that."""
    mean: float
    variation: float
    """Standard deviation over mean."""
    clipped: float
    """Part of the values that a limit ended."""
    fits: tuple[Fit, ...]
    """The best first; the last is the table of quantiles."""

    @property
    def tail(self) -> float:
        """How many times the median 99 % of the values stay below."""
        return self.quantiles[2] / self.quantiles[0] if self.quantiles[0] > 0.0 else float("nan")


@dataclass(frozen=True, slots=True)
class Variance:
    """Variance of log-lengths, split over prompts and over the answers to one (analysis of variance)."""

    between: float
    """Of what the answers to a prompt have in common."""
    within: float

    @property
    def correlation(self) -> float:
        """Part of the variance that is the prompt's (intraclass correlation)."""
        whole = self.between + self.within
        return self.between / whole if whole > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Drift:
    """How lengths change over the steps."""

    a_step: float
    """By which part of their (geometric) mean, each step."""
    error: float
    """Standard error of that."""

    @property
    def is_clear(self) -> bool:
        """Whether it is beyond what steps differ by chance."""
        return abs(self.a_step) > 2.0 * self.error


@dataclass(frozen=True, slots=True)
class Profile:
    """All of it. Any number of steps can be drawn from it."""

    unit: str
    source: str
    steps: int
    prompts: int
    """Of a step, the median."""
    answers: int
    """To a prompt, the median."""
    quantities: Mapping[str, Quantity]
    variance: Variance | None
    """None where no prompt has several answers."""
    ranks: float
    """Intraclass correlation of normal scores of the ranks of lengths: what draws are made with, as it does not depend
    on the form of the distribution."""
    drift: Drift | None
    """None where there are fewer than three steps."""
    turns: tuple[float, ...]
    """Which part of the trajectories has one turn, two, and so on."""
    turn_ranks: float
    """As :attr:`ranks`, of the lengths of the turns of a trajectory; 0 where there is one each."""
    cap: float
    """The limit of a response; infinite where none was seen."""


def profile_of(workload: Workload) -> Profile:
    """Characterise a workload.

    Raises:
        WorkloadError: it has no trajectory of known length.
    """
    known = np.isfinite(workload.response) & (workload.response > 0.0)
    if not known.any():
        raise WorkloadError(f"{workload.source}: no trajectory has a known length")
    workload = workload.rows(np.flatnonzero(known))
    turns, count = workload.turns, workload.turns.count
    quantities = {RESPONSE: quantity(workload.response, workload.clipped)}
    first = _firsts(workload.prompts())
    others = {PROMPT: workload.prompt[first], VERIFIER: workload.verifier_s, TOOL: turns.tool_s}
    if (count > 1).any():
        others[TURN] = turns.tokens
        others[READ] = np.delete(turns.read, turns.first[:-1])
    for name, values in others.items():
        if (np.isfinite(values) & (values > 0.0)).any():
            quantities[name] = quantity(values)
    logs, prompt = np.log(workload.response), workload.prompts()
    sizes = np.bincount(prompt)
    return Profile(
        unit=workload.unit,
        source=workload.source,
        steps=len(np.unique(workload.step)),
        prompts=_usual(np.bincount(workload.step[first])),
        answers=_usual(sizes),
        quantities=quantities,
        variance=variance_of(logs, prompt) if (sizes > 1).any() else None,
        ranks=_score_correlation(workload.response, prompt) if (sizes > 1).any() else 0.0,
        drift=drift_of(logs, workload.step),
        turns=tuple((np.bincount(count)[1:] / len(count)).tolist()),
        turn_ranks=_score_correlation(turns.tokens, np.repeat(np.arange(len(count)), count)) if TURN in others else 0.0,
        cap=float(workload.response[workload.clipped].max()) if workload.clipped.any() else float("inf"),
    )


def _firsts(number: IntArray) -> IntArray:
    """The first row of each number ``[numbers]``."""
    return np.asarray(np.unique(number, return_index=True)[1])


def _usual(counts: IntArray) -> int:
    return int(np.median(counts[counts > 0]))


def quantity(values: FloatArray, clipped: BoolArray | None = None) -> Quantity:
    """Describe some values; those that are not above 0, or not known, are left out."""
    clipped = np.zeros(len(values), np.bool_) if clipped is None else clipped
    there = np.isfinite(values) & (values > 0.0)
    values, clipped = values[there], clipped[there]
    p50, p90, p99 = (float(one) for one in np.quantile(values, (0.5, 0.9, 0.99)))
    mean = float(values.mean())
    return Quantity(
        count=len(values),
        quantiles=(p50, p90, p99, float(values.max())),
        mean=mean,
        variation=float(values.std()) / mean,
        clipped=float(clipped.mean()),
        fits=tuple(fits_of(values, clipped)),
    )


def variance_of(values: FloatArray, group: IntArray) -> Variance:
    """Split a variance over groups of any sizes: the estimator of moments of a one-way model with random effects
    (Searle, Casella and McCulloch, Variance Components, 1992)."""
    sizes = np.bincount(group).astype(np.float64)
    sizes = sizes[sizes > 0]
    _, group = np.unique(group, return_inverse=True)
    means = np.bincount(group, values) / sizes
    within_sum = float(((values - means[group]) ** 2).sum())
    free = len(values) - len(sizes)
    within = within_sum / free if free > 0 else 0.0
    if len(sizes) < 2:
        return Variance(0.0, within)
    between_sum = float((sizes * (means - values.mean()) ** 2).sum()) / (len(sizes) - 1)
    size = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1)
    return Variance(max((between_sum - within) / size, 0.0), within)


def _score_correlation(values: FloatArray, group: IntArray) -> float:
    """Intraclass correlation of normal scores; equal values have equal ones."""
    _, number, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = (np.cumsum(count) - count / 2) / len(values)
    return variance_of(normal_quantile(middle)[np.asarray(number).reshape(-1)], group).correlation


def drift_of(logs: FloatArray, step: IntArray) -> Drift | None:
    """The slope of the means of the steps, by least squares."""
    steps, number = np.unique(step, return_inverse=True)
    if len(steps) < 3:
        return None
    means = np.bincount(number, logs) / np.bincount(number)
    at = steps - steps.mean()
    slope = float(at @ means / (at @ at))
    rest = means - means.mean() - slope * at
    error = float(np.sqrt(rest @ rest / (len(steps) - 2) / (at @ at)))
    return Drift(float(np.expm1(slope)), error)
