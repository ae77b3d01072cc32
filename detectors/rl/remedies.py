"""What processes would take less with remedies that change how a part of a step is done, not only how long it takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.causes import tokens_of
from scalana.detectors.rl.dealing import Dealing
from scalana.detectors.rl.decode import longest_first
from scalana.detectors.rl.list_scheduling import runs_on
from scalana.detectors.rl.loop import DOINGS, Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(slots=True)
class Remedy:
    """A change of the recorded steps."""

    change: str
    """:attr:`Prediction.change`."""
    less_s: FloatArray
    """By how much processes take less for what they do, more if it is negative ``[ranks, steps, doings]``."""
    modelled: bool
    """Whether generation is as the model has it, so that the model's error is its own."""


def remedies(loop: Loop, dealing: Dealing | None) -> list[Remedy]:
    """All that make sense; ``dealing`` is None where generation has no model."""
    found = []
    if dealing is not None:
        found += _expected_first(dealing)
        found.append(_more_rollouts(loop, dealing))
        if not dealing.decoding.whole_batches:
            found.append(_overlapped_verifier(loop))
    elif loop.own_s[:, :, Doing.STARVATION].any():
        found.append(_more_rollouts(loop, None))
    found.append(_shared_sync(loop))
    if len(train := loop.that_train()) and not len(np.intersect1d(train, loop.that_do(Doing.GENERATION))):
        found.append(_more_trainers(loop))
    return found


def _nothing(loop: Loop) -> FloatArray:
    return np.zeros((len(loop.processes), loop.steps, DOINGS))


def expected(tokens: FloatArray, group: IntArray) -> FloatArray:
    """What is expected of trajectories that are not known yet: the mean of the other answers to the same prompt, or of
    all where there are none ``[trajectories]``."""
    mean = float(tokens.mean()) if len(tokens) else 0.0
    _, number = np.unique(group, return_inverse=True)
    total, count = np.bincount(number, tokens), np.bincount(number)
    others = count[number] - 1
    told = (total[number] - tokens) / np.maximum(others, 1)
    return np.where((others > 0) & (group >= 0), told, mean)


def _expected_first(dealing: Dealing) -> list[Remedy]:
    """The longest first where lengths are not known, but those of other answers to the same prompt are."""
    loop = dealing.loop
    made, generate, less = loop.trajectories, loop.that_generate(), _nothing(loop)
    told = False
    for step in range(loop.steps):
        rows = loop.index.rows(None, step)
        guess = expected(made.tokens[rows], made.group[rows])
        if not len(rows) or np.ptp(guess) <= 0.0:
            continue
        told = True
        took_s = np.zeros(len(loop.processes))
        for rank, part in zip(generate.tolist(), longest_first(guess, len(generate)), strict=True):
            took_s[rank] = dealing.decoding.seconds(made.tokens[rows[part]].tolist())
        less[:, step, Doing.GENERATION] = dealing.less_s(step, took_s)
    return [Remedy("expected-first", less, True)] if told else []


def _more_rollouts(loop: Loop, dealing: Dealing | None) -> Remedy:
    """Each process with the trajectories of a step halved among as many more; one that waits for trajectories gets
    them in half of the time from one batch to the next."""
    less = _nothing(loop)
    waits = loop.own_s[:, :, Doing.STARVATION]
    length = np.stack([np.diff(process.bounds_s) for process in loop.processes])
    less[:, :, Doing.STARVATION] = waits - np.maximum(length / DOUBLED - (length - waits), 0.0)
    if dealing is not None and loop.timed and runs_on(loop):
        less[:, :, Doing.GENERATION] = loop.own_s[:, :, Doing.GENERATION] * (1.0 - 1.0 / DOUBLED)
        return Remedy("more-rollouts", less, True)
    for step in range(loop.steps if dealing is not None else 0):
        assert dealing is not None
        took_s = np.zeros(len(loop.processes))
        for rank in loop.that_generate().tolist():
            tokens = tokens_of(loop, rank, step).tolist()
            if loop.timed and len(tokens) == 1:  # a call for all that the process has to do in a step
                tokens = [tokens[0] / DOUBLED] * DOUBLED
            took_s[rank] = max(dealing.decoding.seconds(tokens[part::DOUBLED]) for part in range(DOUBLED))
        less[:, step, Doing.GENERATION] = np.maximum(dealing.less_s(step, took_s), 0.0)
    return Remedy("more-rollouts", less, dealing is not None)


def _more_trainers(loop: Loop) -> Remedy:
    """Each process with the rows of a step halved among as many more, where training has processes of its own."""
    less = _nothing(loop)
    less[:, :, Doing.TRAINING] = loop.own_s[:, :, Doing.TRAINING] * (1.0 - 1.0 / DOUBLED)
    return Remedy("more-trainers", less, False)


def _overlapped_verifier(loop: Loop) -> Remedy:
    """Each answer scored when it ends, one after the other, each in as long as an average one of its process."""
    made, less = loop.trajectories, _nothing(loop)
    for rank, process in enumerate(loop.processes):
        for step in range(loop.steps):
            whole = float(loop.own_s[rank, step, Doing.VERIFIER])
            ends = np.sort(made.end_s[(made.rank == rank) & (made.step == step)])
            ends = ends[ends <= process.bounds_s[step + 1]]
            if whole <= 0.0 or not len(ends):
                continue
            done = 0.0
            for end in ends.tolist():
                done = max(done, end) + whole / len(ends)
            less[rank, step, Doing.VERIFIER] = max(whole - (done - float(ends[-1])), 0.0)
    return Remedy("overlapped-verifier", less, False)


def _shared_sync(loop: Loop) -> Remedy:
    """What processes do to send new weights shared by all that train, rather than done by one of them or by a driver.
    Those that only generate receive them, as before."""
    less, own = _nothing(loop), loop.own_s[:, :, Doing.WEIGHT_SYNC]
    train = loop.that_train()
    send = np.setdiff1d(np.arange(len(own)), np.setdiff1d(loop.that_do(Doing.GENERATION), train))
    if len(train):
        less[send, :, Doing.WEIGHT_SYNC] = own[send]
        less[train, :, Doing.WEIGHT_SYNC] -= own[send].sum(axis=0) / len(train)
    return Remedy("sharded-sync", less, False)
