"""A measured pipeline with each cause of lost time switched on or off.

Durations are taken apart as

    duration = usual cost of (stage, kind) x length of the microbatch x rest

where the length is what all stages have in common in a microbatch (their median), and the rest is what one stage took
longer than usual at one microbatch: a straggler. Without imbalance every rank has the mean load: the usual costs of the
stages on a rank are scaled together, or are all the same, whichever the order of the schedule suits better. (A standard
schedule wants stages that are alike; an order that was made for a plan may have stages that differ.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scalana.detectors.pipeline.measured.replayable import Measured
from scalana.detectors.pipeline.model.actions import Kind, Program
from scalana.detectors.pipeline.model.simulate import Links, Setting, replay
from scalana.detectors.thresholds.seconds import SHORTEST_S
from scalana.graphs.arrays.types import FloatArray


class Cause(IntEnum):
    """What can be switched off; the number is its bit."""

    IMBALANCE = 0
    STRAGGLER = 1
    LENGTHS = 2
    LINK = 3
    HOST = 4
    DATA = 5
    GRADIENTS = 6
    OPTIMIZER = 7


EVERYTHING = (1 << len(Cause)) - 1


@dataclass(frozen=True)
class Parts:
    """The durations of a program, taken apart."""

    usual_s: FloatArray
    """Median by kind and stage, seconds; 0 where there is no such action ``[4, stages]``."""
    length: FloatArray
    """Of every action's microbatch, 1 is usual ``[actions]``."""
    rest: FloatArray
    """``[actions]``"""
    even: FloatArray
    """By what the usual costs of a stage are multiplied for all ranks to have the same load, stages of a rank differing
    as they do ``[stages]``."""
    alike: FloatArray
    """The same where stages of a rank are alike, too ``[stages]``."""


def take_apart(program: Program, duration_s: FloatArray) -> Parts:
    """Take measured durations ``[actions]`` apart."""
    usual = np.zeros((4, program.stages))
    for kind in Kind:
        for stage in range(program.stages):
            chosen = (program.kind == kind) & (program.stage == stage)
            if chosen.any():
                usual[kind, stage] = max(float(np.median(duration_s[chosen])), SHORTEST_S)
    usually = usual[program.kind, program.stage]
    length = _common(program, duration_s, usually)
    work = np.zeros(program.ranks)
    np.add.at(work, program.rank, usually)
    load = work / program.microbatches
    even = load.mean() / np.where(load > 0, load, np.inf)
    even = np.where(even > 0, even, 1.0)[program.rank_of_stage]
    of_stage = np.zeros(program.stages)
    np.add.at(of_stage, program.stage, usually)
    held = np.bincount(program.rank_of_stage, minlength=program.ranks)[program.rank_of_stage]
    alike = load.mean() * program.microbatches / held / np.where(of_stage > 0, of_stage, np.inf)
    return Parts(usual, length, duration_s / usually / length, even, np.where(alike > 0, alike, 1.0))


def _common(program: Program, duration_s: FloatArray, usually_s: FloatArray) -> FloatArray:
    """What the stages have in common in a microbatch ``[actions]``: the median over stages of what they took for it.

    With two stages, the smaller one: what only one of them took longer is no length.
    """
    taken, usual = (np.zeros((program.stages, program.microbatches)) for _ in range(2))
    np.add.at(taken, (program.stage, program.microbatch), duration_s)
    np.add.at(usual, (program.stage, program.microbatch), usually_s)
    if program.stages == 1:
        return np.ones(program.size)
    relative = taken / usual
    common = relative.min(axis=0) if program.stages == 2 else np.median(relative, axis=0)
    return np.maximum(common, SHORTEST_S)[program.microbatch]


class Switches:
    """Replays of a measured pipeline, by which causes are on."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.parts = take_apart(measured.program, measured.duration_s)
        self.even = self.parts.even
        """By what the usual costs of a stage are multiplied where there is no imbalance ``[stages]``."""
        if measured.program.stages > measured.program.ranks:
            self.even = min((self.parts.even, self.parts.alike), key=self._balanced_s)

    def _balanced_s(self, even: FloatArray) -> float:
        """How long all takes without any cause, if this is what no imbalance means."""
        self.even = even
        return replay(self.measured.operations, self.setting(0)).makespan_s

    def duration_s(self, on: int) -> FloatArray:
        """Durations with these causes on ``[actions]``; ``on`` is a mask of bits of :class:`Cause`."""
        program, parts = self.measured.program, self.parts
        usual = parts.usual_s if on >> Cause.IMBALANCE & 1 else parts.usual_s * self.even
        seconds = usual[program.kind, program.stage]
        if on >> Cause.LENGTHS & 1:
            seconds = seconds * parts.length
        return seconds * parts.rest if on >> Cause.STRAGGLER & 1 else seconds

    def setting(self, on: int) -> Setting:
        """What a replay with these causes on takes."""
        m = self.measured
        lead = np.zeros(m.operations.size)
        host = bool(on >> Cause.HOST & 1)
        for cause, seconds in ((Cause.HOST, m.host_s), (Cause.DATA, m.data_s), (Cause.GRADIENTS, m.gradients_s)):
            if on >> cause & 1:
                lead += seconds
        if on >> Cause.OPTIMIZER & 1:
            lead += m.optimizer_s
        tail = np.zeros(m.program.ranks)
        for row, cause in enumerate((Cause.GRADIENTS, Cause.OPTIMIZER)):
            if on >> cause & 1:
                tail = tail + m.tail_s[row]
        links = m.links if on >> Cause.LINK & 1 else Links.none(m.operations)
        late = m.late_s if host else np.zeros_like(m.late_s)
        return Setting(self.duration_s(on), links, lead, late, tail)

    def present(self) -> list[Cause]:
        """The causes that change anything at all."""
        m, parts = self.measured, self.parts
        there = {
            Cause.IMBALANCE: bool((np.abs(self.even - 1) > 1e-12).any()),
            Cause.STRAGGLER: bool((np.abs(parts.rest - 1) > 1e-12).any()),
            Cause.LENGTHS: bool((np.abs(parts.length - 1) > 1e-12).any()),
            Cause.LINK: bool((m.links.latency_s > 0).any()),
            Cause.HOST: bool((m.host_s > 0).any() or (m.late_s > 0).any()),
            Cause.DATA: bool((m.data_s > 0).any()),
            Cause.GRADIENTS: bool((m.gradients_s > 0).any() or (m.tail_s[0] > 0).any()),
            Cause.OPTIMIZER: bool((m.optimizer_s > 0).any() or (m.tail_s[1] > 0).any()),
        }
        return [cause for cause in Cause if there[cause]]
