"""What the messages of a line or a ring of ranks may be, and how that is judged: one type, one check, one score.

A :class:`Hypothesis` labels every message, at both ends, with the action, stage and microbatch that it is of. Each
reader of this folder makes hypotheses of one family; :meth:`Hypothesis.is_possible` checks any of them, and of those
that are possible, :meth:`Hypothesis.unevenness` says which one explains the times of actions best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.recognised.between_messages import NO_PAUSES, Events, PauseRows, Read, read_events
from scalana.detectors.pipeline.recognised.chains import CAME, WENT, Chain
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Known:
    """What is known of ranks beside their messages."""

    training: bool = False
    """Something shows training steps (an optimizer): what looks like other programs too is taken for a pipeline."""
    tensors: bool = False
    """Their messages are torch's."""
    met_s: Callable[[], Mapping[int, FloatArray]] = dict
    """Tells by rank when it met others beside these messages, in order ``[meetings]``."""
    pauses: Callable[[], PauseRows] = lambda: NO_PAUSES
    """Tells what ranks did beside messages and computing."""


@dataclass(frozen=True)
class Hypothesis:
    """A pipeline that some messages may be."""

    ranks: tuple[int, ...]
    """The ranks in the order of their stages."""
    step: IntArray
    """Of every microbatch ``[microbatches]``."""
    events: Events
    """Its messages, by action, chunk and microbatch."""
    beside: Events
    """Those that are none of it: of evaluations, or after its last whole step."""
    between_ends: Events | None = None
    """Those between the ends of its line."""

    forwards_only: bool = False
    """Whether it computes no backwards."""
    returned: IntArray | None = None
    """How many microbatches before was the one that the first rank waited for to come back ``[microbatches]``; 0 for
    none."""
    first: int = 0
    """Which microbatch of the program the first one of ``step`` is: those before are left out."""
    doubtful: bool = False
    """Whether its ranks may as well hold several stages each, in an order that is not recognised: what a rank does in
    all is known, but not what each action is."""
    stages: IntArray | None = None
    """Those of every place ``[places, chunks]``; None where they go round and round, and microbatches are counted as
    their messages follow each other. Then a number may be that of another microbatch, where backwards go in another
    order than forwards."""

    @classmethod
    def of(cls, chain: Chain, step: IntArray, events: Events, stages: IntArray | None = None) -> Hypothesis:
        """One of all messages of a chain."""
        nothing = events.take(np.zeros(len(events.place), bool))
        return cls(chain.ranks, step, events, nothing, chain.between_ends, stages=stages)

    @property
    def microbatches(self) -> IntArray:
        """How many every step has ``[steps]``."""
        return np.bincount(self.step)

    @cached_property
    def placement(self) -> IntArray:
        """The stages of every place ``[places, chunks]``."""
        places, chunks = len(self.ranks), int(self.events.chunk.max(initial=0)) + 1
        return np.arange(places * chunks).reshape(chunks, places).T if self.stages is None else self.stages

    def read(self, pauses: PauseRows = NO_PAUSES) -> Read:
        """What it did; ``rank`` in it counts stages. Forwards and backwards between the same two messages are told
        apart by what they take elsewhere.

        ``pauses`` are what ranks did beside messages and computing.
        """
        place = np.full(max(*self.ranks, int(pauses.rank.max(initial=0))) + 1, -1, np.int64)
        place[list(self.ranks)] = np.arange(len(self.ranks))
        beside = self.beside if self.between_ends is None else self.beside.with_others(self.between_ends)
        pauses = pauses.on(place).with_others(beside.place, beside.begin_s, beside.end_s)
        return read_events(self.events, len(self.ranks), self.step, pauses, self.returned, self.stages)

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Begin and end of messages as they come to a stage and leave it, forwards and backwards
        ``[2, 2, stages, microbatches]`` each: NaN where there are none."""
        events = self.events
        begin_s, end_s = np.full((2, 2, 2, self.placement.size, len(self.step)), np.nan)
        stage = self.placement[events.place, events.chunk]
        at = events.is_send.astype(int), events.backward.astype(int), stage, events.number
        begin_s[at], end_s[at] = events.begin_s, events.end_s
        return begin_s, end_s

    def is_possible(self) -> bool:
        """Whether each message is there, both its ends agree, nothing is sent before that came of which it is made, and
        gradients are as large as what they are of."""
        return self.is_complete() and self._is_in_order() and self._ends_agree() and self._comes_back()

    def is_complete(self) -> bool:
        """Whether both ends of each message are there."""
        begin_s, _ = self.moments
        ends = [begin_s[WENT, 0, :-1], begin_s[CAME, 0, 1:]]
        if not self.forwards_only:
            ends += [begin_s[CAME, 1, :-1], begin_s[WENT, 1, 1:]]
        return not any(np.isnan(one[self._hops]).any() for one in ends)

    @cached_property
    def _hops(self) -> BoolArray:
        """Whether a stage is on another rank than the one before, from the second one on ``[stages - 1]``."""
        place_of = np.empty(self.placement.size, np.int64)
        place_of[self.placement] = np.arange(len(self.ranks))[:, None]
        return np.asarray(place_of[1:] != place_of[:-1])

    def _is_in_order(self) -> bool:
        """Whether nothing is sent before its rank can have made it, nor comes back before it went."""
        begin_s, end_s = self.moments
        came_s = end_s[CAME].copy()  # of what each action is made; at the begin of the model nothing shows it
        inside = np.flatnonzero(~self._hops)
        for stage in inside:
            came_s[0, stage + 1] = came_s[0, stage]
        came_s[1, -1] = came_s[0, -1]
        for stage in inside[::-1]:
            came_s[1, stage] = came_s[1, stage + 1]
        late = came_s > begin_s[WENT]
        late |= came_s[0] > begin_s[WENT, 1]
        for one_s in (begin_s, end_s):
            late |= one_s[WENT, 0] > one_s[CAME, 1]
        return not late.any()

    def _ends_agree(self) -> bool:
        """Whether both ends say the same of a message. Where microbatches are counted they do if each is there."""
        if self.stages is None:
            return True
        events = self.events
        target = self.placement[events.place, events.chunk] + events.is_send * np.where(events.backward, -1, 1)
        said = np.stack((events.backward, target, events.number))
        sent, came = (
            said[:, ends][:, np.argsort(events.message[ends], kind="stable")]
            for ends in (events.is_send, ~events.is_send)
        )
        return np.array_equal(sent, came)

    def _comes_back(self) -> bool:
        """Whether each gradient is as large as what it is of; where microbatches are counted, all of two neighbours
        together."""
        if self.forwards_only:
            return True
        events = self.events
        upper = events.backward == events.is_send  # the end of a message at the later one of its two stages
        edge = self.placement[events.place, events.chunk] - upper
        size = np.full((2, 2, self.placement.size, len(self.step)), -1, np.int64)
        size[upper.astype(int), events.backward.astype(int), edge, events.number] = events.bytes
        size = np.sort(size, axis=-1) if self.stages is None else size
        return bool((size[:, 0] == size[:, 1]).all())

    def unevenness(self, pauses: PauseRows) -> float:
        """How much the actions of a kind and stage differ in length: the median over these of the mean deviation from
        the median, as a part of that."""
        rows = self.read(pauses).rows
        length_s, key = rows.end_s - rows.begin_s, rows.stage * len(Kind) + rows.kind
        parts: list[float] = []
        for one in np.unique(key).tolist():
            mine = length_s[key == one]
            middle = np.median(mine)
            parts.append(float(np.abs(mine - middle).mean() / max(middle, 1e-9)))
        return float(np.median(parts)) if parts else np.inf


def evenest(found: Iterable[Hypothesis | None], known: Known) -> Hypothesis | None:
    """Of what some messages may be, the simplest first, the first one; but another if actions of a kind and stage are
    far more alike in it."""
    able = [one for one in found if one is not None]
    if len(able) < 2:
        return able[0] if able else None
    uneven = [one.unevenness(known.pauses()) for one in able]
    best = int(np.argmin(uneven))
    return able[best] if uneven[best] < MAJORITY * uneven[0] else able[0]
