"""What is said about a finding besides its seconds: who calls the place, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import CodePlace
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks import late_ranks
from scalana.detectors.late_ranks.advice import advise
from scalana.detectors.late_ranks.description import waits_at
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.rollup.place_time import _alike, place_time, times_run
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.report.findings.claims import claim
from scalana.runtime.operations import BY_NAME
from tests.detectors.jobs import analyse, steps
from tests.known import evidence


def test_a_function_that_a_library_calls_back_is_called_from_the_line_that_enters_the_library() -> None:
    psg = PSG()
    main = psg.add(VertexKind.FUNCTION, Place("train.py", 1, 9, 0, "main"), 0)
    loop = psg.add(VertexKind.LOOP, Place("train.py", 2, 9, 0, "for"), main)
    step = psg.add(VertexKind.FUNCTION, Place("train.py", 20, 29, 0, "step"), loop, site=Place("train.py", 3, 3, 8, ""))
    info = psg.add(VertexKind.CALL, Place("train.py", 24, 24, -1, "Logger.info"), step)
    text = psg.add(VertexKind.FUNCTION, Place("state.py", 5, 9, 0, "State.__repr__"), info)
    assert callers(text, psg) == ["train.py:24 step", "train.py:3 main"]


def test_a_thread_is_called_from_no_line() -> None:
    psg = PSG()
    thread = psg.add(VertexKind.CALL, Place("work.py", 5, 5, -1, "thread run"), 0)
    run = psg.add(VertexKind.FUNCTION, Place("work.py", 5, 9, 0, "run"), thread)
    assert callers(run, psg) == []


def _computes(here_s: float, others_s: float, ranks: list[int], **runs: float) -> str:
    known = evidence(
        **{"cpu_share": 0.9, "core_wait_share": 0.05, "seconds_here": here_s, "seconds_others": others_s, **runs}
    )
    return advise(
        Finding("late-ranks", 1, "no-such-file.py", 3, 3, "work", "loop", ranks, 6.0, 0.9, 2.0, evidence=known)
    )


def test_the_advice_tells_what_all_do_longer_from_what_only_some_do() -> None:
    assert _computes(4.0, 2.0, [1]).startswith("The same code")
    assert _computes(4.0, 0.0, [1]).startswith("Only this rank spends time here")
    assert _computes(4.0, 0.001, [1, 2]).startswith("Only these ranks spend time here")


def test_the_advice_on_what_computes_and_rests_names_both() -> None:
    both = _computes(4.0, 0.0, [1], cpu_share=0.4, core_wait_share=0.1)
    assert both.startswith("50% of this is computing, the rest I/O, sleep or a lock")


def test_no_core_is_to_blame_for_many_times_as_long() -> None:
    assert "check this core" in _computes(4.0, 2.0, [1])
    assert "check this core" not in _computes(4.0, 0.4, [1])


def test_the_advice_tells_what_runs_more_often() -> None:
    assert _computes(4.0, 2.0, [1], runs_here=60.0, runs_others=30.0).startswith("This runs 2 times as often here")
    assert _computes(9.0, 2.0, [1], runs_here=60.0, runs_others=30.0).startswith("The same code")
    assert _computes(4.0, 2.0, [1], runs_here=30.0, runs_others=30.0).startswith("The same code")


def test_calls_in_the_same_loop_tell_how_often_a_place_runs() -> None:
    """Each round of a loop works on a block and sends it; a loop in it sends to all neighbours."""
    psg = PSG()
    main = psg.add(VertexKind.FUNCTION, Place("a.c", 1, 9, 0, "main"), 0)
    blocks = psg.add(VertexKind.LOOP, Place("a.c", 2, 8, 0, "for"), main)
    work = psg.add(VertexKind.LOOP, Place("a.c", 3, 3, 0, "for"), blocks)
    line = psg.add(VertexKind.COMP, Place("a.c", 3, 3, 0, "x++"), work)
    share = psg.add(VertexKind.FUNCTION, Place("a.c", 11, 19, 0, "share"), blocks)
    send = psg.add(VertexKind.COMM, Place("a.c", 12, 12, 0, "MPI_Send"), share)
    around = psg.add(VertexKind.LOOP, Place("a.c", 5, 6, 0, "for"), blocks)
    exchange = psg.add(VertexKind.COMM, Place("a.c", 6, 6, 0, "MPI_Sendrecv"), around)
    location = np.repeat([0, 1, 2], [2 + 8, 6 + 3, 4 + 8])
    vertex = np.repeat([send, exchange] * 3, [2, 8, 6, 3, 4, 8])
    timeline: Any = SimpleNamespace(
        ranks=3,
        calls=SimpleNamespace(location=location, vertex=vertex, operation=0 * vertex, posts=vertex),
        locations=SimpleNamespace(rank=np.arange(3)),
        unwritten=None,
    )
    assert times_run(line, np.array([False, True, False]), timeline, psg) == (6.0, 3.0)
    assert times_run(main, np.array([False, True, False]), timeline, psg) is None
    # Every second of rank 1's fetches a message that a matched probe has found.
    timeline.calls.operation[vertex == send] = BY_NAME["recv"].code
    timeline.calls.posts = np.where((location == 1) & (np.arange(len(vertex)) % 2 == 1), -1, vertex)
    assert times_run(line, np.array([False, True, False]), timeline, psg) == (3.0, 3.0)


def test_a_part_of_a_librarys_call_is_the_same_from_whatever_line() -> None:
    psg = PSG()
    main = psg.add(VertexKind.FUNCTION, Place("train.py", 1, 9, 0, "main"), 0)
    parts = []
    for line in (4, 6):
        call = psg.add(VertexKind.CALL, Place("train.py", line, line, -1, "Schedule.step"), main)
        for name in ("forward", "backward"):
            parts.append(psg.add(VertexKind.CALL, Place("train.py", line, line, -1, name), call))
            psg[parts[-1]].site = Place("schedules.py", 70, 70, -1, "Schedule._step")
    assert _alike(parts[1], psg) == [parts[1], parts[3]]
    assert _alike(call, psg) == []


def test_what_threads_of_a_rank_do_more_at_a_place_is_told_as_theirs() -> None:
    """Whatever else the rank does there that others do, too."""
    assert "background thread" in _computes(1.8, 0.8, [1], helper_share=0.45)
    assert "background thread" not in _computes(1.8, 0.8, [1], helper_share=0.1)
    assert "background thread" not in _computes(8.0, 0.8, [1], helper_share=0.3)


def test_what_a_thread_does_for_another_one_of_its_rank_counts_once() -> None:
    """Rank 0's second thread communicates, and waits for its first to sum up; rank 1 waits for the second."""
    psg = PSG()
    code_location = CodeLocation(TargetKind.OWN, psg.add(VertexKind.COMP, Place("a.py", 7, 7, 0, "total += x"), 0), 7)
    timeline: Any = SimpleNamespace(
        ranks=2,
        own=SimpleNamespace(
            burst=np.array([0, 1, 2]),
            activity=np.array([0, 1, 0]),
            seconds=np.array([4.0, 3.0, 0.1]),
            cpu_s=np.array([3.9, 2.9, 0.1]),
            samples=np.array([800, 600, 20]),
        ),
        calls=SimpleNamespace(location=np.zeros(0, np.int64)),
        locations=SimpleNamespace(rank=np.array([0, 0, 1]), is_main=np.ones(3, np.bool_)),
        activities=SimpleNamespace(helper=np.array([False, True]), vertex=np.full(2, code_location.vertex)),
    )
    table: Any = SimpleNamespace(
        target=np.array([0, 1]),
        location=np.array([0, 1]),
        seconds=np.array([0.1, 2.9]),
        work=np.array([-1, -1]),
        choice=np.array([-1, -1]),
    )
    time = place_time(Candidate(BlamedRun(timeline, psg, table), code_location, np.array([0, 1]), 3.0, [0]))
    np.testing.assert_allclose(time.wall_s, [3.0, 0.1])
    np.testing.assert_allclose(time.cpu_s, [2.9, 0.1])
    np.testing.assert_allclose(time.helper_s, [0.0, 0.0])


