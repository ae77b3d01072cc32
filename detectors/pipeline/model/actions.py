"""What a pipeline runs: for every rank an ordered list of actions on (stage, microbatch).

Words: a *stage* is a consecutive part of the model; a rank may hold several (virtual chunks). *F* is a forward pass,
*B* a whole backward pass, *I* the part of it that the stage before waits for (gradients of the input), *W* the rest
(gradients of the weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


class Kind(IntEnum):
    """What an action computes."""

    F = 0
    B = 1
    I = 2  # noqa: E741  (the letter that schedules use)
    W = 3


class OrderError(ValueError):
    """An order that is no pipeline program: the message names the action."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action, by itself; :class:`Program` holds them as columns."""

    kind: Kind
    stage: int
    microbatch: int
    joined: bool = False
    """Whether the next action on the rank belongs to this one (an overlapped pair of a forward and a backward)."""

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.name}{self.microbatch}"


@dataclass(frozen=True)
class Program:
    """The order of actions on every rank. Which rank holds a stage follows from it: any placement can be said."""

    first: IntArray
    """Where the actions of a rank begin, and the end of all ``[ranks + 1]``."""
    kind: IntArray
    """A :class:`Kind` each ``[actions]``."""
    stage: IntArray
    """``[actions]``"""
    microbatch: IntArray
    """``[actions]``"""
    joined: BoolArray
    """Whether the next action belongs to this one: both are run before either sends ``[actions]``."""

    @classmethod
    def of(cls, orders: Sequence[Sequence[Action]]) -> Program:
        """The program of an order of actions per rank.

        Raises:
            OrderError: as :meth:`check` does.
        """
        rows = [action for order in orders for action in order]
        table = np.array([(a.kind, a.stage, a.microbatch, a.joined) for a in rows], np.int64).reshape(-1, 4)
        first = np.cumsum([0, *(len(order) for order in orders)])
        kind, stage, microbatch = (np.ascontiguousarray(table[:, column]) for column in range(3))
        program = cls(first.astype(np.int64), kind, stage, microbatch, table[:, 3] != 0)
        program.check()
        return program

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.first) - 1

    @property
    def size(self) -> int:
        """How many actions there are."""
        return len(self.kind)

    @cached_property
    def stages(self) -> int:
        """How many stages there are."""
        return int(self.stage.max(initial=-1)) + 1

    @cached_property
    def microbatches(self) -> int:
        """How many microbatches there are."""
        return int(self.microbatch.max(initial=-1)) + 1

    @cached_property
    def rank(self) -> IntArray:
        """The rank of every action ``[actions]``."""
        return np.repeat(np.arange(self.ranks), np.diff(self.first))

    @cached_property
    def rank_of_stage(self) -> IntArray:
        """The rank that holds a stage ``[stages]``."""
        holder = np.full(self.stages, -1, np.int64)
        holder[self.stage] = self.rank
        return holder

    @cached_property
    def position(self) -> IntArray:
        """The action of a kind, stage and microbatch, -1 where there is none ``[4, stages, microbatches]``."""
        table = np.full((4, self.stages, self.microbatches), -1, np.int64)
        table[self.kind, self.stage, self.microbatch] = np.arange(self.size)
        return table

    @cached_property
    def backward(self) -> IntArray:
        """The action that makes the gradient of the input, B or I ``[stages, microbatches]``; -1 in inference."""
        return np.maximum(self.position[Kind.B], self.position[Kind.I])

    def action(self, index: int) -> Action:
        """One action."""
        return Action(
            Kind(int(self.kind[index])), int(self.stage[index]), int(self.microbatch[index]), bool(self.joined[index])
        )

    def orders(self) -> list[list[Action]]:
        """The actions of every rank, in order."""
        return [[self.action(i) for i in range(a, b)] for a, b in zip(self.first[:-1], self.first[1:], strict=True)]

    def check(self) -> None:
        """Raise an :class:`OrderError` for what no engine could run, whatever the other ranks do."""
        if not self.size:
            raise OrderError("the order has no actions")
        if min(self.stage.min(), self.microbatch.min()) < 0:
            raise OrderError("stages and microbatches are numbered from 0")
        holders = np.unique(np.column_stack([self.stage, self.rank]), axis=0)
        twice = np.flatnonzero(np.bincount(holders[:, 0]) > 1)
        if len(twice):
            raise OrderError(f"stage {twice[0]} stands on ranks {holders[holders[:, 0] == twice[0], 1].tolist()}")
        seen = (self.position >= 0).sum()
        if seen != self.size:
            keys = np.ravel_multi_index((self.kind, self.stage, self.microbatch), self.position.shape)
            values, counts = np.unique(keys, return_counts=True)
            double = int(np.flatnonzero(keys == values[counts > 1][0])[0])
            raise OrderError(f"{self.action(double)} occurs twice in the order")
        self._check_complete()
        self._check_local_order()

    def _check_complete(self) -> None:
        forward, whole, inputs, weights = self.position >= 0
        missing = np.argwhere(~forward)
        if len(missing):
            raise OrderError("{}F{} is missing in the order".format(*missing[0]))
        both = np.argwhere(whole & (inputs | weights))
        if len(both):
            raise OrderError("stage {} microbatch {} has a whole backward and a split one".format(*both[0]))
        back = whole | inputs
        if back.any() and not back.all():
            raise OrderError("{}B{} is missing in the order".format(*np.argwhere(~back)[0]))
        if (weights & ~inputs).any():
            raise OrderError("{0}W{1} has no {0}I{1}".format(*np.argwhere(weights & ~inputs)[0]))
        ends = self.first[1:][np.diff(self.first) > 0] - 1
        if self.joined[ends].any():
            raise OrderError("the last action of a rank has no action to overlap with")

    def _check_local_order(self) -> None:
        """What depends on each other on one rank stands in this order."""
        forward, weights, back = self.position[Kind.F], self.position[Kind.W], self.backward
        near = self.rank_of_stage[1:] == self.rank_of_stage[:-1]
        pairs = [(forward[:-1][near], forward[1:][near]), (back[1:][near], back[:-1][near]), (forward, back)]
        pairs.append((self.position[Kind.I], weights))
        for earlier, later in pairs:
            wrong = np.flatnonzero(((earlier > later) & (later >= 0)).ravel())
            if len(wrong):
                one, two = (self.action(int(side.ravel()[wrong[0]])) for side in (earlier, later))
                rank = self.rank_of_stage[two.stage]
                raise OrderError(f"rank {rank} would run {two} before {one}, which it needs")


