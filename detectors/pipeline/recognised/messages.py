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

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.model.actions import Action, Kind, OrderError, Program
from scalana.detectors.pipeline.model.schedules import recognise
from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.detectors.pipeline.recognised.chains import CAME, WENT, Chain, MessageRows, find_chain, steps_of
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis, Known, evenest
from scalana.detectors.pipeline.recognised.own_orders import read_own_order
from scalana.detectors.pipeline.recognised.placed import read_placed, read_standard
from scalana.detectors.pipeline.recognised.rings import read_ring
from scalana.detectors.thresholds.counts import SHOWS_THE_SPREAD, SHOWS_THE_USUAL
from scalana.detectors.thresholds.differences import EVEN
from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


def recognise_messages(rows: MessageRows, known: Known | None = None) -> Hypothesis | None:
    """The pipeline that these messages are; None if they may be anything else."""
    known = known or Known()
    chain = find_chain(rows)
    if chain is None:
        return None
    if not chain.events.backward.any():
        return _decoding(chain, known) if chain.is_ring else _forwards(chain, known)
    if chain.is_ring:
        return _first(read_ring(chain))
    return _line(chain, known)


def _first(found: Iterable[Hypothesis]) -> Hypothesis | None:
    """The first one that is possible."""
    return next((one for one in found if one.is_possible()), None)


def _line(chain: Chain, known: Known) -> Hypothesis | None:
    """The pipeline of training that a line of ranks is."""
    simplest = _first(_one_stage_a_rank(chain, known))
    # On two ranks the messages of an order in a V are those of stages round and round as well.
    if not known.training:
        return simplest
    places, others = len(chain.ranks), []
    standard = simplest is not None and _is_standard(simplest, known)
    uneven = simplest is None or simplest.unevenness(known.pauses()) > EVEN
    if not standard and places > 2:
        placed = _first(read_standard(chain))
        if placed is not None:
            return placed
        others.append(read_own_order(chain))
    if uneven:
        others.insert(0, read_placed(chain))
    best = evenest([simplest, *(one for found in others for one in found if one.is_possible())], known)
    if best is None or best is not simplest or standard:
        return best
    # In a V, a step has twice as many messages, and on two ranks nobody shows by itself how long an action takes.
    return replace(best, doubtful=(uneven or places == 2) and not (best.microbatches[:-1] % 2).any())


def _is_standard(found: Hypothesis, known: Known) -> bool:
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


def _one_stage_a_rank(chain: Chain, known: Known) -> Iterator[Hypothesis]:
    """The pipeline of training that a line of ranks with one stage each may be."""
    places = len(chain.ranks)
    trained = _trained(chain.events)
    if trained is None or not _goes_on(chain.events, places) or not (known.training or bool(trained.all())):
        return
    events, beside = _without(chain.events, trained)
    step = _usual_steps(events)
    if step is None or not (known.training or _alternates(events)):
        return
    if places == 2 and not _repeats(np.bincount(step), known.training):
        return
    yield replace(Hypothesis.of(chain, step, events.take(events.number < len(step))), beside=beside)


def _repeats(microbatches: IntArray, training: bool) -> bool:
    """Whether two ranks are more than a question and an answer: several microbatches a step, and, where training is not
    known, all steps alike but for the last, which may be cut off."""
    if int(np.median(microbatches)) < 2:
        return False
    return training or (len(microbatches) >= SHOWS_THE_USUAL and len(np.unique(microbatches[:-1])) == 1)


def _forwards(chain: Chain, known: Known) -> Hypothesis | None:
    """The pipeline of forwards that a line of ranks is: nothing comes back."""
    events = chain.events
    found = _forwards_along(chain, events, known)
    if found is None:
        return None
    step, start = _steps_of_forwards(found, known)
    kept = events.number >= start
    return replace(
        found,
        step=step,
        events=events.numbered(events.number - start).take(kept),
        beside=events.take(~kept),
        first=start,
    )


def _steps_of_forwards(found: Hypothesis, known: Known) -> tuple[IntArray, int]:
    """The step of every microbatch that is kept ``[microbatches]``, and which is the first of these."""
    met_s = known.met_s()
    begin_s = found.moments[0][:, 0]
    step = _between_meetings(begin_s, [met_s.get(rank, np.zeros(0)) for rank in found.ranks])
    start = _start(begin_s)
    return step[start:] - step[start], start


