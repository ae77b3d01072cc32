"""Two stages a rank in a V, in an order that nobody published: forwards and backwards told apart by how long they take.

Where every rank in the middle receives, computes and sends, one message after the other, each message can be followed
from one end of the line to the other. Of what goes one way, half are forwards of one stage of each rank, and half are
backwards of the other one: one half take longer than the other, and that which comes first in a step are the forwards.
That is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.recognised.between_messages import Events
from scalana.detectors.pipeline.recognised.chains import Chain
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis
from scalana.detectors.pipeline.recognised.placed import possible_steps, stages_in
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


def read_own_order(chain: Chain) -> Iterator[Hypothesis]:
    """The pipelines in a V that messages along a line of three ranks or more may be, whatever their order."""
    events, places = chain.events, len(chain.ranks)
    follows = _follows(events, places) if places > 2 else None
    if follows is None:
        return
    stages = stages_in("v", places, 2)
    ways = [_way(events, places, down, *follows) for down in (False, True)]
    for steps in possible_steps(events):
        if any(len(length) % (2 * steps) for _, length in ways) or len(ways[0][1]) != len(ways[1][1]):
            continue
        microbatches = len(ways[0][1]) // (2 * steps)
        backward, number = (np.zeros(int(events.message.max()) + 1, kind) for kind in (bool, np.int64))
        for messages, length in ways:
            gradients = _other_half(length.reshape(steps, -1)).reshape(-1)
            for half in (gradients, ~gradients):
                number[messages[:, half]] = np.arange(steps * microbatches)
            backward[messages] = gradients
        down, told = events.backward, backward[events.message]
        labelled = replace(events, backward=told, number=number[events.message], chunk=(down != told).astype(np.int64))
        if microbatches > 1:
            yield Hypothesis.of(chain, np.repeat(np.arange(steps), microbatches), labelled, stages)


def _follows(events: Events, places: int) -> tuple[IntArray, FloatArray] | None:
    """The message that is made of each one, -1 for none, and how long that took, as a part of what it usually takes
    ``[messages]`` each; None where a rank in the middle does not send each time what it made of what it received."""
    follows = np.full(int(events.message.max()) + 1, -1, np.int64)
    length = np.zeros(len(follows))
    for place in range(1, places - 1):
        mine = events.take(events.place == place)
        came, went = mine.take(np.arange(len(mine.place)) % 2 == 0), mine.take(np.arange(len(mine.place)) % 2 == 1)
        if came.is_send.any() or not went.is_send.all() or not np.array_equal(came.backward, went.backward):
            return None
        took = went.begin_s - came.end_s
        follows[came.message] = went.message
        length[came.message] = took / max(float(np.median(took)), 1e-9)
    return follows, length


def _way(events: Events, places: int, down: bool, follows: IntArray, length: FloatArray) -> tuple[IntArray, FloatArray]:
    """The messages that go from one end to the other, hop by hop ``[hops, messages]``, and how long what was made of
    each of them on the way took ``[messages]``."""
    first = events.take(events.is_send & (events.backward == down) & (events.place == (places - 1 if down else 0)))
    hops = [first.message]
    for _ in range(places - 2):
        hops.append(follows[hops[-1]])
    messages = np.stack(hops)
    return messages, np.asarray(length[messages[:-1]].sum(axis=0))


def _other_half(length: FloatArray) -> BoolArray:
    """Which are not in the half of a step, the shorter or the longer one, that its first message is in ``[steps,
    messages]``."""
    place = np.argsort(np.argsort(length, axis=1, kind="stable"), axis=1, kind="stable")
    long = place >= length.shape[1] // 2
    return np.asarray(long != long[:, :1])
