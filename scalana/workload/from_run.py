"""The workload of a recorded run: what its section on reinforcement learning is made of."""

from __future__ import annotations

import numpy as np

from scalana.detectors.rl.account import RLAccount
from scalana.detectors.rl.decode import Decoding
from scalana.detectors.rl.loop import DOINGS, Loop
from scalana.detectors.rl.phases import Doing
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.trajectories import StepTimes, Turns, Workload

PHASES = {
    Doing.DATA: "data",
    Doing.STARVATION: "starvation",
    Doing.GENERATION: "generation",
    Doing.VERIFIER: "verifier",
    Doing.LOG_PROB: "log-prob",
    Doing.TRAINING: "training",
    Doing.WEIGHT_SYNC: "weight-sync",
    Doing.EVALUATION: "evaluation",
    Doing.OTHER: "other",
}
"""Phases of a step as a workload names them, in the order in which a step has them."""


def workload_of(account: RLAccount, source: str) -> Workload:
    """Take a workload out of the section of a run.

    Raises:
        WorkloadError: no trajectory of the run lies in a step and has a known length.
    """
    loop = account.loop
    assert loop is not None
    made = loop.trajectories
    rows = np.flatnonzero((made.step >= 0) & (made.tokens > 0))
    if not len(rows):
        raise WorkloadError(
            f"{source}: no trajectory with a known length was recorded; scalana.rl.trajectory(...) marks them, and "
            "mark.end(tokens=...) gives their length"
        )
    rows = rows[np.lexsort((made.start_s[rows], made.step[rows]))]
    step, rank, tokens = made.step[rows], made.rank[rows], made.tokens[rows]
    begins = np.array([[process.bounds_s[number] for number in range(loop.steps)] for process in loop.processes])
    zero = begins.min(axis=0)[step]
    prompt = np.where(made.prompt_tokens[rows] > 0, made.prompt_tokens[rows], np.nan)
    own_s = loop.own_s[:, :, Doing.VERIFIER]
    count = np.zeros(own_s.shape)
    np.add.at(count, (rank, step), 1.0)
    apart = (own_s > 0.0) & (count == 0.0)  # a verifier in a process of its own scores for all
    share = np.where(apart.any(axis=0), own_s.sum(axis=0) / np.maximum(count.sum(axis=0), 1.0), 0.0)
    verifier = own_s[rank, step] / count[rank, step] + share[step]
    longest = tokens.max()
    return Workload(
        step=step,
        group=_numbered(made.group[rows]),
        prompt=prompt,
        response=tokens,
        verifier_s=np.where(verifier > 0.0, verifier, np.nan),
        replica=rank,
        begin_s=made.start_s[rows] - zero,
        end_s=made.end_s[rows] - zero,
        clipped=_clipped(tokens, float(longest)),
        turns=Turns.single(prompt, tokens),
        unit=account.unit,
        source=source,
        decode=decode_of(account.decoding),
        times=times_of(loop),
    )


def _numbered(group: IntArray) -> IntArray:
    """Groups from 0 on, those without stay -1."""
    known = group >= 0
    result = np.full(len(group), -1)
    result[known] = np.unique(group[known], return_inverse=True)[1]
    return result


def _clipped(tokens: FloatArray, longest: float) -> BoolArray:
    """Where no limit is recorded: the longest, if several are exactly as long, and most that are nearly as long."""
    at = tokens == longest
    near = (tokens > 0.98 * longest).sum()
    return np.asarray(at & (at.sum() >= 3) & (at.sum() > near / 2) & (longest > np.median(tokens)))


def decode_of(decoding: Decoding | None) -> Decode | None:
    """The costs that were fitted to a run."""
    if decoding is None:
        return None
    return Decode(
        floor_s=decoding.floor_s,
        sequence_s=decoding.sequence_s,
        start_s=decoding.start_s,
        slots=decoding.slots,
        whole_batches=decoding.whole_batches,
        factor=tuple(float(one) for one in decoding.factor) if len(decoding.factor) else (),
    )


def times_of(loop: Loop) -> StepTimes:
    """What the steps of a run took, by phase: what a process did itself, and what its calls took by themselves."""
    own = loop.own_s[:, :, :DOINGS] + loop.call_s
    return StepTimes(
        wall_s=loop.step_s(),
        phases={name: own[:, :, doing] for doing, name in PHASES.items() if own[:, :, doing].any()},
        trained=loop.tokens,
    )