def _start(begin_s: FloatArray) -> int:
    """How many microbatches the first rank sent before all others were there to receive any: of these nobody knows what
    they took, nor of the first one.

    ``begin_s`` is when each came to a place and left it ``[2, places, microbatches]``.
    """
    there_s = begin_s[CAME, 1:, 0].max()
    return min(max(int(np.searchsorted(begin_s[WENT, 0], there_s)), 1), begin_s.shape[2] - SHOWS_THE_SPREAD + 1)


def _forwards_along(chain: Chain, events: Events, known: Known) -> Hypothesis | None:
    """The pipeline of forwards that messages along a line may be; None if they are none."""
    if known.training or not known.tensors or len(chain.ranks) < 3:
        return None
    count = int((events.is_send & (events.place == 0)).sum())
    if count < SHOWS_THE_SPREAD or int(events.number.max()) >= count:
        return None
    found = replace(Hypothesis.of(chain, np.zeros(count, np.int64), events), forwards_only=True)
    if not found.is_possible():
        return None
    begin_s, end_s = (moment[:, 0, 1:-1] for moment in found.moments)
    # Handed on as it is?
    return None if np.median(begin_s[WENT] - end_s[CAME]) < NO_WORK_S else found


def _decoding(chain: Chain, known: Known) -> Hypothesis | None:
    """The pipeline of forwards that a ring of ranks is, in which what the last rank makes (tokens) goes back to the
    first one, for another forward; of several microbatches at a time, or of one where it is of another size."""
    events, places = chain.events, len(chain.ranks)
    around = (events.place == places - 1) & events.is_send | (events.place == 0) & ~events.is_send
    found = _forwards_along(chain, events.take(~around), known)
    back = events.take(around & ~events.is_send)
    if found is None or not len(back.place) or len(back.place) > len(found.step):
        return None
    count = len(found.step)
    # How many had come back before each was sent.
    came = np.searchsorted(back.end_s, found.moments[0][WENT, 0, 0], side="right")
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
    step, start = _steps_of_forwards(found, known)
    returned = returned[start:]
    return replace(
        found,
        step=step,
        events=labelled.numbered(told - start).take(needed & (told >= start)),
        between_ends=events.take(~needed),
        returned=np.where(returned > np.arange(len(step)), 0, returned),  # for one that is left out
        first=start,
    )


def _between_meetings(begin_s: FloatArray, met_s: list[FloatArray]) -> IntArray:
    """The step of every microbatch ``[microbatches]``: a new one where all ranks met before it; one where they never
    did.

    ``begin_s`` is when each came to a place and left it ``[2, places, microbatches]``, ``met_s`` when the ranks of the
    places met others.
    """
    count = begin_s.shape[2]
    if len({len(met) for met in met_s}) != 1:
        return np.zeros(count, np.int64)
    moments = [begin_s[WENT, 0], *begin_s[CAME, 1:]]
    met = np.array([np.searchsorted(met, moment) for met, moment in zip(met_s, moments, strict=True)])
    if (met != met[0]).any():
        return np.zeros(count, np.int64)
    return np.asarray(np.unique(met[0], return_inverse=True)[1].reshape(-1), np.int64)


def _trained(events: Events) -> BoolArray | None:
    """Which of the forwards that come to the last stage are followed by a backward there ``[forwards]``: those of an
    evaluation are not. None where more goes back than came.

    Backwards are those of the last forwards that have none yet: forwards of an evaluation may come before.
    """
    last = events.take(events.place == int(events.place.max(initial=0)))
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


def _usual_steps(events: Events) -> IntArray | None:
    """The step of every microbatch ``[microbatches]``; None where steps have no usual number of them: nothing
    repeats."""
    step = steps_of(events)
    if step is None or np.bincount(np.bincount(step)).max() <= MAJORITY * (step[-1] + 1):
        return None
    return step


def _alternates(events: Events) -> bool:
    """Whether the first stage goes on forwards after a backward, before all have come back: nothing but a pipeline
    keeps several under way so."""
    is_send = events.is_send[events.place == 0]
    under_way = np.cumsum(np.where(is_send, 1, -1))
    return bool((is_send[1:] & ~is_send[:-1] & (under_way[:-1] > 0)).any())
