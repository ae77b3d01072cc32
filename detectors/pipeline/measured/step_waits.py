"""One measured step, action by action: what waited, and which stage it waited for in the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.measured.replayable import Measured
from scalana.detectors.thresholds.shares import SLIGHT
from scalana.graphs.arrays.types import FloatArray, IntArray

LINK = -1
"""Instead of a stage: the message itself was on its way for most of the wait."""
UNKNOWN = -2


@dataclass(frozen=True)
class StepWaits:
    """The actions of one step, and the waits before them."""

    actions: IntArray
    """Rows in the measured program ``[actions]``."""
    begin_s: FloatArray
    """From the begin of the first action of the step ``[actions]``."""
    end_s: FloatArray
    wait_s: FloatArray
    """How long the rank had waited before it; 0 where it had not ``[actions]``."""
    root: IntArray
    """The stage that the wait was for in the end, or :data:`LINK`, or :data:`UNKNOWN` ``[actions]``."""


def usual_step(measured: Measured) -> int:
    """The row of the step whose length is the median."""
    end = measured.begin_s + measured.duration_s
    steps = range(len(measured.steps))
    length = [float(end[measured.step == k].max() - measured.begin_s[measured.step == k].min()) for k in steps]
    return int(np.argsort(length, kind="stable")[(len(length) - 1) // 2])


def waits_of_step(measured: Measured, step: int) -> StepWaits:
    """The waits of a step, each walked back from producer to producer until one that had not waited."""
    program, operations = measured.program, measured.operations
    begin, end = measured.begin_s, measured.begin_s + measured.duration_s
    chosen = np.flatnonzero(measured.step == step)
    origin = float(begin[chosen].min())
    before = np.full(program.size, origin)
    follows = np.zeros(program.size, bool)
    follows[1:] = (program.rank[1:] == program.rank[:-1]) & (measured.step[1:] == measured.step[:-1])
    before[1:][follows[1:]] = end[:-1][follows[1:]]
    producer = np.full(program.size, -1, np.int64)
    producer[operations.receiver] = operations.sender
    waited = np.where(producer >= 0, np.maximum(begin - before, 0.0), 0.0)
    waited = np.where(waited > SLIGHT * (end - begin), waited, 0.0)
    root = np.full(program.size, UNKNOWN, np.int64)
    for action in chosen[waited[chosen] > 0].tolist():
        root[action] = _root(action, producer, before, begin, end, waited, program.stage)
    return StepWaits(chosen, begin[chosen] - origin, end[chosen] - origin, waited[chosen], root[chosen])


def _root(
    action: int,
    producer: IntArray,
    before: FloatArray,
    begin: FloatArray,
    end: FloatArray,
    waited: FloatArray,
    stage: IntArray,
) -> int:
    made = int(producer[action])
    travelled = begin[action] - max(before[action], end[made])
    if travelled > 0.5 * waited[action]:
        return LINK
    for _ in range(len(stage)):
        if waited[made] <= 0 or producer[made] < 0:
            break
        made = int(producer[made])
    return int(stage[made])
