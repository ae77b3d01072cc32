"""A workload as columns: trajectories, their turns, and what the steps of the run took that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.workload.costs import Decode

_SOON = 1e-3
"""Part of a step by which the clocks of its processes may differ."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What trajectories consist of, one row a turn; those of a trajectory follow each other."""

    first: IntArray
    """Row of the first turn of each trajectory, and the number of all turns ``[trajectories + 1]``."""
    read: FloatArray
    """Tokens that are read before it and are not in the cache: a prompt, or the answer of a tool ``[turns]``."""
    tokens: FloatArray
    """Tokens that are generated in it ``[turns]``."""
    tool_s: FloatArray
    """Seconds that tools take after it, 0 for none ``[turns]``."""

    @classmethod
    def single(cls, prompt: FloatArray, response: FloatArray) -> Turns:
        """One turn each, without tools."""
        rows = len(response)
        return cls(np.arange(rows + 1), np.nan_to_num(prompt), response.astype(np.float64), np.zeros(rows))

    @property
    def count(self) -> IntArray:
        """How many a trajectory has ``[trajectories]``."""
        return np.diff(self.first)

    def of(self, rows: IntArray) -> Turns:
        """Those of some trajectories, in their order."""
        count = self.count[rows]
        first = np.concatenate(([0], np.cumsum(count)))
        taken = np.repeat(self.first[rows] - first[:-1], count) + np.arange(first[-1])
        return Turns(first, self.read[taken], self.tokens[taken], self.tool_s[taken])


@dataclass(frozen=True, slots=True)
class StepTimes:
    """What the recorded steps took: the answer that a replay is compared with."""

    wall_s: FloatArray
    """Length of every step ``[steps]``."""
    phases: Mapping[str, FloatArray]
    """What each process spent in a phase by itself, with its calls and without waiting, by name ``[ranks, steps]``."""
    trained: FloatArray
    """Tokens that each process trained on, NaN where they are not known ``[ranks, steps]``."""

    @property
    def ranks(self) -> int:
        """Processes that were recorded."""
        return len(self.trained)

    def of(self, steps: IntArray) -> StepTimes:
        """Those of some steps."""
        phases = {name: seconds[:, steps] for name, seconds in self.phases.items()}
        return StepTimes(self.wall_s[steps], phases, self.trained[:, steps])


@dataclass(frozen=True, slots=True)
class Workload(ColumnTable):
    """Trajectories, one row each, by step and in the order in which they were begun."""

    step: IntArray
    """From 0 on ``[trajectories]``."""
    group: IntArray
    """Number of its prompt, the same for all answers to it in a step; -1 for none ``[trajectories]``."""
    prompt: FloatArray
    """Tokens of the prompt, NaN where they are not known ``[trajectories]``."""
    response: FloatArray
    """Tokens generated in all turns ``[trajectories]``."""
    verifier_s: FloatArray
    """Seconds to score it, NaN where they are not known ``[trajectories]``."""
    replica: IntArray
    """Process that generated it, -1 where it is not known ``[trajectories]``."""
    begin_s: FloatArray
    """Seconds since its step began, NaN where they are not known ``[trajectories]``."""
    end_s: FloatArray
    """Likewise ``[trajectories]``."""
    clipped: BoolArray
    """Whether it ended because of a limit of its length ``[trajectories]``."""
    turns: Turns
    unit: str = "token"
    """What lengths are counted in."""
    source: str = ""
    """Where it comes from, for people."""
    decode: Decode | None = None
    """What generation costs, as fitted to the run; None where nothing shows it."""
    times: StepTimes | None = field(default=None)
    """What the steps took; None where nothing shows it."""

    @property
    def steps(self) -> int:
        """How many it has."""
        return int(self.step.max(initial=-1)) + 1

    @property
    def generating(self) -> IntArray:
        """Replicas that generated some of it, as far as they are known, ascending."""
        return np.unique(self.replica[self.replica >= 0])

    @property
    def runs_on(self) -> bool:
        """Whether generation went on when most of its steps ended: it did not await their trajectories."""
        if self.times is None or self.steps < 2:
            return False
        beyond = self.end_s > self.times.wall_s[self.step] * (1.0 + _SOON)
        return len(np.unique(self.step[beyond & (self.step < self.steps - 1)])) >= (self.steps - 1) / 2

    def chosen(self, steps: IntArray) -> Workload:
        """Some of its steps, which are numbered from 0 on again."""
        number = np.full(self.steps, -1)
        number[steps] = np.arange(len(steps))
        rows = np.flatnonzero(number[self.step] >= 0)
        return replace(
            self.rows(rows), step=number[self.step[rows]], times=self.times.of(steps) if self.times else None
        )

    def rows(self, rows: IntArray) -> Workload:
        """Some trajectories, in their order."""
        return replace(
            self,
            step=self.step[rows],
            group=self.group[rows],
            prompt=self.prompt[rows],
            response=self.response[rows],
            verifier_s=self.verifier_s[rows],
            replica=self.replica[rows],
            begin_s=self.begin_s[rows],
            end_s=self.end_s[rows],
            clipped=self.clipped[rows],
            turns=self.turns.of(rows),
        )

    def prompts(self) -> IntArray:
        """Number of the prompt of each trajectory, over all steps: prompts of different steps are different. Those
        without a group have one each ``[trajectories]``."""
        alone = self.group < 0
        group = np.where(alone, self.group.max(initial=0) + 1 + np.arange(len(self)), self.group)
        _, number = np.unique(np.stack((self.step, group)), axis=1, return_inverse=True)
        return np.asarray(number).reshape(-1)