def test_what_a_finding_names_a_rank_for_is_told_even_if_no_sample_is_left_there() -> None:
    """Rank 1 rests at a lock, and what was sampled there went to the thread that holds it. Of rank 0 it is inferred."""
    psg = PSG()
    code_location = CodeLocation(
        TargetKind.OWN, psg.add(VertexKind.CALL, Place("a.c", 7, 7, 0, "pthread_mutex_lock"), 0), 7
    )
    timeline: Any = SimpleNamespace(
        ranks=2,
        own=SimpleNamespace(
            burst=np.array([0, 1]),
            activity=np.array([0, 0]),
            seconds=np.array([0.1, 0.4]),
            cpu_s=np.zeros(2),
            samples=np.zeros(2, np.int64),
        ),
        calls=SimpleNamespace(location=np.zeros(0, np.int64)),
        locations=SimpleNamespace(rank=np.array([0, 1]), is_main=np.ones(2, np.bool_)),
        activities=SimpleNamespace(helper=np.array([False]), vertex=np.array([code_location.vertex])),
    )
    table: Any = SimpleNamespace(
        target=np.array([0]),
        location=np.array([1]),
        seconds=np.array([0.3]),
        work=np.array([-1]),
        choice=np.array([-1]),
    )
    time = place_time(Candidate(BlamedRun(timeline, psg, table), code_location, np.array([0]), 0.3, [1]))
    np.testing.assert_allclose(time.wall_s, [0.0, 0.4])


