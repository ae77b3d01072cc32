"""What a step takes besides generation, fitted to recorded steps, and where its processes meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from scalana.detectors.rl.decode import fit_decoding, fit_speeds
from scalana.detectors.rl.loop import Trajectories
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.workload.costs import Decode
from scalana.workload.from_run import PHASES, decode_of
from scalana.workload.trajectories import StepTimes, Workload

GENERATION, VERIFIER, WEIGHTS, TRAINING = "generation", "verifier", "weight-sync", "training"
BY_TOKENS = ("log-prob", TRAINING)
"""Phases that a replay knows by name; those that take as long as there are tokens."""
ORDER = tuple(PHASES.values())
"""Of the phases in a step."""
_SAME_TOKENS = 0.02


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Seconds of a phase as a line over the tokens of a process."""

    base_s: float
    token_s: float
    factor: FloatArray
    """How many times as long each process takes ``[ranks]``."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Costs of the phases of a step, and their order."""

    by_tokens: Mapping[str, TokenCost]
    fixed: Mapping[str, FloatArray]
    """Other phases: the median of what each process takes ``[ranks]``."""
    meets: frozenset[str]
    """Phases after which all processes meet."""
    rest_s: float
    """What a step takes in addition, the median."""
    trains_own: bool
    """Whether a process trains on the trajectories that it generated."""
    trained: FloatArray
    """Tokens that each process trains on, on average, NaN where they are not known ``[ranks]``."""

    @property
    def ranks(self) -> int:
        """Processes that they were fitted to."""
        return len(self.trained)

    @property
    def trains(self) -> BoolArray:
        """Which of them train; all where none is known to ``[ranks]``."""
        line = self.by_tokens.get(TRAINING)
        took = line.factor if line is not None else self.fixed.get(TRAINING, np.zeros(self.ranks))
        return took > 0.0 if (took > 0.0).any() else np.ones(self.ranks, np.bool_)

    @property
    def trainers(self) -> int:
        """How many train."""
        return int(self.trains.sum())


def fit_decode(workload: Workload) -> Decode | None:
    """Fit the costs of generation to the times of trajectories; None where these are not known."""
    known = np.isfinite(workload.begin_s) & np.isfinite(workload.end_s) & (workload.replica >= 0)
    some = workload.rows(np.flatnonzero(known))
    if not len(some):
        return None
    apart = some.step * (float(some.end_s.max()) + 1.0)  # steps do not overlap
    whole = workload.decode is not None and workload.decode.whole_batches
    made = Trajectories(
        span=np.arange(len(some)),
        rank=some.replica,
        step=some.step,
        start_s=some.begin_s + apart,
        end_s=some.end_s + apart,
        tokens=some.response,
        prompt_tokens=np.nan_to_num(some.prompt),
        group=some.group,
        batch=_batches(some) if whole else np.full(len(some), -1),
    )
    ranks = max(int(some.replica.max()) + 1, workload.times.ranks if workload.times else 0)
    return decode_of(fit_decoding(made, ranks))


def _batches(workload: Workload) -> IntArray:
    """Batches that end as a whole: what is under way at the same time on a replica ``[trajectories]``."""
    order = np.lexsort((workload.begin_s, workload.replica, workload.step))
    result, number, until_s, before = np.zeros(len(workload), np.int64), -1, -np.inf, (-1, -1)
    for row in order.tolist():
        where = int(workload.step[row]), int(workload.replica[row])
        if where != before or workload.begin_s[row] >= until_s:
            number, until_s, before = number + 1, -np.inf, where
        until_s = max(until_s, float(workload.end_s[row]))
        result[row] = number
    return result


def fit_steps(workload: Workload) -> StepCosts | None:
    """Fit the costs of all phases but generation to the recorded steps; None where none were recorded."""
    times = workload.times
    if times is None:
        return None
    own = own_tokens(workload, times.ranks)
    same = np.isfinite(times.trained) & (np.abs(times.trained - own) <= _SAME_TOKENS * np.maximum(own, 1.0))
    trains_own = bool(same.mean() > 0.5)
    by_tokens = {name: _line(times, name) for name in BY_TOKENS if name in times.phases}
    lines = {name: line for name, line in by_tokens.items() if line is not None}
    decided = {GENERATION, VERIFIER, *lines}
    fixed = {name: np.median(spent, axis=1) for name, spent in times.phases.items() if name not in decided}
    trained = times.trained.mean(axis=1)
    plain = StepCosts(lines, fixed, frozenset(), 0.0, trains_own, trained)
    meets, rest = _meetings(times, plain)
    return StepCosts(lines, fixed, meets, rest, trains_own, trained)


