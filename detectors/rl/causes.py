"""Process time of a loop, split into causes that add up to all of it: one row a cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.cause_table import CAUSES
from scalana.detectors.rl.charges import GENERATES, TRAINS, Charges
from scalana.detectors.rl.decode import Decoding, active_of, fit_speeds, longest_first
from scalana.detectors.rl.loop import DOINGS, IN_WAIT, Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.factors import SAME_SIZE, SLOW_PROCESS, SLOWER
from scalana.detectors.thresholds.shares import MOST_STEPS
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import OPERATIONS

NUMBER = {cause.key: number for number, cause in enumerate(CAUSES)}

_OF_WAIT = {
    Doing.VERIFIER: "verifier",
    Doing.LOG_PROB: "log-prob",
    Doing.WEIGHT_SYNC: "weight-sync",
    Doing.DATA: "data-transfer",
    Doing.STARVATION: "starvation",
    Doing.EVALUATION: "evaluation",
}
"""Waiting that is its cause whatever else is known."""
_OF_OTHERS = {Doing.GENERATION: ("starvation", GENERATES), Doing.TRAINING: ("backpressure", TRAINS)}
"""The same of a process that never does this itself, as generating and training are stages in a row."""
_OF_WORK = {**_OF_WAIT, Doing.GENERATION: "generation", Doing.TRAINING: "training", Doing.OTHER: "other"}
_IN_PHASE = {**_OF_WORK, Doing.OTHER: "data-transfer"}
"""What calls take by themselves, by the phase that they are made in."""

_MESSAGES = np.array([row.code for row in OPERATIONS if "send" in row.name or "recv" in row.name])


@dataclass(slots=True)
class ByTokens:
    """What takes as long as there are tokens."""

    ranks: IntArray
    """Processes that were compared ``[some ranks]``."""
    tokens: FloatArray
    """``[ranks, steps]``"""
    costs: FloatArray
    """Seconds beside the tokens, and of a token ``[2]``."""

    def usual_s(self) -> FloatArray:
        """Seconds that these processes would take if none were slow, 0 for others ``[ranks, steps]``."""
        result = np.zeros(self.tokens.shape)
        result[self.ranks] = self.costs[0] + self.tokens[self.ranks] * self.costs[1]
        return result


@dataclass(slots=True)
class Speeds:
    """How much longer each process takes for the same work than is usual."""

    factor: FloatArray
    """By what is done; 1 where it is not slow ``[doings, ranks]``."""
    slow: BoolArray
    """``[ranks]``"""
    measured: FloatArray
    """Of generation; the median is 1 ``[ranks]``."""
    by_tokens: dict[Doing, ByTokens]
    """Of training and of log-probabilities, where their tokens are known."""


@dataclass(slots=True)
class Rollouts:
    """Generation of every step as the model has it, for processes of usual speed."""

    recorded_s: FloatArray
    """``[ranks, steps]``"""
    balanced_s: FloatArray
    """If the longest trajectories were given out first ``[ranks, steps]``."""
    longest_s: FloatArray
    """Of the longest trajectory alone ``[steps]``."""


@dataclass(slots=True)
class Split:
    """The process time of a loop by cause."""

    seconds: FloatArray
    """``[causes, steps]``"""
    waited_s: FloatArray
    """Of these waiting, by who made it ``[causes, ranks, steps]``."""
    excess_s: FloatArray
    """By how much that process did more than who waited for it, see :func:`in_all` ``[causes, ranks, steps]``."""
    doing: IntArray
    """In what it did most of that, -1 for nothing ``[causes, ranks, steps]``."""
    part: FloatArray
    """Which part of each charge is of which cause ``[charges, causes]``."""


def tokens_of(loop: Loop, rank: int | None, step: int) -> FloatArray:
    """Lengths of the trajectories of a process, or of all, in a step, those of each in the order in which they began
    ``[trajectories]``."""
    return loop.trajectories.tokens[loop.index.rows(rank, step)]


def simulated(loop: Loop, decoding: Decoding) -> Rollouts:
    """Generation of every step, by the model."""
    ranks, generate = len(loop.processes), loop.that_generate()
    recorded, balanced, longest = np.zeros((ranks, loop.steps)), np.zeros((ranks, loop.steps)), np.zeros(loop.steps)
    for step in range(loop.steps):
        recorded[:, step] = [decoding.seconds(tokens_of(loop, rank, step).tolist()) for rank in range(ranks)]
        tokens = tokens_of(loop, None, step)
        if len(tokens):
            given = longest_first(tokens, len(generate))
            balanced[generate, step] = [decoding.seconds(tokens[part].tolist()) for part in given]
            longest[step] = decoding.seconds([float(tokens.max())])
    return Rollouts(recorded, balanced, longest)


def find_speeds(loop: Loop, decoding: Decoding | None, rollouts: Rollouts | None) -> Speeds:
    """Compare processes at the same work: in generation by the model, in training and in log-probabilities by tokens.

    Log-probabilities that do not tell their tokens are of what the process trains on; that is no proof that somebody is
    slow, but tells how much slower in them somebody is of whom it is known.
    """
    ranks = len(loop.processes)
    factor, slow, measured = np.ones((DOINGS, ranks)), np.zeros(ranks, np.bool_), np.ones(ranks)
    if decoding is not None and rollouts is not None:
        measured, model = decoding.factor, rollouts.recorded_s
        ratio = loop.own_s[:, :, Doing.GENERATION] / np.maximum(model, 1e-12)
        slow |= _persistent(ratio, model > 0.0) & (measured > SLOW_PROCESS)
        factor[Doing.GENERATION] = _beside_others(measured, slow, loop.that_generate())
    by_tokens = {}
    train = loop.that_train()
    if len(train) and not np.isnan(loop.tokens[train]).any():
        by_tokens[Doing.TRAINING], training, steadily = _by_tokens(loop.own_s[:, :, Doing.TRAINING], loop.tokens, train)
        slow |= steadily
        factor[Doing.TRAINING] = _beside_others(training, steadily, train)
    # Where log-probabilities cannot be compared, they are as slow as what else the process computes.
    factor[Doing.LOG_PROB] = np.maximum(factor[Doing.GENERATION], factor[Doing.TRAINING])
    tokens, passes = loop.passed(), loop.own_s[:, :, Doing.LOG_PROB]
    known = np.flatnonzero((passes > 0.0).any(axis=1) & (np.nan_to_num(tokens) > 0.0).all(axis=1))
    if len(known) > 1:
        by_tokens[Doing.LOG_PROB], passing, steadily = _by_tokens(passes, tokens, known)
        slow |= steadily & ~np.isnan(loop.passed_tokens).any(axis=1)
        factor[Doing.LOG_PROB, known] = _beside_others(passing, slow, known)[known]
    return Speeds(factor, slow, measured, by_tokens)


def _by_tokens(spent_s: FloatArray, tokens: FloatArray, some: IntArray) -> tuple[ByTokens, FloatArray, BoolArray]:
    """Compare processes by the seconds that they take for tokens, both ``[ranks, steps]``.

    Returns:
        What they take for their tokens; how much longer each process does ``[ranks]``; and which of ``some`` do so in
        most steps ``[ranks]``.
    """
    ranks, steps = spent_s.shape
    work = np.stack((np.ones(tokens[some].size), tokens[some].reshape(-1)), axis=1)
    rank, spent = np.repeat(some, steps), spent_s[some].reshape(-1)
    there = spent > 0.0
    costs, factor = fit_speeds(work[there], spent[there], rank[there], ranks)
    found = ByTokens(some, tokens, costs)
    model = found.usual_s()
    steadily = _persistent(spent_s / np.maximum(model, 1e-12), (model > 0.0) & (spent_s > 0.0)) & (
        factor > SLOW_PROCESS
    )
    return found, factor, steadily


def _beside_others(factor: FloatArray, slow: BoolArray, some: IntArray) -> FloatArray:
    """How many times as long slow processes take as others of ``some`` that are not slow; 1 for these ``[ranks]``."""
    return np.where(slow, np.maximum(factor / usual_factor(factor, slow, some), 1.0), 1.0)


def usual_factor(factor: FloatArray, slow: BoolArray, some: IntArray) -> float:
    """The factor of those of ``some`` that are not slow: 1 where they are many, less where half of all are slow."""
    others = some[~slow[some]]
    return max(float(np.median(factor[others])) if len(others) else 1.0, 1e-6)


def _persistent(ratio: FloatArray, known: BoolArray) -> BoolArray:
    """Which processes take longer than is usual in most steps ``[ranks]``; there must be several of both."""
    if ratio.shape[0] < 2 or ratio.shape[1] < 2 or not known.any():
        return np.zeros(len(ratio), np.bool_)
    usual = [np.median(each[there]) if there.any() else 1.0 for each, there in zip(ratio.T, known.T, strict=True)]
    beside = ratio / np.maximum(usual, 1e-12)
    return np.asarray(((beside > SLOWER) & known).sum(axis=1) >= MOST_STEPS * known.sum(axis=1)) & known.any(axis=1)


def split(
    loop: Loop,
    charges: Charges,
    timeline: Timeline,
    decoding: Decoding | None,
    rollouts: Rollouts | None,
    speeds: Speeds,
) -> Split:
    """Put every second of a loop down to its cause.

    Own work and calls are told by the phases they lie in. Of waiting, what a slow process is slower by comes first;
    then what would not be there with another assignment of the same trajectories, or of rows in training; what is left
    of generation is the tail.
    """
    ranks, steps = len(loop.processes), loop.steps
    seconds = np.zeros((len(CAUSES), steps))
    for doing in Doing:
        seconds[NUMBER[_OF_WORK[doing]]] += loop.own_s[:, :, doing].sum(axis=0)
        seconds[NUMBER[_IN_PHASE[doing]]] += loop.call_s[:, :, doing].sum(axis=0)
    if decoding is not None:
        few = _under_batched(loop, decoding)
        seconds[NUMBER["under-batched"]] += few
        seconds[NUMBER["generation"]] -= few
    part = _parts(loop, charges, timeline, rollouts, speeds)
    waited = np.zeros((len(CAUSES), ranks, steps))
    excess, doing_of = np.zeros_like(waited), np.full(waited.shape, -1)
    row, cause = np.nonzero(part)
    where = cause, charges.culprit[row], charges.step[row]
    amount = charges.seconds[row] * part[row, cause]
    np.add.at(waited, where, amount)
    key = np.ravel_multi_index(where, waited.shape)
    told, key = np.unique(key, return_inverse=True)
    amounts = charges.excess_s[row] * part[row, cause]
    excess.reshape(-1)[told] = in_all(key, charges.begin_s[row], charges.end_s[row], amounts, len(told))
    by_doing = np.zeros((*waited.shape, DOINGS + 1))
    np.add.at(by_doing, (*where, charges.doing[row]), amount)
    some = waited > 0.0
    doing_of[some] = by_doing[some].argmax(axis=-1)
    seconds += waited.sum(axis=1)
    seconds[NUMBER["other"]] += _left(loop.own_s[:, :, IN_WAIT].sum(axis=0) - waited.sum(axis=(0, 1)))
    return Split(seconds, waited, excess, doing_of, part)


def _left(less_s: FloatArray) -> FloatArray:
    """Waiting that was charged to nobody, as the one that came last is no main thread, or is outside of the loop
    ``[steps]``. A wait that began in a step and was charged in the next is not among it."""
    left, owed = np.zeros_like(less_s), 0.0
    for step in range(len(less_s) - 1, -1, -1):
        owed += float(less_s[step])
        left[step], owed = max(owed, 0.0), min(owed, 0.0)
    for step in range(len(less_s)):
        paid = min(left[step], -owed)
        left[step], owed = left[step] - paid, owed + paid
    return left


def _avoidable(rollouts: Rollouts) -> FloatArray:
    """Part of the idle time of each rollout that giving out the longest first would avoid ``[steps]``: at most what
    the rollout ends sooner by, for all processes. To idle less because work takes longer is no gain."""
    generate = rollouts.recorded_s.sum(axis=1) > 0.0
    recorded_s, balanced_s = rollouts.recorded_s[generate], rollouts.balanced_s[generate]
    longest, best = recorded_s.max(axis=0, initial=0.0), balanced_s.max(axis=0, initial=0.0)
    idle = (longest - recorded_s).sum(axis=0)
    less = np.minimum(idle - (best - balanced_s).sum(axis=0), (longest - best) * len(recorded_s))
    return np.clip(np.divide(less, idle, out=np.zeros_like(idle), where=idle > 0.0), 0.0, 1.0)


def _of_lengths(loop: Loop) -> BoolArray:
    """In which steps one trajectory is longer than another, so that waiting may be for its length ``[steps]``."""
    tokens = [tokens_of(loop, None, step) for step in range(loop.steps)]
    return np.array([bool(len(each)) and each.max() > SAME_SIZE * each.min() for each in tokens], np.bool_)


def _under_batched(loop: Loop, decoding: Decoding) -> FloatArray:
    """Seconds of generation with few trajectories ``[steps]``."""
    few = np.zeros(loop.steps)
    for rank, process in enumerate(loop.processes):
        active = active_of(loop.trajectories, rank)
        for step in range(loop.steps):
            below = active.seconds_below(decoding.knee, *process.bounds_s[step : step + 2].tolist())
            few[step] += min(below, float(loop.own_s[rank, step, Doing.GENERATION]))
    return few


def _beyond(loop: Loop, charges: Charges) -> FloatArray:
    """By how much the culprit did more than those whose waiting it is in the end ``[charges]``. Who waits itself for
    one that waits for the culprit, as for a driver that collects what several of them make, has done its own part."""
    excess = charges.excess_s.copy()
    for doing, (_, bit) in _OF_OTHERS.items():
        those = loop.that_generate() if doing == Doing.GENERATION else loop.that_train()
        own_s = loop.own_s[those, :, doing]
        through = (charges.doing == doing) & (charges.stages & bit != 0) & ~np.isin(charges.waiter, those)
        if not through.any() or len(those) < 2:
            continue
        step, culprit = charges.step[through], charges.culprit[through]
        others_s = own_s.sum(axis=0)[step] - np.where(np.isin(culprit, those), loop.own_s[culprit, step, doing], 0.0)
        others = len(those) - np.isin(culprit, those)
        excess[through] = np.maximum(excess[through] - others_s / others, 0.0)
    return excess


def _parts(loop: Loop, charges: Charges, timeline: Timeline, rollouts: Rollouts | None, speeds: Speeds) -> FloatArray:
    """Which part of each charge is of which cause ``[charges, causes]``; every row adds up to 1."""
    part = np.zeros((len(charges), len(CAUSES)))
    left = np.ones(len(charges))
    spent = loop.own_s[charges.culprit, charges.step, np.minimum(charges.doing, DOINGS - 1)]
    excess = np.maximum(_beyond(loop, charges), 1e-12)

    def give(key: str, rows: BoolArray, seconds: FloatArray | float) -> None:
        share = np.where(rows, np.minimum(left, np.maximum(seconds, 0.0) / excess), 0.0)
        part[:, NUMBER[key]] += share
        left[:] -= share

    factor = speeds.factor[np.minimum(charges.doing, DOINGS - 1), charges.culprit]
    give("slow-hardware", (charges.doing < DOINGS) & (factor > 1.0), spent * (1.0 - 1.0 / factor))
    everything = np.inf
    for doing, key in _OF_WAIT.items():
        give(key, charges.doing == doing, everything)
    generating, training = charges.doing == Doing.GENERATION, charges.doing == Doing.TRAINING
    # One that does nothing of the kind waits for those that do: at least for as long as an average one of them takes.
    for doing, (key, bit) in _OF_OTHERS.items():
        those = loop.that_generate() if doing == Doing.GENERATION else loop.that_train()
        alien = (charges.doing == doing) & (charges.stages & bit == 0)
        if alien.any():
            usual = loop.own_s[those, :, doing].mean(axis=0)[charges.step]
            give(key, alien, np.minimum(usual / np.maximum(spent, 1e-12), 1.0) * excess)
    if rollouts is not None:
        give("assignment", generating, excess * _avoidable(rollouts)[charges.step])
        give("long-tail", generating & _of_lengths(loop)[charges.step], everything)
    # Between stages: in a message, and for one that began with a message of the one that waits.
    by_message = np.isin(timeline.calls.operation[charges.call], _MESSAGES) | np.isin(charges.met, _MESSAGES)
    give("pipeline", training & by_message, everything)
    if (by_tokens := speeds.by_tokens.get(Doing.TRAINING)) is not None:
        train, tokens = loop.that_train(), loop.tokens.copy()
        tokens[np.setdiff1d(np.arange(len(tokens)), train)] = tokens[train].mean(axis=0)
        more = (tokens[charges.culprit, charges.step] - tokens[charges.waiter, charges.step]) + 0.0
        give("training-imbalance", training, more * by_tokens.costs[1])
    give("other", np.ones(len(charges), np.bool_), everything)
    return part


def in_all(key: IntArray, begin_s: FloatArray, end_s: FloatArray, excess_s: FloatArray, keys: int) -> FloatArray:
    """The most that waits with intervals free of overlap tell together ``[keys]``.

    Several that wait for one thing tell the same, and the largest counts. Who hands out its results one by one is
    waited for several times in a step, each time for another part of what it does: these add up.

    Args:
        key: what each wait is about, from 0 on ``[waits]``.
        begin_s: since when the culprit is compared ``[waits]``.
        end_s: when it came ``[waits]``.
        excess_s: by how much it did more meanwhile ``[waits]``.
        keys: how many keys there are.
    """
    first_end, last_begin, most = np.full(keys, np.inf), np.full(keys, -np.inf), np.zeros(keys)
    np.minimum.at(first_end, key, end_s)
    np.maximum.at(last_begin, key, begin_s)
    np.maximum.at(most, key, excess_s)
    apart = np.flatnonzero(last_begin >= first_end)
    if not len(apart):
        return most
    order = np.lexsort((end_s, key))
    bounds = np.searchsorted(key[order], [apart, apart + 1])
    for number, (at, end) in zip(apart.tolist(), bounds.T.tolist(), strict=True):
        rows = order[at:end]
        most[number] = _of_one(begin_s[rows], end_s[rows], excess_s[rows])
    return most


def _of_one(begin_s: FloatArray, end_s: FloatArray, excess_s: FloatArray) -> float:
    """The same of one key, sorted by end: weighted interval scheduling."""
    before = np.searchsorted(end_s, begin_s, side="right")
    best = [0.0]
    for row, (compatible, excess) in enumerate(zip(before.tolist(), excess_s.tolist(), strict=True)):
        best.append(max(best[row], best[min(compatible, row)] + excess))
    return best[-1]
