"""A pipeline written by hand whose forwards and backwards share the way between two ranks: several stages a rank, on
two ranks or in a V.

There a message does not show by where it comes from what it is: from the first rank to the second go forwards of some
stages and gradients of others. But every rank works off one list: forwards in rounds of so many microbatches through
its stages, backwards in the same rounds the other way, so many forwards ahead and then in turns. What is not known is
where the stages stand, how large the rounds are and how far each rank is ahead. A guess of these says of every message
what it is, once where it is sent and once where it comes; a guess in which a rank sends something before what it needs
for it, and for all before it, has come is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from scalana.detectors.pipeline.model.actions import Action, Kind, OrderError
from scalana.detectors.pipeline.model.schedules import SCHEDULES, stage_placement
from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.detectors.pipeline.recognised.chains import Chain, occurrence, steps_of
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis
from scalana.detectors.thresholds.limits import STAGES_PER_RANK, TRIED_AT_MOST
from scalana.graphs.arrays.types import BoolArray, IntArray


@dataclass(frozen=True)
class _Guess:
    """Where stages stand, and the rounds in which microbatches go through them, of one step."""

    stages: IntArray
    """``[places, chunks]``"""
    microbatches: int
    round: int

    @cached_property
    def forwards(self) -> tuple[IntArray, IntArray]:
        """Chunk and microbatch of each forward of a rank, in order ``[forwards]`` each."""
        chunks = self.stages.shape[1]
        rounds = np.arange(self.microbatches).reshape(-1, 1, self.round).repeat(chunks, axis=1)
        chunk = np.broadcast_to(np.arange(chunks)[:, None], rounds.shape)
        return chunk.reshape(-1), rounds.reshape(-1)

    @cached_property
    def least_ahead(self) -> int:
        """How many forwards a rank has to be ahead so that each backward comes after its own forward."""
        chunk, number = self.forwards
        size, last = len(chunk), self.stages.shape[1] - 1
        forward = np.empty((last + 1, self.microbatches), np.int64)
        forward[chunk, number] = np.arange(size)
        return max(1, int((forward[last - chunk, number] - np.arange(size)).max()))

    def actions(self, ahead: int) -> tuple[BoolArray, IntArray, IntArray]:
        """Whether it is a backward, chunk and microbatch of what a rank does, in order ``[actions]``."""
        chunk, number = self.forwards
        size = len(chunk)
        every = np.arange(size)
        # Forwards ahead, then a forward and a backward in turns, then the backwards that are left.
        forward, back = 2 * every - np.minimum(every, ahead), np.minimum(2 * every + 1 + ahead, size + every)
        order = np.argsort(np.concatenate((forward, back)), kind="stable")
        backward = np.repeat([False, True], size)[order]
        last = self.stages.shape[1] - 1
        return backward, np.concatenate((chunk, last - chunk))[order], np.concatenate((number, number))[order]

    def hands(self, place: int, ahead: int) -> _Hands:
        """What a rank does, with whom it shares it."""
        return _Hands.of(self.stages, place, *self.actions(ahead))


@dataclass(frozen=True)
class _Hands:
    """The actions of a rank in a step, in order ``[actions]`` all."""

    backward: BoolArray
    chunk: IntArray
    number: IntArray
    source: IntArray
    """From where its input comes: -1 for the place before, 1 for the one after, 0 for no message."""
    target: IntArray
    """Where what it makes goes to."""
    stage: IntArray
    next_stage: IntArray

    @classmethod
    def of(cls, stages: IntArray, place: int, backward: BoolArray, chunk: IntArray, number: IntArray) -> _Hands:
        """Those of a place, by the stages of every place ``[places, chunks]``."""
        place_of = np.empty(stages.size, np.int64)
        place_of[stages] = np.arange(len(stages))[:, None]
        stage, last = stages[place][chunk], stages.size - 1
        before, after = np.where(backward, stage + 1, stage - 1), np.where(backward, stage - 1, stage + 1)
        near = [np.where((s < 0) | (s > last), place, place_of[np.clip(s, 0, last)]) - place for s in (before, after)]
        return cls(backward, chunk, number, near[0], near[1], stage, after)

    def messages(self) -> IntArray:
        """How many there are of each key ``[keys]``."""
        found = np.zeros(_KEYS, np.int64)
        for sends, near in ((True, self.target), (False, self.source)):
            np.add.at(found, _key(np.full(len(near), sends), near)[near != 0], 1)
        return found

    def sent(self, way: int) -> list[tuple[bool, int, int]]:
        """What goes to a neighbour, by whether it is a backward, its next stage and its microbatch."""
        return self._labels(self.target == way, self.next_stage)

    def came(self, way: int) -> list[tuple[bool, int, int]]:
        """What comes from a neighbour."""
        return self._labels(self.source == way, self.stage)

    def _labels(self, mine: BoolArray, stage: IntArray) -> list[tuple[bool, int, int]]:
        return list(zip(*(column[mine].tolist() for column in (self.backward, stage, self.number)), strict=True))


def read_standard(chain: Chain) -> Iterator[Hypothesis]:
    """The pipelines in a V that messages along a line may be, in the very order of a standard schedule.

    What a rank does in it without a message (the other half of a backward) is no part of that.
    """
    events, places = chain.events, len(chain.ranks)
    for schedule in SCHEDULES:
        if schedule.placement != "v":
            continue
        stages = stages_in(schedule.placement, places, schedule.chunks)
        for steps in possible_steps(events):
            microbatches = _microbatches(events, stages, steps)
            try:
                orders = schedule.orders(places, microbatches, schedule.chunks) if microbatches else []
            except OrderError:
                continue
            hands = [_hands_of(order, stages, place) for place, order in enumerate(orders)]
            sides = [_Side.of(events, place) for place in range(len(orders))]
            if hands and all(side.steps(one) == steps for side, one in zip(sides, hands, strict=True)):
                yield from _labelled(chain, sides, hands, stages, steps)


def _hands_of(order: list[Action], stages: IntArray, place: int) -> _Hands:
    """What a rank does in an order, but for what needs no message and makes none."""
    kept = [action for action in order if action.kind is not Kind.W]
    chunk_of = {int(stage): chunk for chunk, stage in enumerate(stages[place])}
    backward = np.array([action.kind is not Kind.F for action in kept])
    chunk = np.array([chunk_of[action.stage] for action in kept])
    return _Hands.of(stages, place, backward, chunk, np.array([action.microbatch for action in kept]))


def read_placed(chain: Chain) -> Iterator[Hypothesis]:
    """The pipelines of several stages a rank that messages along a line may be, with fewer stages first."""
    places = len(chain.ranks)
    for shape, chunks in [("v", 2), *(("loop", chunks) for chunks in range(2, STAGES_PER_RANK + 1) if places == 2)]:
        stages = stages_in(shape, places, chunks)
        for steps in possible_steps(chain.events):
            yield from _with_stages(chain, stages, steps)


def stages_in(shape: str, places: int, chunks: int) -> IntArray:
    """The stages of every place ``[places, chunks]``."""
    placement = np.array(stage_placement(shape, places, chunks))
    return np.stack([np.flatnonzero(placement == place) for place in range(places)])


def _microbatches(events: Events, stages: IntArray, steps: int) -> int:
    """How many a step has with such stages; 0 where that cannot be."""
    sends = int((events.is_send & (events.place == 0)).sum())
    each = steps * int((_Guess(stages, 1, 1).hands(0, 1).target != 0).sum())
    return 0 if sends % each or sends // each < 2 else sends // each


def _with_stages(chain: Chain, stages: IntArray, steps: int) -> Iterator[Hypothesis]:
    """Those with such stages and so many steps."""
    microbatches = _microbatches(chain.events, stages, steps)
    for size in (size for size in range(1, microbatches + 1) if microbatches % size == 0):
        guess = _Guess(stages, microbatches, size)
        able = [
            [guess.hands(place, ahead) for ahead in range(guess.least_ahead, len(guess.forwards[0]) + 1)]
            for place in range(len(stages))
        ]
        yield from _by_stages(chain, stages, able, steps)


def possible_steps(events: Events) -> list[int]:
    """How many steps there may be, two at least: the most that are alike, and half of them. In a step all that the
    first rank has sent may come back more than once, at the end it has."""
    step = steps_of(events)
    if step is None or len(step) != int((events.is_send & (events.place == 0)).sum()):
        return []
    sizes = np.bincount(step)
    if int(sizes.max()) < 2:
        return []
    parts = [part for part in range(1, len(sizes) // 2 + 1) if len(sizes) % part == 0]
    alike = [part for part in parts if (sizes.reshape(-1, part) == sizes[:part]).all()]
    most = len(sizes) // alike[0] if alike else 0
    return [steps for steps in (most, most // 2) if steps > 1 and most % steps == 0]


def _by_stages(chain: Chain, stages: IntArray, able: list[list[_Hands]], steps: int) -> Iterator[Hypothesis]:
    """Events by their stages and microbatches, in each way that can be, of those that each rank is ``able`` to."""
    sides = [_Side.of(chain.events, place) for place in range(len(stages))]
    if any(side.steps(tried[0]) != steps for side, tried in zip(sides, able, strict=True)):
        return
    # The first step says how far each rank may be ahead; all the others have to be like it.
    fits = []
    for side, tried in zip(sides, able, strict=True):
        loose = [side.looseness(hands, 1) for hands in tried]
        fits.append([tried[at] for at in np.argsort(loose, kind="stable").tolist() if loose[at] >= 0])
    for chosen in islice(_agreeing(fits), TRIED_AT_MOST):
        yield from _labelled(chain, sides, chosen, stages, steps)


def _labelled(
    chain: Chain, sides: list[_Side], hands: Sequence[_Hands], stages: IntArray, steps: int
) -> Iterator[Hypothesis]:
    """Events by their stages and microbatches, if each rank does this: none where something is sent before what is
    needed has come."""
    if any(side.looseness(one, steps) < 0 for side, one in zip(sides, hands, strict=True)):
        return
    number, chunk = (np.zeros(len(chain.events.place), np.int64) for _ in range(2))
    backward = np.zeros(len(number), bool)
    microbatches = len(hands[0].stage) // (2 * stages.shape[1])
    for side, one in zip(sides, hands, strict=True):
        step, at = np.divmod(side.actions(one, steps), len(one.stage))
        backward[side.row], chunk[side.row] = one.backward[at], one.chunk[at]
        number[side.row] = step * microbatches + one.number[at]
    told = replace(chain.events, backward=backward, number=number, chunk=chunk)
    yield Hypothesis.of(chain, np.repeat(np.arange(steps), microbatches), told, stages)


@dataclass(frozen=True)
class _Side:
    """The messages of one rank, in order of time ``[messages]`` all."""

    row: IntArray
    """Which events they are."""
    events: Events
    key: IntArray
    """What goes where: by sending or receiving, and the neighbour."""
    number: IntArray
    """How many before have the same key."""

    @classmethod
    def of(cls, events: Events, place: int) -> _Side:
        """Those of a place."""
        row = np.flatnonzero(events.place == place)
        mine = events.take(events.place == place)
        key = _key(mine.is_send, np.where(mine.backward != mine.is_send, 1, -1))
        return cls(row, mine, key, occurrence(key))

    def steps(self, hands: _Hands) -> int:
        """How many steps of such actions these messages are; 0 where they are none."""
        wanted, found = hands.messages(), np.bincount(self.key, minlength=_KEYS)
        steps = int(found.max() // wanted.max())
        return steps if (found == steps * wanted).all() else 0

    def actions(self, hands: _Hands, steps: int) -> IntArray:
        """The action that each message is for or from, counted through the first steps; -1 after them."""
        found = np.full(len(self.row), -1, np.int64)
        for sends, near in ((True, hands.target), (False, hands.source)):
            for way in (-1, 1):
                actions = np.flatnonzero(near == way)
                mine = (self.key == _key(np.array(sends), np.array(way))) & (self.number < steps * len(actions))
                step, at = np.divmod(self.number[mine], max(len(actions), 1))
                found[mine] = step * len(near) + actions[at]
        return found

    def looseness(self, hands: _Hands, steps: int) -> int:
        """How many actions wait for their input before one ahead of them has sent what it made; -1 if something is
        sent before what it, or one ahead of it, needs has come."""
        action, sends = self.actions(hands, steps), self.events.is_send
        asked, came, sent, made = (np.full(steps * len(hands.stage), value) for value in (np.inf, -np.inf) * 2)
        arrives, leaves = ~sends & (action >= 0), sends & (action >= 0)
        asked[action[arrives]], came[action[arrives]] = self.events.begin_s[arrives], self.events.end_s[arrives]
        sent[action[leaves]] = made[action[leaves]] = self.events.begin_s[leaves]
        if (np.maximum.accumulate(came) > sent).any():
            return -1
        return int((np.maximum.accumulate(made)[:-1] > asked[1:]).sum())


_KEYS = 4


def _key(is_send: BoolArray, way: IntArray) -> IntArray:
    """A number for the side and the neighbour of messages ``[messages]``."""
    return np.asarray(is_send * 2 + (way > 0), np.int64)


def _agreeing(able: list[list[_Hands]], chosen: tuple[_Hands, ...] = ()) -> Iterator[tuple[_Hands, ...]]:
    """What each rank does, of what it may do, so that neighbours agree on what goes between them."""
    if len(chosen) == len(able):
        yield chosen
        return
    for one in able[len(chosen)]:
        if not chosen or (chosen[-1].sent(1) == one.came(-1) and one.sent(-1) == chosen[-1].came(1)):
            yield from _agreeing(able, (*chosen, one))
