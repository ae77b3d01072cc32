"""Calls that one process hands to another: matched by their ids, and waits for them walked back to the other side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.facts import Facts
from scalana.graphs.ppg import PPG
from scalana.runtime.operations import IN_VAIN
from scalana.runtime.record.format import EVENT_POST
from tests.graphs.runs import LINES, Rank, build

CLOSED = 99


def processes(folder: Path, workers: int) -> list[Rank]:
    """A main process and its workers, which begin a little later."""
    ranks = [Rank(folder, 0, 1, role="member", meta={"part": "main process", "world_size": None})]
    for number in range(1, workers + 1):
        meta = {"part": "worker", "world_size": None}
        ranks.append(Rank(folder, number, 1, role="member", meta=meta, start_ms=1010.0))
    return ranks


def give(rank: Rank, operation: str, *ids: int) -> None:
    for call in ids:
        rank.call(operation, rank.now, "send", group=0, seq=call, flags=EVENT_POST)


def take(rank: Rank, operation: str, until: float, *ids: int, where: str = "recv") -> None:
    """One call that takes everything that has these ids."""
    begin = rank.now
    for call in ids:
        rank.now = begin
        rank.call(operation, until, where, group=0, seq=call)


def serve(rank: Rank, call: int, begin: float, what: str, ms: float) -> None:
    """Take a call, do it, and reply."""
    take(rank, "take", begin, call)
    rank.work(what, ms)
    give(rank, "reply", 100 + call)


def close(ranks: list[Rank], at: float) -> PPG:
    main, *workers = ranks
    for worker in workers:
        take(worker, "take", at, CLOSED)
        worker.end()
    give(main, "submit", CLOSED)
    main.end()
    return build(main.folder)


def waits(ppg: PPG) -> np.ndarray:
    """Seconds of waiting by process."""
    facts = Facts(ppg)
    location = ppg.timeline.calls.location
    return np.bincount(ppg.timeline.locations.rank[location], facts.waits.wait_s, len(ppg.timeline.locations))


def test_slow_task(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 2)
    main, *workers = ranks
    main.work("load", 40)
    give(main, "submit", 1, 2, 3, 4)
    serve(workers[0], 1, 1040, "step", 100)
    serve(workers[0], 3, 1140, "step", 100)
    serve(workers[1], 2, 1040, "step", 100)
    serve(workers[1], 4, 1140, "mask", 500)
    take(main, "result", 1640, 101, 102, 103, 104, where="wait")
    ppg = close(ranks, 1640)
    assert ppg.run.names.one(2) == "worker 1"
    # Both workers until the calls came, main for the last result, and worker 0 for one more call.
    assert waits(ppg) == pytest.approx([0.6, 0.03 + 0.4, 0.03], abs=1e-6)
    analysis = analyze(ppg)
    finding = analysis.findings[0]
    assert (finding.line, finding.ranks) == (LINES["mask"], [2])
    # What main waits while worker 1 does the task before is little of the wait for the last one, and told with it.
    assert finding.lost_s == pytest.approx(1.0, rel=0.1)
    assert finding.saving_s == pytest.approx(0.4, rel=0.1)


def test_main_process_is_slow_to_submit(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 2)
    main, *workers = ranks
    for step in range(5):
        main.work("load", 200 if step else 40)
        call = 2 * step + 1
        give(main, "submit", call, call + 1)
        begin = main.now
        for number, worker in enumerate(workers):
            serve(worker, call + number, begin, "step", 50)
        take(main, "result", begin + 50, 100 + call, 101 + call, where="wait")
    ppg = close(ranks, main.now)
    assert waits(ppg) == pytest.approx([0.25, 0.83, 0.83], abs=1e-6)
    finding = analyze(ppg).findings[0]
    assert (finding.line, finding.ranks) == (LINES["load"], [0])
    assert finding.lost_s == pytest.approx(1.66, rel=0.1)


def test_several_take_what_is_given_once(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 3)
    main, *workers = ranks
    main.work("load", 100)
    give(main, "put", 7)
    for worker in workers:
        take(worker, "get", 1100, 7)
        worker.work("step", 100)
        worker.end()
    main.work("step", 100)
    main.end()
    ppg = build(tmp_path)
    assert waits(ppg) == pytest.approx([0.0, 0.09, 0.09, 0.09], abs=1e-6)
    (instance,) = {int(i) for i in ppg.timeline.calls.waits}
    first = ppg.timeline.instances.first
    assert int(first[instance + 1] - first[instance]) == 4


def test_a_wait_that_is_given_up_waits_for_what_comes_later(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 1)
    main, worker = ranks
    give(main, "submit", 1)
    serve(worker, 1, 1010, "mask", 190)
    take(main, "result", 1100, 101)
    take(main, "result", 1150, 101)
    take(main, "result", 1200, 101)
    main.end()
    worker.end()
    assert waits(build(tmp_path)) == pytest.approx([0.2, 0.0], abs=1e-6)


def test_a_wait_in_parts_is_handed_on(tmp_path: Path) -> None:
    """Who waits in parts for somebody that waits as well waits for whom this one waits for."""
    ranks = processes(tmp_path, 2)
    main, between, slow = ranks
    for begin, number in ((1010, 0), (1210, 10)):
        slow.now = begin
        slow.work("mask", 190)
        give(slow, "put", 1 + number)
        take(between, "get", begin + 190, 1 + number)
        give(between, "put", 2 + number)
        for part in range(1, 10):
            take(main, "get", begin + 20 * part, 2 + number)
        take(main, "get", begin + 191, 2 + number)
        for rank in (main, between):
            rank.work("step", begin + 200 - rank.now)
    for rank in ranks:
        rank.end()
    finding = analyze(build(tmp_path)).findings[0]
    assert (finding.line, finding.ranks) == (LINES["mask"], [2])
    assert finding.lost_s == pytest.approx(4 * 0.19, rel=0.03)


def test_a_wait_in_vain_is_for_what_comes_after_it(tmp_path: Path) -> None:
    """Also where something with the same id was given before: what cannot carry an id is known by what it is."""
    ranks = processes(tmp_path, 1)
    main, worker = ranks
    for begin in (1010, 1110):
        worker.now = begin
        worker.work("mask", 90)
        give(worker, "put", 1)
        for until in (40, 80, 90):
            tag = IN_VAIN if until < 90 else 0
            main.call("get", begin + until, "recv", group=0, seq=1, tag=tag)
        main.work("step", 10)
    for rank in ranks:
        rank.end()
    assert waits(build(tmp_path)) == pytest.approx([0.19, 0.0], abs=1e-6)


def test_what_two_send_each_other_may_be_the_same(tmp_path: Path) -> None:
    """Neither takes what it has given itself, although that was given last."""
    ranks = processes(tmp_path, 1)
    main, worker = ranks
    worker.work("mask", 90)
    give(worker, "put", 1)
    main.work("step", 50)
    main.now = 1102.0
    give(main, "put", 1)
    take(main, "get", 1103, 1)
    take(worker, "get", 1103, 1)
    for rank in ranks:
        rank.end()
    ppg = build(tmp_path)
    calls, instances = ppg.timeline.calls, ppg.timeline.instances
    rank_of = ppg.timeline.locations.rank[calls.location]
    members = [instances.members[instances.first[one] : instances.first[one + 1]] for one in calls.waits]
    assert [sorted(rank_of[each].tolist()) for each in members] == [[0, 1], [0, 1]]


def test_a_task_that_is_done_again_is_waited_for_each_time(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 1)
    main, worker = ranks
    for begin in (1010, 1110):
        give(main, "submit", 1)
        serve(worker, 1, begin, "step", 90)
        take(main, "result", begin + 90, 101)
        main.work("load", 10)
    main.end()
    worker.end()
    assert waits(build(tmp_path)) == pytest.approx([0.19, 0.01], abs=1e-6)


def test_what_nobody_gave_is_not_waited_for(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 1)
    take(ranks[0], "result", 1100, 5)
    take(ranks[1], "take", 1100, 6)
    for rank in ranks:
        rank.end()
    assert waits(build(tmp_path)) == pytest.approx([0.0, 0.0])


def test_a_result_may_have_the_id_of_its_call_and_be_there_before_it_is_said_to_be(tmp_path: Path) -> None:
    ranks = processes(tmp_path, 1)
    main, worker = ranks
    main.work("load", 40)
    give(main, "submit", 1)
    take(worker, "take", 1040, 1)
    worker.work("mask", 200.1)
    give(worker, "reply", 1)
    take(main, "result", 1240, 1)
    main.end()
    worker.end()
    assert waits(build(tmp_path)) == pytest.approx([0.2, 0.03], abs=1e-6)


def test_who_is_ended_while_it_only_serves_messages_did_not_crash(tmp_path: Path) -> None:
    """As actors are by their framework; one that has not done what it was called for did, though it got a message."""
    ranks = [Rank(tmp_path, 0, 1, role="member", meta={"part": "driver", "world_size": None})]
    for number in (1, 2):
        meta = {"part": f"store {number}", "part_source": "framework", "world_size": None}
        ranks.append(Rank(tmp_path, number, 1, role="member", meta=meta, start_ms=1010.0))
    driver, *stores = ranks
    give(driver, "submit", 1, 2)
    for call, store in enumerate(stores, 1):
        take(store, "take", 1040, call)
        if call == 1:
            give(store, "reply", 100 + call)
    give(driver, "put", 7)
    for store in stores:
        take(store, "get", 1100, 7)
        give(store, "put", 8)
        store.writer.close()
    driver.end()
    run = build(tmp_path).run
    assert run.names.many(run.killed_ranks) == "the store 2"


@pytest.mark.parametrize("recorded", [True, False])
def test_results_of_processes_without_a_record_are_told(tmp_path: Path, recorded: bool) -> None:
    """As on Ray, where a call and its result have one id: another host has its records in a folder of its own."""
    ranks = processes(tmp_path, 2)
    main, *workers = ranks
    give(main, "submit", 1, 2)
    for call, worker in enumerate(workers, 1):
        if call == 1 or recorded:
            take(worker, "take", 1040, call)
            worker.work("step", 100)
            give(worker, "reply", call)
    for call in (1, 2):
        take(main, "result", 1140 + call, call, where="wait")
    told = [text for text in close(ranks, 1640).run.warnings if "without a record" in text]
    assert len(told) == (0 if recorded else 1)
    assert recorded or told[0].startswith("the results of 1 call came from")


@pytest.mark.parametrize("nothing_else", [True, False], ids=["only calls go on", "it may go on by itself"])
def test_a_call_that_another_one_lets_go_on_waits_for_who_made_that(tmp_path: Path, nothing_else: bool) -> None:
    """An event loop holds a queue that is full: a maker waits until main gets something, and another one looks in
    between. Where the loop waits for something else too, a timer say, nothing is known of the kind."""
    ranks = processes(tmp_path, 3)
    main, loop, maker, other = ranks

    def next_call(call: int, at: float) -> None:
        if nothing_else:
            take(loop, "get", at, call)
        else:
            loop.work("step", at - loop.now)
        take(loop, "take", at, call)
        loop.work("step", 1)

    maker.work("step", 30)
    give(maker, "submit", 1)
    take(loop, "take", 1040, 1)
    other.work("step", 230)
    give(other, "submit", 2)
    next_call(2, 1240)
    give(loop, "reply", 2)
    take(other, "result", 1241, 2)
    main.work("mask", 640)
    give(main, "submit", 3)
    next_call(3, 1640)
    give(loop, "reply", 3, 1)
    take(main, "result", 1641, 3)
    take(maker, "result", 1641, 1)
    for rank in ranks:
        rank.end()
    ppg = build(tmp_path)
    facts = Facts(ppg)
    timeline = facts.timeline
    rank = timeline.locations.rank
    (row,) = np.flatnonzero(
        (rank[timeline.calls.location] == 2) & (timeline.calls.exit_s - timeline.calls.enter_s > 0.5)
    )
    late = int(facts.waits.culprit[row])
    assert int(rank[timeline.calls.location[late]]) == (0 if nothing_else else 1)
    assert facts.waits.wait_s[row] == pytest.approx(0.6 if nothing_else else 0.601, abs=1e-6)
    if nothing_else:
        finding = analyze(ppg).findings[0]
        assert (finding.line, finding.ranks) == (LINES["mask"], [0])
