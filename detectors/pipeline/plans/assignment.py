"""Which rank holds which layers: a cut of the layers into stages, and the rank of every stage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.engines import Engine
from scalana.detectors.pipeline.plans.profile import LayerProfile
from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True)
class Stages:
    """A partition with its placement."""

    cut: IntArray
    """The first layer of every stage, and the number of layers ``[stages + 1]``."""
    rank: IntArray
    """``[stages]``"""

    @classmethod
    def of_layers(cls, rank_of_layer: IntArray) -> Stages:
        """The stages where layers that follow each other on one rank are one."""
        begins = np.flatnonzero(np.concatenate([[True], rank_of_layer[1:] != rank_of_layer[:-1]]))
        return cls(np.append(begins, len(rank_of_layer)).astype(np.int64), rank_of_layer[begins])

    @classmethod
    def sized(cls, sizes: IntArray, rank: IntArray) -> Stages:
        """Stages with these numbers of layers."""
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), rank)

    @property
    def count(self) -> int:
        """How many stages there are."""
        return len(self.rank)

    @property
    def sizes(self) -> IntArray:
        """The number of layers of each ``[stages]``."""
        return np.diff(self.cut)

    @property
    def rank_of_layer(self) -> IntArray:
        """``[layers]``"""
        return np.repeat(self.rank, self.sizes)

    @property
    def key(self) -> bytes:
        """The same for the same stages."""
        return self.cut.tobytes() + self.rank.tobytes()


@dataclass(frozen=True)
class StageCosts:
    """Costs of the stages of an assignment."""

    rank: IntArray
    """``[stages]``"""
    seconds: FloatArray
    """By kind and stage, with the host's time, as the engine spends them ``[4, stages]``."""
    activation: FloatArray
    """``[stages]``"""
    static: FloatArray
    """``[ranks]``"""
    down_s: FloatArray
    """How long a message takes from a stage to the next; 0 for the last ``[stages]``."""
    up_s: FloatArray
    """How long one takes from a stage to the one before; 0 for the first ``[stages]``."""

    @property
    def load_s(self) -> FloatArray:
        """What a microbatch takes of each rank at least ``[ranks]``."""
        split = self.seconds[Kind.I] + self.seconds[Kind.W]
        work = self.seconds[Kind.F] + np.minimum(self.seconds[Kind.B], split)
        return np.asarray(np.bincount(self.rank, work, minlength=len(self.static)), np.float64)


def stage_costs_of(profile: LayerProfile, stages: Stages, engine: Engine, host: bool = True) -> StageCosts:
    """Costs of stages; ``host`` says whether the host's time is part of those of actions."""
    cut, rank = stages.cut, stages.rank
    begins = cut[:-1]
    seconds = np.add.reduceat(profile.seconds, begins, axis=1)
    if engine.split_first:
        seconds[Kind.W, 0] += seconds[Kind.I, 0]
        seconds[Kind.I, 0] = 0.0
    if host:
        seconds += profile.host_s
    static = np.full(profile.ranks, profile.beside)
    np.add.at(static, rank, np.add.reduceat(profile.static, begins))
    down, up = np.zeros(len(rank)), np.zeros(len(rank))
    travel = profile.output[cut[1:-1] - 1] / profile.bytes_per_s
    apart = rank[1:] != rank[:-1]
    down[:-1] = np.where(apart, profile.latency_s[rank[:-1], rank[1:]] + travel, 0.0)
    up[1:] = np.where(apart, profile.latency_s[rank[1:], rank[:-1]] + travel, 0.0)
    activation: FloatArray = np.add.reduceat(profile.activation, begins)
    return StageCosts(rank, seconds, activation, static, down, up)