def test_where_a_rank_waits_for_a_lock_that_its_thread_holds() -> None:
    """A thread works behind a lock in line 15, for which the rank waits in line 22."""
    psg = PSG()
    works = psg.add(VertexKind.COMP, Place("a.py", 13, 15, 0, ""), 0)
    takes = psg.add(VertexKind.COMP, Place("a.py", 20, 22, 0, ""), 0)
    table: Any = SimpleNamespace(target=np.array([1, 0]), seconds=np.array([2.0, 1.0]))
    activities = SimpleNamespace(
        helper=np.array([False, True]), waits_vertex=np.array([-1, takes]), waits_line=np.array([0, 22])
    )
    timeline: Any = SimpleNamespace(activities=activities)
    blamed = BlamedRun(timeline, psg, table)
    candidate = Candidate(blamed, CodeLocation(TargetKind.OWN, works, 15), np.array([0, 1]), 3.0, [1])
    assert waits_at(candidate) == CodePlace("a.py", 22, "")
    table.seconds = table.seconds[::-1]  # most of it is the ranks' own work
    assert waits_at(candidate) is None


def test_the_advice_tells_rests_apart(tmp_path: Path) -> None:
    said = {}
    for line in ("usleep(9);", "nanosleep(&t, 0);", "std::this_thread::sleep_for(d);", "pthread_mutex_lock(&m);") + (
        "std::lock_guard<std::mutex> guard(m);",
        "worker.join();",
        "n = read(fd, b, 9);",
        "f();",
        "p = popen(s, mode);",
    ):
        path = tmp_path / f"{len(said)}.cpp"
        path.write_text(f"{line}\n")
        known = evidence(cpu_share=0.05, core_wait_share=0.02, seconds_here=4.0, seconds_others=0.0)
        finding = Finding("late-ranks", 1, str(path), 1, 1, "work", "call", [1], 6.0, 0.9, 2.0, evidence=known)
        said[line] = advise(finding).split(":")[0]
    assert list(said.values()) == (
        ["The program itself sleeps here"] * 3
        + ["The rank waits here for a lock that others hold"] * 2
        + ["The rank waits here for its own threads"]
        + ["The rank blocks on input here (a file, a pipe, a socket)"]
        + ["The time is spent off the CPU (I/O, sleep or a lock)"]
        + ["The rank waits for a program that it starts here"]
    )


def test_workers_that_take_turns_at_a_lock_are_not_to_become_more(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("with lock:\n    append(row)\n")
    known = evidence(cpu_share=0.01, core_wait_share=0.1, seconds_here=6.0, seconds_others=0.0, whole_role=True)
    of_lines = [
        advise(Finding("late-ranks", 1, str(path), at, at, "work", "comp", [1, 2], 6.0, 0.9, 2.0, evidence=known))
        for at in (1, 2)
    ]
    assert [text.split(":")[0] for text in of_lines] == [
        "The rank waits here for a lock that others hold",
        "All processes of this role take as long here",
    ]


@pytest.mark.parametrize(
    ("cpu", "core_wait", "kind"), [(0.1, 0.8, "waiting-for-core"), (0.0, 0.55, "late-ranks"), (0.4, 0.55, "late-ranks")]
)
def test_who_rests_more_often_is_not_late_for_want_of_a_core(
    cpu: float, core_wait: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_ranks, "computes_more", lambda candidate: False)
    known = evidence(
        cpu_share=cpu, core_wait_share=core_wait, seconds_here=15.6, seconds_others=5.9, programs_share=0.2
    )
    found = Finding("late-ranks", 1, "a.c", 3, 3, "interior", "comp", [1], 6.0, 0.9, 2.0, evidence=known)
    candidate: Any = SimpleNamespace(code_location=CodeLocation(TargetKind.OWN, 1, 3), ranks=[1])
    run: Any = None
    assert late_ranks._kind(candidate, found, run) == kind


def test_of_ranks_that_wait_for_each_other_it_is_said_how_long_for_which() -> None:
    """Rank 0 is late in every third step, rank 1 in the others."""
    found, _ = analyse(steps(2, 60, lambda step, rank: {"part": 50.0 if (step % 3 == 0) == (rank == 0) else 10.0}))
    ((_, finding),) = found
    assert finding.ranks == [0, 1]
    assert finding.evidence.caused_s == pytest.approx([0.8, 1.6], rel=0.02)
    assert claim(finding, 2).endswith("rank 1 causes 1.60 rank-seconds of waiting, rank 0 0.80 rank-seconds.")
