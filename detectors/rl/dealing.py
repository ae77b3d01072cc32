"""How trajectories come to processes, and what these take less with another way.

Where each process gets its trajectories of a step at once, what it takes is its own. Where they are handed out one by
one, each to a process that is free (list scheduling, Graham 1969), all end together but for the last ones: what counts
is when the last one ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.decode import Decoding
from scalana.detectors.rl.loop import Loop
from scalana.detectors.rl.phases import Doing
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME

_TAKE = BY_NAME["take"].code


@dataclass(slots=True)
class Dealing:
    """Generation by the model, as it was recorded."""

    loop: Loop
    decoding: Decoding
    model_s: FloatArray
    """What the recorded trajectories take ``[ranks, steps]``."""
    factor: FloatArray
    """By which processes take longer ``[ranks]``."""
    one_by_one: bool
    """Whether they are handed out so."""

    def less_s(self, step: int, took_s: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """By how much processes take less for their generation, if those of a step took so long by the model, times the
        factors that they have, or had; each ``[ranks]``."""
        model_s, factor = self.model_s[:, step] * self.factor, self.factor if factor is None else factor
        if not self.one_by_one:
            return np.asarray(model_s - took_s * factor)
        last_s = float(model_s.max())
        part = float((took_s * factor).max()) / last_s if last_s > 0.0 else 1.0
        return np.asarray(self.loop.own_s[:, step, Doing.GENERATION] * (1.0 - part) * (model_s > 0.0))


def handed_one_by_one(loop: Loop, timeline: Timeline) -> bool:
    """Whether processes that generate are called several times a step, each time for about one trajectory."""
    calls, generate = timeline.calls, loop.that_generate()
    served = 0
    for rank in generate.tolist():
        process = loop.processes[rank]
        at = slice(int(calls.first[process.location]), int(calls.first[process.location + 1]))
        begins = calls.exit_s[at][calls.operation[at] == _TAKE]
        mine = loop.trajectories.rank == rank
        # Calls in which a trajectory begins.
        starts = np.sort(loop.trajectories.start_s[mine & (loop.trajectories.step >= 0)])
        served += len(np.unique(np.searchsorted(np.sort(begins), starts, side="right"))) if len(begins) else 0
    made = int(np.isin(loop.trajectories.rank[loop.index.row], generate).sum())
    return served >= SEVERAL * loop.steps * max(len(generate), 1) and made < SEVERAL * served
