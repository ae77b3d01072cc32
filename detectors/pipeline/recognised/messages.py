"""A pipeline that somebody wrote by hand, recognised by its messages alone.

What a line of ranks does is a pipeline of training if every rank in the middle passes on what came (the k-th message
to the next rank follows the k-th from the one before, and the same backwards), what goes there comes back in the same
size, and it repeats. A halo exchange sends before it has received, a manager has many neighbours: they are none. Two
ranks, and all forwards before all backwards, look like other programs as well (question and answer, sweeps there and
back): they count only where training is known, or, for two ranks, where steps of the same size repeat in the order
of 1F1B. Forwards alone are a pipeline where tensors go along three ranks or more that compute in between; a sweep over
a grid of MPI does the same, and is told as the chain of ranks that it is. Rings are in
:mod:`~scalana.detectors.pipeline.recognised.rings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.model.actions import Action, Kind, OrderError, Program
from scalana.detectors.pipeline.model.schedules import recognise
from scalana.detectors.pipeline.recognised.between_messages import NO_PAUSES, Events, PauseRows, Read, read_events
from scalana.detectors.pipeline.recognised.chains import CAME, WENT, Chain, MessageRows, find_chain, has_its_ends, sides
from scalana.detectors.pipeline.recognised.own_orders import read_own_order
from scalana.detectors.pipeline.recognised.placed import Placed, read_placed, read_standard, unevenness
from scalana.detectors.pipeline.recognised.rings import read_ring
from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD, SHOWS_THE_USUAL
from scalana.detectors.thresholds.differences import EVEN
from scalana.detectors.thresholds.seconds import NO_WORK_S
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
class HandWritten:
    """A pipeline that was recognised."""

    ranks: tuple[int, ...]
    """The ranks in the order of their stages."""
    step: IntArray
    """Of every microbatch ``[microbatches]``."""
    events: Events
    """The messages of its training."""
    beside: Events
    """Those of its forwards that are none of it: evaluations."""
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
    """Those of every place ``[places, chunks]``; None where they go round and round."""

    @property
    def microbatches(self) -> IntArray:
        """How many every step has ``[steps]``."""
        return np.bincount(self.step)

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


def recognise_messages(rows: MessageRows, known: Known | None = None) -> HandWritten | None:
    """The pipeline that these messages are; None if they may be anything else."""
    known = known or Known()
    chain = find_chain(rows)
    if chain is None:
        return None
    if chain.is_ring and not chain.events().backward.any():
        return _decoding(chain, known)
    if chain.is_ring:
        ring = read_ring(chain.events(), len(chain.ranks))
        return None if ring is None else HandWritten(chain.ranks, ring.step, ring.events, ring.beside)
    return _line(chain, known)


def _line(chain: Chain, known: Known) -> HandWritten | None:
    """The pipeline that a line of ranks is."""
    events = chain.events()
    if not events.backward.any():
        return _forwards(chain, events, known)
    simplest = _one_stage_a_rank(chain, events, known)
    # On two ranks the messages of an order in a V are those of stages round and round as well.
    if not known.training:
        return simplest
    places, others = len(chain.ranks), []
    standard = simplest is not None and _is_standard(simplest, known)
    uneven = simplest is None or unevenness(simplest.read(known.pauses()).rows) > EVEN
    if not standard and places > 2:
        for placed in read_standard(events, places):
            return _placed(chain, placed)
        others.append(read_own_order(events, places))
    if uneven:
        others.insert(0, read_placed(events, places))
    best = evenest([simplest, *(_placed(chain, one) for found in others for one in found)], known)
    if best is None or best is not simplest or standard:
        return best
    # In a V, a step has twice as many messages, and on two ranks nobody shows by itself how long an action takes.
    return replace(best, doubtful=(uneven or places == 2) and not (best.microbatches[:-1] % 2).any())


def _is_standard(found: HandWritten, known: Known) -> bool:
    """Whether its last step goes in the order of a standard schedule: then nothing else is looked for."""
    rows = found.read(known.pauses()).rows
    rows = rows.take(rows.step == rows.step.max())
    rows = rows.take(np.lexsort((rows.begin_s, rows.rank)))
    columns = zip(rows.rank.tolist(), rows.kind.tolist(), rows.stage.tolist(), rows.microbatch.tolist(), strict=True)
    orders: list[list[Action]] = [[] for _ in found.ranks]
    for rank, kind, stage, microbatch in columns:
        orders[rank].append(Action(Kind(kind), stage, microbatch))
    try:
        return recognise(Program.of(orders)) != ""
    except OrderError:
        return False


def evenest(found: Iterable[HandWritten | None], known: Known) -> HandWritten | None:
    """Of what some messages may be, the simplest first, the first one; but another if actions of a kind and stage are
    far more alike in it."""
    able = [one for one in found if one is not None]
    if len(able) < 2:
        return able[0] if able else None
    uneven = [unevenness(one.read(known.pauses()).rows) for one in able]
    best = int(np.argmin(uneven))
    return able[best] if uneven[best] < MAJORITY * uneven[0] else able[0]


def _placed(chain: Chain, placed: Placed) -> HandWritten:
    nothing = placed.events.take(np.zeros(len(placed.events.place), bool))
    return HandWritten(chain.ranks, placed.step, placed.events, nothing, _between_ends(chain), stages=placed.stages)


def _one_stage_a_rank(chain: Chain, events: Events, known: Known) -> HandWritten | None:
    """The pipeline of training that a line of ranks with one stage each is."""
    places = len(chain.ranks)
    trained = _trained(events)
    if trained is None or not _goes_on(events, places) or not (known.training or bool(trained.all())):
        return None
    events, beside = _without(events, trained)
    step = _steps(events)
    if step is None or not (known.training or _alternates(events)):
        return None
    if places == 2 and not _repeats(np.bincount(step), known.training):
        return None
    events = events.take(events.number < len(step))
    if not has_its_ends(events, places, len(step)) or not _is_passed_on(events, places, len(step)):
        return None
    return HandWritten(chain.ranks, step, events, beside, _between_ends(chain))


def _between_ends(chain: Chain) -> Events | None:
    return None if chain.beside is None else chain.events(chain.beside)


def _repeats(microbatches: IntArray, training: bool) -> bool:
    """Whether two ranks are more than a question and an answer: several microbatches a step, and, where training is not
    known, all steps alike but for the last, which may be cut off."""
    if int(np.median(microbatches)) < 2:
        return False
    return training or (len(microbatches) >= SHOWS_THE_USUAL and len(np.unique(microbatches[:-1])) == 1)


def _forwards(chain: Chain, events: Events, known: Known) -> HandWritten | None:
    """The pipeline of forwards that a line of ranks is: nothing comes back."""
    places = len(chain.ranks)
    begin = _forwards_along(events, places, known)
    if begin is None:
        return None
    step, start = _steps_of_forwards(begin, chain, known)
    kept = events.number >= start
    left = events.take(~kept)
    events = events.numbered(events.number - start).take(kept)
    return HandWritten(chain.ranks, step, events, left, _between_ends(chain), forwards_only=True, first=start)


def _steps_of_forwards(begin_s: FloatArray, chain: Chain, known: Known) -> tuple[IntArray, int]:
    """The step of every microbatch that is kept ``[microbatches]``, and which is the first of these; ``begin_s`` is as
    :func:`_forwards_along` has it."""
    met_s = known.met_s()
    step = _between_meetings(begin_s, [met_s.get(rank, np.zeros(0)) for rank in chain.ranks])
    start = _start(begin_s)
    return step[start:] - step[start], start


def _start(begin_s: FloatArray) -> int:
    """How many microbatches the first rank sent before all others were there to receive any: of these nobody knows what
    they took, nor of the first one.

    ``begin_s`` is as :func:`_forwards_along` has it.
    """
    there_s = begin_s[1:, 0, 0].max()
    return min(max(int(np.searchsorted(begin_s[0, 1], there_s)), 1), begin_s.shape[2] - SHOWS_THE_SPREAD + 1)


def _forwards_along(events: Events, places: int, known: Known) -> FloatArray | None:
    """When messages came to each place and left it ``[places, 2, microbatches]``, if they may be a pipeline of
    forwards; None if not."""
    if known.training or not known.tensors or places < 3:
        return None
    sends = np.bincount(events.place[events.is_send], minlength=places)
    receives = np.bincount(events.place[~events.is_send], minlength=places)
    count = int(sends[0])
    if count < SHOWS_THE_SPREAD or (sends[:-1] != count).any() or (receives[1:] != count).any():
        return None
    begin, end = np.zeros((places, 2, count)), np.zeros((places, 2, count))
    at = events.place, events.is_send.astype(int), events.number
    begin[at], end[at] = events.begin_s, events.end_s
    work_s = begin[1:-1, 1] - end[1:-1, 0]
    # Sent before it came, or handed on as it is.
    return None if (work_s < 0).any() or np.median(work_s) < NO_WORK_S else begin


def _decoding(chain: Chain, known: Known) -> HandWritten | None:
    """The pipeline of forwards that a ring of ranks is, in which what the last rank makes (tokens) goes back to the
    first one, for another forward; of several microbatches at a time, or of one where it is of another size."""
    places = len(chain.ranks)
    events = chain.events()
    around = (events.place == places - 1) & events.is_send | (events.place == 0) & ~events.is_send
    begin = _forwards_along(events.take(~around), places, known)
    back = events.take(around & ~events.is_send)
    if begin is None or not len(back.place) or len(back.place) > begin.shape[2]:
        return None
    count = begin.shape[2]
    came = np.searchsorted(back.end_s, begin[0, 1], side="right")  # how many had come back before each was sent
    # What came back last before each is what it needs; more than one at a time are the last ones, which nothing needs.
    needs = np.diff(came, prepend=0) > 0
    went = events.take(around & events.is_send)
    last = events.take((events.place == places - 1) & ~events.is_send)
    made = np.searchsorted(last.end_s, went.begin_s, side="right") - 1  # of which microbatch each of them is
    if len(went.place) != len(back.place) or not needs.any():
        return None
    returned = np.where(needs, np.arange(count) - made[np.maximum(came - 1, 0)], 0)
    under_way = float(np.median(returned[needs]))
    # One at a time goes around like a token of any kind: but what is made of it is no more what came.
    alike = np.median(went.bytes) == np.median(events.bytes[~around])
    if (returned < 0).any() or under_way < 1 or (under_way < 2 and alike):
        return None
    number = np.full(len(back.place), -1, np.int64)
    number[came[needs] - 1] = np.flatnonzero(needs)
    needed = ~around
    needed[around] = number[events.number[around]] >= 0
    told = events.number.copy()
    told[around & ~events.is_send] = number[events.number[around & ~events.is_send]]
    told[around & events.is_send] = made[events.number[around & events.is_send]]
    labelled = events.numbered(told)
    nothing = events.take(np.zeros(len(events.place), bool))
    step, start = _steps_of_forwards(begin, chain, known)
    others = events.take(~needed)
    kept = needed & (labelled.number >= start)
    labelled = labelled.numbered(labelled.number - start).take(kept)
    returned = returned[start:]
    returned = np.where(returned > np.arange(len(step)), 0, returned)  # for one that is left out
    ranks = chain.ranks
    return HandWritten(ranks, step, labelled, nothing, others, forwards_only=True, returned=returned, first=start)


def _between_meetings(begin_s: FloatArray, met_s: list[FloatArray]) -> IntArray:
    """The step of every microbatch ``[microbatches]``: a new one where all ranks met before it; one where they never
    did.

    ``begin_s`` is when each came to a place and left it ``[places, 2, microbatches]``, ``met_s`` when the ranks of the
    places met others.
    """
    count = begin_s.shape[2]
    if len({len(met) for met in met_s}) != 1:
        return np.zeros(count, np.int64)
    sides = [1] + [0] * (len(begin_s) - 1)
    met = np.array([np.searchsorted(met_s[p], begin_s[p, side]) for p, side in enumerate(sides)])
    if (met != met[0]).any():
        return np.zeros(count, np.int64)
    return np.asarray(np.unique(met[0], return_inverse=True)[1].reshape(-1), np.int64)


def _trained(events: Events) -> BoolArray | None:
    """Which of the forwards that come to the last stage are followed by a backward there ``[forwards]``: those of an
    evaluation are not. None where more goes back than came.

    Backwards are those of the last forwards that have none yet: forwards of an evaluation may come before.
    """
    last = events.take(events.place == int(events.place.max(initial=0)))
    if not len(last.place) or (last.backward != last.is_send).any():
        return None
    depth = np.cumsum(np.where(last.backward, -1, 1))
    if int(depth.min()) < 0:
        return None
    later = np.minimum.accumulate(depth[::-1])[::-1]
    return np.asarray((later < depth)[~last.backward])


def _goes_on(events: Events, places: int) -> bool:
    """Whether all forwards that come to a place in the middle leave it, but for those that come when the last one has
    left: otherwise what has the same number there is not the same."""
    for place in range(1, places - 1):
        mine = events.take((events.place == place) & ~events.backward)
        came, left = mine.end_s[~mine.is_send], mine.begin_s[mine.is_send]
        if len(left) > len(came) or (len(left) and (came[len(left) :] < left[-1]).any()):
            return False
    return True


def _without(events: Events, trained: BoolArray) -> tuple[Events, Events]:
    """The events of training, its forwards numbered anew, and all others."""
    known = np.where(events.backward, 0, np.minimum(events.number, len(trained) - 1))
    kept = events.backward | ((events.number < len(trained)) & trained[known])
    number = np.where(events.backward, events.number, (np.cumsum(trained) - 1)[known])
    return events.numbered(number).take(kept), events.take(~kept)


def _steps(events: Events) -> IntArray | None:
    """The step of every microbatch ``[microbatches]``: one ends when all that the first stage has sent has come back.

    What comes after the last end is left out. None where steps have no usual number of microbatches: nothing repeats.
    """
    first = events.place == 0
    is_send = events.is_send[first]
    if (is_send == events.backward[first]).any():
        return None
    under_way = np.cumsum(np.where(is_send, 1, -1))
    ends = np.flatnonzero(under_way == 0)
    if len(ends) < 2 or int(under_way.min()) < 0:
        return None
    step = np.searchsorted(ends, np.flatnonzero(is_send[: ends[-1] + 1]))
    most = np.bincount(np.bincount(step)).max()
    return np.asarray(step, np.int64) if most > MAJORITY * len(ends) else None


def _alternates(events: Events) -> bool:
    """Whether the first stage goes on forwards after a backward, before all have come back: nothing but a pipeline
    keeps several under way so."""
    is_send = events.is_send[events.place == 0]
    under_way = np.cumsum(np.where(is_send, 1, -1))
    return bool((is_send[1:] & ~is_send[:-1] & (under_way[:-1] > 0)).any())


def _is_passed_on(events: Events, stages: int, microbatches: int) -> bool:
    """Whether every stage sends on only what it has received, and what goes there comes back in its size."""
    begin, end, size = sides(events, stages, microbatches)
    follows = [
        ((slice(1, -1), 0, CAME), (slice(1, -1), 0, WENT)),
        ((slice(1, -1), 1, CAME), (slice(1, -1), 1, WENT)),
        ((slice(0, -1), 0, WENT), (slice(0, -1), 1, CAME)),
        ((slice(-1, None), 0, CAME), (slice(-1, None), 1, WENT)),
    ]
    for earlier, later in follows:
        if (end[earlier] > end[later]).any() or (begin[earlier] > begin[later]).any():
            return False
    there, back = np.sort(size[:-1, 0, WENT]), np.sort(size[:-1, 1, CAME])
    return bool((there == back).all() and (np.sort(size[1:, 0, CAME]) == np.sort(size[1:, 1, WENT])).all())