def peak_activations(program: Program, weight: FloatArray | None = None) -> FloatArray:
    """The most activations that a rank holds at a time ``[ranks]``; the order alone decides it.

    A microbatch's activations of a stage are held from its forward to the end of its backward (of W, where it is
    split). ``weight`` is what one holds, by stage ``[stages]`` (its number of layers, say); 1 if it is not given.
    """
    weight = np.ones(program.stages) if weight is None else weight
    splits = program.position[Kind.W] >= 0
    frees = (program.kind == Kind.B) | (program.kind == Kind.W)
    frees |= (program.kind == Kind.I) & ~splits[program.stage, program.microbatch]
    change = weight[program.stage] * ((program.kind == Kind.F).astype(float) - frees)
    # Before an action that frees, what it frees is still held: the highest level is after a forward.
    bounds = zip(program.first[:-1], program.first[1:], strict=True)
    return np.array([np.cumsum(change[a:b]).max(initial=0.0) for a, b in bounds])


def forward_only(program: Program) -> bool:
    """Whether the program has no backward passes (inference)."""
    return not bool((program.kind != Kind.F).any())


def spread_costs(program: Program, costs: FloatArray) -> FloatArray:
    """Seconds of every action ``[actions]`` from costs ``[4, stages]`` or ``[4, stages, microbatches]``, by
    :class:`Kind`."""
    if costs.ndim == 2:
        return np.ascontiguousarray(costs[program.kind, program.stage])
    return np.ascontiguousarray(costs[program.kind, program.stage, program.microbatch])