def own_tokens(workload: Workload, ranks: int) -> FloatArray:
    """Tokens, with prompts, of the trajectories that each process generated ``[ranks, steps]``."""
    result = np.zeros((max(ranks, int(workload.replica.max(initial=0)) + 1), workload.steps))
    known = workload.replica >= 0
    tokens = workload.response + np.nan_to_num(workload.prompt)
    np.add.at(result, (workload.replica[known], workload.step[known]), tokens[known])
    return result[:ranks]


def _line(times: StepTimes, name: str) -> TokenCost | None:
    """Fit a phase as a line over tokens; None where its tokens are not known."""
    spent, tokens = times.phases[name], times.trained
    rank, step = np.nonzero((spent > 0.0) & (tokens > 0.0))
    if not len(rank):
        return None
    work = np.stack((np.ones(len(rank)), tokens[rank, step]), axis=1)
    costs, factor = fit_speeds(work, spent[rank, step], rank, times.ranks)
    # A process without tokens, or without the phase, has no part in it.
    factor = np.where(np.isin(np.arange(times.ranks), rank), factor, 0.0)
    return TokenCost(float(costs[0]), float(costs[1]), factor)


def _meetings(times: StepTimes, plain: StepCosts) -> tuple[frozenset[str], float]:
    """After which phases processes meet, so that the recorded phases give the recorded steps, with what is missing."""
    names = [name for name in ORDER if name in times.phases]
    best: tuple[float, int, frozenset[str], float] | None = None
    for flags in product((False, True), repeat=max(len(names) - 1, 0)):
        meets = frozenset(name for name, flag in zip(names, flags, strict=False) if flag)
        step_s = lengths_of(times.phases, meets)
        rest = float(np.median(times.wall_s - step_s))
        off = float(np.abs(step_s + rest - times.wall_s).mean() / max(float(times.wall_s.mean()), 1e-12))
        tried = (round(off, 6), sum(flags), meets, rest)
        if best is None or tried[:2] < best[:2]:
            best = tried
    assert best is not None
    return best[2], best[3]


def lengths_of(phases: Mapping[str, FloatArray], meets: frozenset[str]) -> FloatArray:
    """How long steps take whose processes spend so much in each phase, and meet after some ``[steps]``."""
    some = next(iter(phases.values()))
    whole, part = np.zeros(some.shape[1]), np.zeros(some.shape)
    for name in ORDER:
        if name in phases:
            part = part + phases[name]
        if name in meets:
            whole, part = whole + part.max(axis=0), np.zeros(some.shape)
    return np.asarray(whole + part.max(axis=0))


def spent(costs: StepCosts, tokens: FloatArray, verifier_s: FloatArray, ranks: int) -> dict[str, FloatArray]:
    """What processes spend in each phase but generation ``[ranks, steps]``.

    Args:
        costs: as fitted.
        tokens: that each process trains on ``[ranks, steps]``.
        verifier_s: that each process scores for ``[ranks, steps]``.
        ranks: how many processes there are; those beyond the recorded ones are as fast as is usual.
    """
    shape = (ranks, tokens.shape[1])
    result = {VERIFIER: verifier_s} if verifier_s.any() else {}
    for name, line in costs.by_tokens.items():
        factor = _resized(line.factor, ranks, 1.0)
        result[name] = (line.base_s + line.token_s * tokens) * factor[:, None]
    for name, seconds in costs.fixed.items():
        result[name] = np.broadcast_to(_resized(seconds, ranks, float(np.median(seconds)))[:, None], shape)
    return result


def _resized(values: FloatArray, count: int, usual: float) -> FloatArray:
    return np.concatenate((values[:count], np.full(max(count - len(values), 0), usual)))
