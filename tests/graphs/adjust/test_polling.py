"""Waiting by asking again and again: who polls until a message comes has waited for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.delays.wait_states import find_waits
from scalana.frontend.build import structure_of_run
from scalana.graphs.adjust.polling import with_callees
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import STATE_ASLEEP, STATE_RUNNING
from tests.graphs.runs import FILE, LIBRARY, MS, build, make_ranks

SERVE = [(FILE, "<module>", 40), (f"{LIBRARY}/pool.py", "serve", 7)]
BACKOFF = [SERVE[0], (f"{LIBRARY}/pool.py", "serve", 8), (f"{LIBRARY}/pool.py", "backoff", 9)]
TEST = BY_NAME["test"].code


def waits_of(
    folder: Path, before_ms: float, polled_ms: float, sent_ms: float, sleeps: float, tests: int = 50, last: str = "recv"
):
    """One rank computes, polls, and receives what the other one sends: (ms waited, ms of its work, of these on a CPU).

    ``sleeps`` is the part of the polling that it sleeps, before it waits for a core; ``last`` is the place of the
    receive: ``wait``, if it is the test that went well.
    """
    sender, receiver = make_ranks(folder, 2)
    message = {"tag": 7, "seq": 0}
    sender.work("load", sent_ms)
    sender.call("send", sender.now, "send", peer=1, **message)
    sender.work("step", 100.0 - sent_ms)
    receiver.work("mask", before_ms)
    if sleeps:
        begin_ms = receiver.now
        receiver.ticks(begin_ms + polled_ms * sleeps, receiver.path(BACKOFF), 0.0, STATE_ASLEEP)
        receiver.ticks(begin_ms + polled_ms, receiver.path(BACKOFF), 0.0, STATE_RUNNING)  # no core yet
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
    of_burst = own.burst == int(ppg.timeline.calls.first[1])
    return tuple(1e3 * float(part.sum()) for part in (waits.wait_s, own.seconds[of_burst], own.cpu_s[of_burst]))


@pytest.mark.parametrize("sleeps", [0.0, 0.5, 0.1], ids=["spins", "sleeps", "sleeps, and waits for a core"])
def test_who_polls_until_a_message_comes_has_waited_for_it(tmp_path: Path, sleeps: float) -> None:
    waited_ms, own_ms, cpu_ms = waits_of(tmp_path, 20.0, 60.0, 80.0, sleeps)
    assert waited_ms == pytest.approx(60.0, abs=5.0)
    assert own_ms == pytest.approx(20.0, abs=5.0)
    assert cpu_ms == pytest.approx(20.0, abs=5.0)


@pytest.mark.parametrize(
    ("before_ms", "polled_ms", "sent_ms", "tests", "sleeps"),
    [(20.0, 60.0, 80.0, 0, 0.0), (20.0, 60.0, 30.0, 50, 0.5), (60.0, 20.0, 10.0, 50, 0.5)],
    ids=["no test failed", "the message was there for long", "work"],
)
def test_what_is_no_waiting_stays_what_it_is(
    tmp_path: Path, before_ms: float, polled_ms: float, sent_ms: float, tests: int, sleeps: float
) -> None:
    waited_ms, own_ms, cpu_ms = waits_of(tmp_path, before_ms, polled_ms, sent_ms, sleeps=sleeps, tests=tests)
    assert waited_ms == 0.0
    assert own_ms == pytest.approx(before_ms + polled_ms, abs=2.0)
    assert cpu_ms == pytest.approx(before_ms + (0.0 if sleeps else polled_ms), abs=1.0)


@pytest.mark.parametrize("last", ["wait", "recv"], ids=["a test", "a probe"])
def test_what_is_repeated_without_a_pause_has_not_worked_meanwhile(tmp_path: Path, last: str) -> None:
    """The message was there for long, but the library, or a core, did not let the rank see it."""
    waited_ms, own_ms, cpu_ms = waits_of(tmp_path, 20.0, 60.0, 30.0, sleeps=0.0, last=last)
    assert waited_ms == pytest.approx(10.0, abs=5.0)
    assert own_ms == pytest.approx(20.0, abs=5.0)
    assert cpu_ms == pytest.approx(20.0, abs=5.0)


@pytest.mark.parametrize("before", [False, True], ids=["its loop", "work before it"])
def test_what_a_library_that_asks_does_beside_it_is_its_loop_from_then_on(tmp_path: Path, before: bool) -> None:
    """Samples find a short loop at any of its lines. What the same function did before it asked is work."""
    sender, receiver = make_ranks(tmp_path, 2)
    asks, beside = (receiver.path([(FILE, "<module>", 40), (f"{LIBRARY}/pool.py", "serve", at)]) for at in (7, 8))
    sender.work("load", 80.0)
    sender.call("send", sender.now, "send", peer=1, tag=7, seq=0)
    if before:
        receiver.ticks(receiver.now + 40.0, beside, 1.0, STATE_RUNNING)
    for _ in range(4 if before else 8):
        receiver.ticks(receiver.now + 5.0, asks, 1.0, STATE_RUNNING)
        receiver.ticks(receiver.now + 5.0, beside, 1.0, STATE_RUNNING)
    receiver.writer.total(asks, TEST, 1, 5000, 0, 40 * MS, 40 * MS)
    receiver.call("recv", receiver.now + 1.0, "recv", peer=0, tag=7, seq=0)
    for rank in (sender, receiver):
        rank.end()
    waited_s = float(find_waits(build(tmp_path).timeline).wait_s.sum())
    assert waited_s * 1e3 == pytest.approx(40.0 if before else 80.0, abs=6.0)


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


LOOKS = """import os
prepare()
while not os.path.exists("done"):
    time.sleep(0.005)
    if tired:
        think()
