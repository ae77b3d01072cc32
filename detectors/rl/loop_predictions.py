"""What a step would take with a change: the recorded calls replayed, with other lengths of generation between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.account import Prediction
from scalana.detectors.rl.advice import CHANGES
from scalana.detectors.rl.causes import Rollouts, Speeds, tokens_of
from scalana.detectors.rl.dealing import Dealing, handed_one_by_one
from scalana.detectors.rl.decode import Decoding, dealt, free_first, longest_first
from scalana.detectors.rl.list_scheduling import predictions, queue_of
from scalana.detectors.rl.loop import DOINGS, Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.rl.remedies import remedies
from scalana.detectors.thresholds.counts import CUT_TRAJECTORIES
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.detectors.thresholds.shares import AWAITED
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.window import gap_edges

LEAST_CUT, MOST_CUT = 0.01, 0.1
"""... but at least and at most such a part of all."""

_OF_STEPS = ("balance", "spread-groups", "expected-first", "cap", "partial", "more-rollouts")
"""Changes that are predicted of the rollout of a step; of a queue, where there are no such."""

Deal = Callable[[int], list[list[float]]]
"""Lengths that each process generates in a step ``[ranks][trajectories]``."""


@dataclass(slots=True)
class Replayer:
    """A loop, ready to be replayed with other seconds of what processes do."""

    loop: Loop
    replay: Replay
    spent_s: list[FloatArray]
    """Of every process what was done in each of its gaps ``[gaps of its location, steps, doings]``."""
    gaps: list[IntArray]
    """Numbers of these gaps ``[gaps of its location]``."""

    @classmethod
    def of(cls, loop: Loop, replay: Replay) -> Replayer:
        """Prepare it."""
        spent, gaps = [], []
        begin_s, end_s = gap_edges(replay.timeline)
        location, rank = burst_locations(replay.timeline), replay.timeline.locations.rank
        for number, process in enumerate(loop.processes):
            threads = rank == number if loop.timed else np.arange(len(rank)) == process.location
            mine = np.flatnonzero(threads[location])
            gaps.append(mine)
            begin, end = begin_s[mine], end_s[mine]
            bounds = process.bounds_s
            parts = [
                process.spent_s(np.clip(begin, *bounds[k : k + 2]), np.clip(end, *bounds[k : k + 2]))[:, :DOINGS]
                for k in range(loop.steps)
            ]
            spent.append(np.stack(parts, axis=1))
        return cls(loop, replay, spent, gaps)

    def without(self, less_s: FloatArray, unlike: BoolArray | None = None) -> Change:
        """The change by which processes take so much less for what they do, more if it is negative
        ``[ranks, steps, doings]``. Those that are ``unlike`` the others do so where they take longer, or less, than
        these between the same calls: what differs may be a part of what is done, and calls in which all meet lie in
        between. Where all are, each is compared with all others ``[ranks]``."""
        removed = np.zeros(len(self.replay.timeline.calls) + len(self.replay.timeline.locations))
        for rank, (spent, less) in enumerate(zip(self.spent_s, less_s, strict=True)):
            if unlike is not None and unlike[rank]:
                others = np.flatnonzero(~unlike) if not unlike.all() else np.delete(np.arange(len(unlike)), rank)
                by_gap = self._where_unlike(rank, less, others)
            else:
                by_gap = _evenly(spent, less)
            removed[self.gaps[rank]] += by_gap.sum(axis=(1, 2))
        return Change.of(removed)

    def _where_unlike(self, rank: int, less_s: FloatArray, others: IntArray) -> FloatArray:
        """What a process takes less ``[steps, doings]``, by gap ``[gaps, steps, doings]``."""
        place, spent = self._between(rank), self.spent_s[rank]
        places, number = np.unique(place, return_inverse=True)
        usual = np.zeros((len(places), *less_s.shape))
        for other in others.tolist():
            at = np.searchsorted(places, there := self._between(other))
            known = places[np.minimum(at, len(places) - 1)] == there
            np.add.at(usual, at[known], self.spent_s[other][known])
        here = np.zeros_like(usual)
        np.add.at(here, number, spent)
        # In all, others would take what is left.
        whole, left = usual.sum(axis=0), here.sum(axis=0) - less_s
        usual *= np.divide(left, whole, out=np.zeros_like(left), where=whole > 0.0)
        differs = np.where(less_s >= 0.0, np.maximum(here - usual, 0.0), np.maximum(usual - here, 0.0))
        differs = np.where(whole > 0.0, differs, here)
        part = np.divide(differs, here, out=np.zeros_like(here), where=here > 0.0)
        return _evenly(spent * part[number], less_s)

    def _between(self, rank: int) -> IntArray:
        """Between which calls of the program the gaps of a process lie, as numbers ``[gaps of its location]``."""
        calls, gaps = self.replay.timeline.calls, self.gaps[rank]
        vertex = np.concatenate(([-1], calls.vertex[gaps[:-1]].astype(np.int64), [-1])) + 1
        return np.asarray(vertex[:-1] * (int(calls.vertex.max(initial=0)) + 2) + vertex[1:])

    def saved_s(self, changes: Sequence[Change]) -> list[float]:
        """By how much the run is shorter with each of some changes."""
        if not changes:
            return []
        measured, changed = self.replay.run_ends_s(changes)
        return [measured - each for each in changed]

    def error(self) -> float:
        """How far a replay of the recorded run, with nothing changed, is off: when it ends, relative to its length."""
        locations = self.replay.timeline.locations
        begin_s, end_s = float(locations.start_s.min()), float(locations.end_s.max())
        (again,) = self.replay.ends_s([self.without(_nothing(self.loop))])
        return abs(float(again.max()) - end_s) / max(end_s - begin_s, 1e-12)


def _evenly(spent_s: FloatArray, less_s: FloatArray) -> FloatArray:
    """Divide seconds ``[steps, doings]`` over gaps in proportion to what was done there ``[gaps, steps, doings]``."""
    total = spent_s.sum(axis=0)
    return spent_s * np.divide(less_s, total, out=np.zeros_like(total), where=total > 0.0)


@dataclass(slots=True)
class _Try:
    change: str
    less_s: FloatArray
    error: float
    unlike: BoolArray | None = None
    """Processes that are to be like the others, where it is about these ``[ranks]``."""
    cap: float = np.inf
    """Tokens of a trajectory at most."""
    lost: float = 0.0
    """The part of all tokens that is beyond."""

    def text(self) -> str:
        """What is changed, in words."""
        return CHANGES[self.change].format(cap=self.cap, lost=self.lost, done=AWAITED)


def predict(
    replayer: Replayer, decoding: Decoding | None, rollouts: Rollouts | None, speeds: Speeds, spread: bool
) -> list[Prediction]:
    """What an average step would take with each of the changes that make sense; ``spread`` says whether several
    trajectories have one prompt."""
    loop, tries = replayer.loop, []
    dealing = None
    if decoding is not None and rollouts is not None:
        one_by_one = handed_one_by_one(loop, replayer.replay.timeline)
        dealing = Dealing(loop, decoding, rollouts.recorded_s, speeds.factor[Doing.GENERATION], one_by_one)
        tries = _of_generation(dealing, spread)
    less = _nothing(loop)
    less[:, :, Doing.VERIFIER] = loop.own_s[:, :, Doing.VERIFIER] * (1.0 - 1.0 / DOUBLED)
    tries.append(_Try("faster-verifier", less, 0.0))
    if Doing.TRAINING in speeds.by_tokens and speeds.by_tokens[Doing.TRAINING].costs[1] > 0.0:
        less, error = _balanced_rows(loop, speeds)
        all_ranks = np.ones(len(loop.processes), np.bool_)
        tries.append(_Try("balanced-rows", less, error, all_ranks))
    if speeds.slow.any():
        less = loop.own_s[:, :, :DOINGS] * (1.0 - 1.0 / speeds.factor.T[:, None, :])
        if dealing is not None and dealing.one_by_one:
            for step in range(loop.steps):
                took = np.array([dealing.decoding.seconds(part) for part in _handed(dealing, step)])
                less[:, step, Doing.GENERATION] = dealing.less_s(step, took, np.ones(1))
        tries.append(_Try("no-slow-process", less, 0.0, speeds.slow))
    modelled = next((each.error for each in tries if each.change == "balance"), 0.0)
    tries += [_Try(each.change, each.less_s, modelled if each.modelled else 0.0) for each in remedies(loop, dealing)]
    tries = [each for each in tries if np.abs(each.less_s).any()]
    queue = queue_of(loop)
    scheduled = predictions(loop, queue, *cut_of(loop)) if queue is not None else []
    if queue is not None:
        tries = [each for each in tries if each.change not in _OF_STEPS]
    saved = replayer.saved_s([replayer.without(each.less_s, each.unlike) for each in tries])
    off = replayer.error()
    step_s = float(loop.step_s().mean())
    replayed = [
        Prediction(each.change, each.text(), step_s - save / loop.steps, each.error + off)
        for each, save in zip(tries, saved, strict=True)
    ]
    return scheduled + replayed


def cut_of(loop: Loop) -> tuple[float, float]:
    """Tokens beyond which the longest trajectories may be cut, and the part of all tokens that is beyond."""
    made = loop.trajectories
    known = made.tokens[(made.step >= 0) & ~np.isnan(made.tokens)]
    cut = min(max(LEAST_CUT, CUT_TRAJECTORIES / len(known)), MOST_CUT)
    cap = float(np.quantile(known, 1.0 - cut, method="lower"))
    return cap, float(np.maximum(known - cap, 0.0).sum() / known.sum())


def _handed(dealing: Dealing, step: int, most: float = np.inf) -> list[list[float]]:
    """The trajectories of a step, of so many tokens at most, if those that are free first get them in their order of
    beginning, and all are as fast: lengths ``[ranks][trajectories]``."""
    loop, generate = dealing.loop, dealing.loop.that_generate()
    rows = loop.index.rows(None, step)
    in_order = rows[np.argsort(loop.trajectories.start_s[rows], kind="stable")]
    tokens = np.minimum(loop.trajectories.tokens[in_order], most)
    result: list[list[float]] = [[] for _ in loop.processes]
    for rank, part in zip(generate.tolist(), free_first(tokens, len(generate)), strict=True):
        result[rank] = tokens[part].tolist()
    return result


def _nothing(loop: Loop) -> FloatArray:
    return np.zeros((len(loop.processes), loop.steps, DOINGS))


def _balanced_rows(loop: Loop, speeds: Speeds) -> tuple[FloatArray, float]:
    """What processes take less with as many tokens for each, in training and in what is of the same rows; and how far
    the model of it is off."""
    less, error = _nothing(loop), 0.0
    for doing, each in speeds.by_tokens.items():
        factor, tokens = speeds.factor[doing][:, None], each.tokens[each.ranks]
        more = (tokens - tokens.mean(axis=0)) * each.costs[1]
        less[each.ranks, :, doing] = more * factor[each.ranks]
        error += _error(each.usual_s() * factor, loop.own_s[:, :, doing], loop)
    return less, error


def _error(model_s: FloatArray, recorded_s: FloatArray, loop: Loop) -> float:
    """How far the slowest process of a step is off in a model, relative to the step, on average over the steps."""
    off = np.abs(model_s.max(axis=0) - recorded_s.max(axis=0))
    return float(np.mean(off / np.maximum(loop.step_s(), 1e-12)))


def _of_generation(dealing: Dealing, spread: bool) -> list[_Try]:
    """Other assignments and other ends of the trajectories of each step."""
    loop, decoding, model, factor = dealing.loop, dealing.decoding, dealing.model_s, dealing.factor
    made, ranks, generate = loop.trajectories, len(loop.processes), loop.that_generate()
    own = loop.own_s[:, :, Doing.GENERATION]
    error = _error(model * factor[:, None], own, loop) if not loop.timed else 0.0
    known = made.tokens[(made.step >= 0) & ~np.isnan(made.tokens)]
    if not len(known):
        return []

    def lengths(given: list[list[int]], rows: IntArray) -> list[list[float]]:
        result: list[list[float]] = [[] for _ in range(ranks)]
        for rank, part in zip(generate.tolist(), given, strict=True):
            result[rank] = made.tokens[rows[part]].tolist()
        return result

    def balanced(step: int) -> list[list[float]]:
        rows = loop.index.rows(None, step)
        return lengths(longest_first(made.tokens[rows], len(generate)), rows)

    def spread_out(step: int) -> list[list[float]]:
        rows = loop.index.rows(None, step)
        return lengths(dealt(made.group[rows], len(generate)), rows)

    def recorded(step: int) -> list[list[float]]:
        return [tokens_of(loop, rank, step).tolist() for rank in range(ranks)]

    cap, lost = cut_of(loop)

    def capped(step: int) -> list[list[float]]:
        if dealing.one_by_one:
            return _handed(dealing, step, cap)
        return [[min(tokens, cap) for tokens in part] for part in recorded(step)]

    def less(deal: Deal) -> FloatArray:
        result = _nothing(loop)
        for step in range(loop.steps):
            took = np.array([decoding.seconds(part) for part in deal(step)])
            if deal is not balanced or took.max() < model[:, step].max():  # it would be left as it is
                result[:, step, Doing.GENERATION] = dealing.less_s(step, took)
        return result

    tries = [_Try("balance", less(balanced), error)]
    if spread:
        tries.append(_Try("spread-groups", less(spread_out), error))
    if lost > 0.0 and not loop.timed:  # what takes longest cannot be cut without losing it
        tries.append(_Try("cap", less(capped), error, cap=cap, lost=lost))
    if not decoding.whole_batches:
        tries.append(
            _Try(
                "partial",
                _stopped(loop, decoding, factor, model),
                error,
            )
        )
    return tries


def _stopped(loop: Loop, decoding: Decoding, factor: FloatArray, model_s: FloatArray) -> FloatArray:
    """What all processes take less if a rollout ends with the 95th of a hundred trajectories."""
    result = _nothing(loop)
    for step in range(loop.steps):
        ends: list[float] = []
        for rank in range(len(loop.processes)):
            ends += [end * factor[rank] for end in decoding.ends_s(tokens_of(loop, rank, step).tolist())]
        if ends:
            stop = float(np.quantile(ends, AWAITED, method="lower"))
            result[:, step, Doing.GENERATION] = np.maximum(model_s[:, step] * factor - stop, 0.0)
    return result
