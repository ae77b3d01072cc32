"""A hypothesis about messages is possible or not, and its score says how well it explains how long actions take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.pipeline.model.actions import Program
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.pipeline.recognised.between_messages import NO_PAUSES, Events
from scalana.detectors.pipeline.recognised.hypotheses import Hypothesis, Known, evenest
from scalana.detectors.pipeline.recognised.messages import recognise_messages
from tests.detectors.pipeline.examples import uniform
from tests.detectors.pipeline.test_messages import in_a_v, of_program

PROGRAMS = {
    "one stage a rank": BY_NAME["1F1B"].program(4, 8),
    "round and round": BY_NAME["Interleaved1F1B"].program(4, 8, 2),
    "in a V": in_a_v(4, 8, 4, 10),
    "on two ranks": BY_NAME["Interleaved1F1B"].program(2, 8, 2),
}


def right(program: Program) -> Hypothesis:
    """The hypothesis that a program is what it is."""
    found = recognise_messages(of_program(program, uniform(program.stages), 3), Known(training=True))
    assert found is not None and found.placement.size == program.stages
    return found


def changed(found: Hypothesis, row: int, **values: float) -> Hypothesis:
    """The same with one end of a message changed."""
    columns = {name: getattr(found.events, name).copy() for name in values}
    for name, value in values.items():
        columns[name][row] = value
    return replace(found, events=replace(found.events, **columns))


@pytest.fixture(params=PROGRAMS)
def hypothesis(request: pytest.FixtureRequest) -> Hypothesis:
    return right(PROGRAMS[request.param])


def row_of(events: Events, place: int, is_send: bool, backward: bool) -> int:
    """An end of a message in the midst of the run."""
    rows = np.flatnonzero((events.place == place) & (events.is_send == is_send) & (events.backward == backward))
    return int(rows[len(rows) // 2])


def test_what_ranks_did_is_possible(hypothesis: Hypothesis) -> None:
    assert hypothesis.is_possible()
    assert hypothesis.unevenness(NO_PAUSES) < 0.05


def test_both_ends_of_each_message_have_to_be_there(hypothesis: Hypothesis) -> None:
    for is_send in (False, True):
        row = row_of(hypothesis.events, 1, is_send, not is_send)
        without = hypothesis.events.take(np.arange(len(hypothesis.events.place)) != row)
        assert not replace(hypothesis, events=without).is_possible()


def test_nothing_is_sent_before_it_came(hypothesis: Hypothesis) -> None:
    events = hypothesis.events
    row = row_of(events, 1, True, False)  # a forward passes the second place
    assert not changed(hypothesis, row, begin_s=-1.0).is_possible()
    row = row_of(events, 0, False, True)  # a gradient comes back to the first place
    assert not changed(hypothesis, row, begin_s=-2.0, end_s=-1.0).is_possible()


def test_a_gradient_is_as_large_as_what_it_is_of(hypothesis: Hypothesis) -> None:
    message = hypothesis.events.message[row_of(hypothesis.events, 1, True, True)]
    sizes = np.where(hypothesis.events.message == message, 8, hypothesis.events.bytes)
    assert not replace(hypothesis, events=replace(hypothesis.events, bytes=sizes)).is_possible()


def test_both_ends_agree_on_the_microbatch() -> None:
    found = right(PROGRAMS["in a V"])
    events = found.events
    first, second = (
        np.flatnonzero(~events.is_send & (events.place == 1) & ~events.backward & (events.chunk == 0))[at]
        for at in (8, 9)
    )
    message = events.message.copy()
    message[[first, second]] = message[[second, first]]
    assert not replace(found, events=replace(events, message=message)).is_possible()


def test_another_hypothesis_has_to_leave_less_than_half_of_the_differences() -> None:
    def uneven(factor: float) -> Hypothesis:
        """One in which every second step takes so many times as long."""
        program = PROGRAMS["one stage a rank"]
        found = right(program)
        events = found.events
        step = found.step[events.number]
        begin = np.array([events.begin_s[step == one].min() for one in range(3)])
        scale = np.where(step % 2 == 1, factor, 1.0)
        shift = np.cumsum([0.0, 0.0, (factor - 1) * (begin[2] - begin[1])])
        later = [
            begin[step] + shift[step] + (moment - begin[step]) * scale for moment in (events.begin_s, events.end_s)
        ]
        return replace(found, events=replace(events, begin_s=later[0], end_s=later[1]))

    plain, half, worse = (uneven(factor) for factor in (1.0, 1.5, 1.8))
    known = Known()
    scores = [one.unevenness(NO_PAUSES) for one in (plain, half, worse)]
    assert scores[0] < 0.5 * scores[1] and 0.5 * scores[2] < scores[1] < scores[2]
    assert evenest([worse, half], known) is worse
    assert evenest([worse, half, plain], known) is plain
    assert evenest([None, half], known) is half and evenest([None], known) is None