reduce()
"""


@pytest.mark.parametrize(
    ("sleeping_ms", "thinks_ms", "waited_ms"),
    [((0.0, 60.0), 0.0, 60.0), ((62.0, 60.0), 0.0, 2.0), ((0.0, 60.0), 30.0, 0.0)],
    ids=["one makes what the other one looks for", "somebody else makes it", "works in between"],
)
def test_who_looks_for_a_file_waits_for_the_rank_that_does_not(
    tmp_path: Path, sleeping_ms: tuple[float, float], thinks_ms: float, waited_ms: float
) -> None:
    source = tmp_path / "train.py"
    source.write_text(LOOKS)
    ranks = make_ranks(tmp_path, 2, meta={"cwd": str(tmp_path)})
    for seq in range(4):
        for rank, asleep_ms in zip(ranks, sleeping_ms, strict=True):
            prepares, looks, reduces = (rank.path([(str(source), "<module>", line)]) for line in (2, 4, 7))
            thinks = rank.path([(str(source), "<module>", 6), (str(source), "think", 9)])
            rank.ticks(rank.now + (20.0 if asleep_ms else 80.0), prepares, 1.0, STATE_RUNNING)
            rank.ticks(rank.now + asleep_ms - (thinks_ms if asleep_ms else 0.0), looks, 0.0, STATE_ASLEEP)
            rank.ticks(rank.now + (thinks_ms if asleep_ms else 0.0), thinks, 1.0, STATE_RUNNING)
        until = max(rank.now for rank in ranks) + 1.0
        for rank in ranks:
            rank.call("allreduce", until, [(str(source), "<module>", 7)], seq=seq)
    for rank in ranks:
        rank.end()
    waits = find_waits(build_ppg(RunFolder(str(tmp_path)), front_end=partial(structure_of_run, [])).timeline)
    assert 250.0 * float(waits.wait_s.sum()) == pytest.approx(waited_ms, abs=4.0)


def test_paths_with_all_that_they_go_on_to():
    parent = np.array([0, 0, 1, 2, 0, 4])
    chosen = np.array([False, False, True, False, False, False])
    assert with_callees(parent, chosen).tolist() == [False, False, True, True, False, False]
    chosen[1] = True
    assert with_callees(parent, chosen).tolist() == [False, True, True, True, False, False]
