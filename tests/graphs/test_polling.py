"""Waiting by asking again and again: who polls until a message comes has waited for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.waits import find_waits
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record_format import STATE_ASLEEP, STATE_RUNNING
from tests.graphs.runs import FILE, LIBRARY, MS, build, make_ranks

SERVE = [(FILE, "<module>", 40), (f"{LIBRARY}/pool.py", "serve", 7)]
BACKOFF = [*SERVE, (f"{LIBRARY}/pool.py", "backoff", 9)]
TEST = BY_NAME["test"].code


def waits_of(
    folder: Path, before_ms: float, polled_ms: float, sent_ms: float, sleeps: bool, tests: int = 50, last: str = "recv"
):
    """One rank computes, polls, and receives what the other one sends: (ms waited, ms of its work on a CPU).

    ``last`` is the place of the receive: ``wait``, if it is the test that went well.
    """
    sender, receiver = make_ranks(folder, 2)
    message = {"tag": 7, "seq": 0}
    sender.work("load", sent_ms)
    sender.call("send", sender.now, "send", peer=1, **message)
    sender.work("step", 100.0 - sent_ms)
    receiver.work("mask", before_ms)
    if sleeps:
        receiver.ticks(receiver.now + polled_ms / 2, receiver.path(BACKOFF), 0.0, STATE_ASLEEP)
        receiver.ticks(receiver.now + polled_ms / 2, receiver.path(BACKOFF), 0.0, STATE_RUNNING)  # no core yet
        where = receiver.path(SERVE)
    else:
        receiver.work("wait", polled_ms)
        where = receiver.path("wait")
    if tests:
        receiver.writer.total(where, TEST, 1, tests, 0, MS, MS)
    receiver.call("recv", receiver.now + 1.0, last, peer=0, **message)
    receiver.work("step", 100.0 - receiver.now + receiver.start_ms)
    for rank in (sender, receiver):
        rank.end()
    ppg = build(folder)
    waits = find_waits(ppg.timeline)
    own = ppg.timeline.own
    assert own.cpu_s.sum() <= own.seconds.sum()
    of_gap = own.gap == int(ppg.timeline.calls.first[1])
    return float(waits.wait_s.sum()) * 1e3, float(own.cpu_s[of_gap].sum()) * 1e3


@pytest.mark.parametrize("sleeps", [False, True], ids=["spins", "sleeps"])
def test_who_polls_until_a_message_comes_has_waited_for_it(tmp_path: Path, sleeps: bool) -> None:
    waited_ms, cpu_ms = waits_of(tmp_path, 20.0, 60.0, 80.0, sleeps)
    assert waited_ms == pytest.approx(60.0, abs=5.0)
    assert cpu_ms == pytest.approx(20.0, abs=5.0)


@pytest.mark.parametrize(
    ("before_ms", "polled_ms", "sent_ms", "tests"),
    [(20.0, 60.0, 80.0, 0), (20.0, 60.0, 30.0, 50), (75.0, 5.0, 10.0, 50)],
    ids=["no test failed", "the message was there for long", "work"],
)
def test_what_is_no_waiting_stays_what_it_is(
    tmp_path: Path, before_ms: float, polled_ms: float, sent_ms: float, tests: int
) -> None:
    waited_ms, cpu_ms = waits_of(tmp_path, before_ms, polled_ms, sent_ms, sleeps=False, tests=tests)
    assert waited_ms == 0.0
    assert cpu_ms == pytest.approx(before_ms + polled_ms, abs=1.0)


def test_a_test_that_is_repeated_without_a_pause_has_not_worked_meanwhile(tmp_path: Path) -> None:
    """The message was there for long, but the library, or a core, did not let the rank see it."""
    waited_ms, cpu_ms = waits_of(tmp_path, 20.0, 60.0, 30.0, sleeps=False, last="wait")
    assert waited_ms == pytest.approx(10.0, abs=5.0)
    assert cpu_ms == pytest.approx(20.0, abs=5.0)


def test_ranks_that_give_their_core_away_between_tests_are_told_by_like_stretches(tmp_path: Path) -> None:
    sender, receiver = make_ranks(tmp_path, 2)
    where = receiver.path("wait")
    for turn in range(4):
        for rank, ms in ((sender, 40.0), (receiver, 0.0)):
            rank.work("load", ms)
        sender.call("send", sender.now, "send", peer=1, tag=7, seq=turn)
        if turn == 2:  # without a sample
            receiver.now, receiver.next_tick = receiver.now + 39.0, receiver.now + 42.0
        else:
            receiver.ticks(receiver.now + 39.0, where, 0.1, STATE_RUNNING)
        receiver.call("recv", receiver.now + 1.0, "recv", peer=0, tag=7, seq=turn)
    receiver.writer.total(where, TEST, 1, 1000, 0, MS, MS)
    for rank in (sender, receiver):
        rank.end()
    ppg = build(tmp_path)
    waited_ms = np.round(find_waits(ppg.timeline).wait_s[ppg.timeline.calls.location == 1] * 1e3)
    assert waited_ms.tolist() == [40.0] * 4
