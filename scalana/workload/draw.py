"""Workloads drawn from a profile: answers to one prompt are as alike as in the workload that it is of.

A Gaussian copula: a normal score has a part that answers to a prompt share and one of its own, and the quantile of the
fitted distribution at it is the length. So the lengths have that distribution, whatever they have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.workload.distributions import Distribution
from scalana.workload.errors import WorkloadError
from scalana.workload.profile import PROMPT, READ, RESPONSE, TOOL, TURN, VERIFIER, Profile, Quantity
from scalana.workload.special import normal_cdf
from scalana.workload.trajectories import Turns, Workload

GOOD_KS, GOOD_TAIL = 0.05, 0.5
"""Distance of a fitted distribution from the data, and error of its largest value, up to which it is drawn from; else
the table of quantiles is."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What to draw."""

    steps: int
    prompts: int
    """A step."""
    answers: int
    """To a prompt."""
    seed: int = 0
    lengths: str = "auto"
    """Family of the distribution of lengths; ``auto``: the best that was fitted, if it is a good one, else the table of
    quantiles."""
    drifts: bool = False
    """Whether lengths go on to change over the steps as they did; they are those of the middle of the steps else."""


def chosen(quantity: Quantity, family: str = "auto") -> Distribution:
    """Which distribution stands for a quantity.

    Raises:
        WorkloadError: the family was not fitted to it.
    """
    if family == "auto":
        good = (one.distribution for one in quantity.fits if one.ks <= GOOD_KS and abs(one.off_most) <= GOOD_TAIL)
        return next(good, quantity.fits[-1].distribution)
    for fit in quantity.fits:
        if fit.distribution.kind == family:
            return fit.distribution
    fitted = ", ".join(fit.distribution.kind for fit in quantity.fits)
    raise WorkloadError(f"--lengths {family}: not fitted to this workload; choose one of {fitted}")


def draw(profile: Profile, what: Draw) -> Workload:
    """Draw a workload."""
    random = np.random.default_rng(what.seed)
    prompts = what.steps * what.prompts
    count = prompts * what.answers
    prompt = np.repeat(np.arange(prompts), what.answers)
    step = prompt // what.prompts
    scores = _scores(random, prompt, profile.ranks)
    lengths = chosen(profile.quantities[RESPONSE], what.lengths)
    grown: Any = np.ones(count)
    if what.drifts and profile.drift is not None:
        grown = np.power(1.0 + profile.drift.a_step, profile.steps / 2 + step)
    response = _whole(lengths.quantile(normal_cdf(scores)) * grown, profile.cap)
    read = _drawn(profile, PROMPT, random, prompts)[prompt]
    verifier = _drawn(profile, VERIFIER, random, count)
    turns = Turns.single(np.rint(np.nan_to_num(read)), response)
    if len(profile.turns) > 1:
        turns = _turns(profile, random, turns, scores)
        response = np.add.reduceat(turns.tokens, turns.first[:-1])
    return Workload(
        step=step,
        group=prompt % what.prompts,
        prompt=np.rint(read),
        response=response,
        verifier_s=verifier,
        replica=np.full(count, -1),
        begin_s=np.full(count, np.nan),
        end_s=np.full(count, np.nan),
        clipped=response >= profile.cap,
        turns=turns,
        unit=profile.unit,
        source=f"drawn from {profile.source}, seed {what.seed}",
    )


def _scores(random: np.random.Generator, group: IntArray, correlation: float) -> FloatArray:
    """Standard normal numbers, those of a group correlated ``[group]``."""
    shared = random.standard_normal(int(group.max(initial=-1)) + 1)[group]
    own = random.standard_normal(len(group))
    return np.asarray(math.sqrt(correlation) * shared + math.sqrt(1.0 - correlation) * own)


def _whole(values: FloatArray, cap: float) -> FloatArray:
    """Lengths: whole numbers from 1 up to a limit."""
    return np.minimum(np.maximum(np.rint(values), 1.0), cap)


def _drawn(profile: Profile, name: str, random: np.random.Generator, count: int) -> FloatArray:
    """Independent values of a quantity, NaN where the profile has none ``[count]``."""
    if name not in profile.quantities:
        return np.full(count, np.nan)
    return chosen(profile.quantities[name]).quantile(random.random(count))


def _turns(profile: Profile, random: np.random.Generator, whole: Turns, scores: FloatArray) -> Turns:
    """Trajectories of several turns: their number, what is generated in each, and what tools take in between and
    answer. Turns of one trajectory share its score in part, as far as those of the workload are alike."""
    number = 1 + random.choice(len(profile.turns), len(scores), p=np.array(profile.turns) / sum(profile.turns))
    first = np.concatenate(([0], np.cumsum(number)))
    of = np.repeat(np.arange(len(scores)), number)
    shared, own = math.sqrt(profile.turn_ranks), math.sqrt(1.0 - profile.turn_ranks)
    score = shared * scores[of] + own * random.standard_normal(len(of))
    tokens = chosen(profile.quantities[TURN]).quantile(normal_cdf(score))
    read = np.rint(np.nan_to_num(_drawn(profile, READ, random, len(of))))
    read[first[:-1]] = whole.read
    tool = np.nan_to_num(_drawn(profile, TOOL, random, len(of)))
    tool[first[1:] - 1] = 0.0
    return Turns(first, read, _whole(tokens, profile.cap), tool)
