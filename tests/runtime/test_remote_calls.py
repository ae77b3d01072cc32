"""Recording pools, queues and pipes changes nothing that a program sees, and what is not where it was is told."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.remote import calls, event_loops, futures, pools, queues

from . import jobs

PROGRAM, AWAITS = jobs.PROGRAMS / "remote_everything.py", jobs.PROGRAMS / "awaits.py"


@pytest.mark.slow
def test_a_recorded_program_does_the_same(tmp_path: Path) -> None:
    """Also where it waits in vain, hands over what fails, and leaves processes behind."""
    plain, *recorded = (
        jobs.run([sys.executable, PROGRAM, method], record)
        for method, record in (("fork", None), ("fork", tmp_path / "fork"), ("forkserver", tmp_path / "server"))
    )
    assert plain.returncode == 7
    for done in recorded:
        assert (done.returncode, done.stdout) == (7, plain.stdout)
    assert recorded[0].stderr == plain.stderr
    for folder in ("fork", "server"):
        records = jobs.records(tmp_path / folder)
        assert {note for record in records for note in record.notes} == set()
        parts = {record.meta.get("part") for record in records}
        assert {"main process", "worker", "echo"} <= parts


def test_where_python_makes_tasks_of_what_is_awaited_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3.12 on; of futures and coroutines nothing is to be known."""
    tasks = SimpleNamespace(
        __name__="asyncio.tasks",
        ensure_future=lambda awaited, loop=None: awaited,
        futures=asyncio.futures,
        coroutines=asyncio.coroutines,
    )
    event_loops.patch_tasks(tasks)
    known: list[object] = []
    monkeypatch.setattr(event_loops, "await_here", known.append)
    monkeypatch.setattr(event_loops, "CALLS_OF", [lambda _: (0, 0)])
    monkeypatch.setattr(session, "core", object())
    awaited, future = object(), asyncio.Future(loop=asyncio.new_event_loop())
    assert [tasks.ensure_future(one, loop=None) for one in (awaited, future)] == [awaited, future]
    assert known == [id(awaited)]
    future.get_loop().close()


@pytest.mark.measured
def test_what_a_loop_waits_for_is_told_at_the_line_that_awaits(tmp_path: Path) -> None:
    """Also where other coroutines wake it, and through what gathers; not where the result was there before."""
    done = jobs.run([sys.executable, AWAITS], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (record,) = jobs.records(tmp_path)
    waited: dict[int, float] = defaultdict(float)
    lines: dict[int, str] = {}
    source = AWAITS.read_text().splitlines()
    for call in jobs.calls(record):
        if call.operation == "result":
            waited[call.seq] += call.seconds
            (line,) = (frame.line for frame in record.frames(call.path) if frame.code.name == "main")
            lines[call.seq] = source[line - 1].partition("# ")[2]
    assert lines == {11: "awaits one", 12: "awaits two", 13: "awaits two"}
    assert waited[11] > 0.12 and waited[12] > 0.05 and waited[13] > 0.12  # of 0.2, 0.1, 0.2 s, less the beats


@pytest.mark.parametrize(
    ("patch", "module"),
    [
        (futures.patch_pools, SimpleNamespace(__name__="process", ProcessPoolExecutor=type("Pool", (), {}))),
        (pools.patch, SimpleNamespace(
            __name__="pool", Pool=type("Pool", (), {}), ApplyResult=type("Result", (), {}), TimeoutError=OSError,
            IMapIterator=type("Iterator", (), {}), IMapUnorderedIterator=type("Iterator", (), {}),
        )),
        (queues.patch_queues, SimpleNamespace(
            __name__="queues", Queue=type("Queue", (), {}), JoinableQueue=type("Queue", (), {}),
            SimpleQueue=type("Queue", (), {}),
        )),
    ],
)  # fmt: skip
def test_what_is_not_where_it_was_is_a_note(patch, module, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    patch(module)
    assert notes and all("recorded" in note for note in notes)


def test_nothing_happens_where_nothing_is_recorded() -> None:
    assert calls.idle() == calls.wait() == calls.expect() == 0
    calls.submit(1)
    calls.reply(1)
    calls.took(1, 2)
    calls.got(0, 1)
    assert calls.moment() is None


class Recorder:
    """What is told of calls, at times that are set."""

    def __init__(self) -> None:
        self.now, self.told = 0, list[tuple[int, int, int]]()

    def moment(self) -> tuple[int, int]:
        return self.now, self.now

    def begin(self, *arguments: int) -> int:
        self.began = self.now
        return 1

    def end_as(self, handle: int, *ids: int) -> None:
        self.told += [(one, self.began, self.now) for one in ids]

    def event_at(self, operation: int, group: int, call: int, *rest: int) -> None:
        self.told.append((call, *rest[5:7]))


def test_who_asks_again_and_again_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first question on, unless something else was done, or recorded, in between."""
    core = Recorder()
    monkeypatch.setattr(session, "core", core)
    monkeypatch.setattr(calls.part, "member_of", [session.record_path])
    ms = 1_000_000

    def ask(at_ms: int, call: int = 0, took_ms: int = 1) -> None:
        core.now = at_ms * ms
        began, handle = core.moment(), calls.wait()
        core.now += took_ms * ms
        if call:
            calls.got_by_asking(handle, began, call)
        elif not calls.asked_in_vain(handle, began):
            calls.got(handle, 99)

    for at_ms in (100, 105, 112):
        ask(at_ms)
    assert core.told == []
    ask(120, 7)
    assert core.told == [(7, 100 * ms, 121 * ms)]
    ask(121, 8)
    assert core.told[1:] == [(8, 121 * ms, 122 * ms)]
    ask(130)
    ask(170, 9)  # it did something else from 131 on
    assert core.told[2:] == [(9, 170 * ms, 171 * ms)]
    ask(200)
    calls.submitted(10, core.moment())
    ask(202, 11)
    assert core.told[3:] == [(10, 201 * ms, 201 * ms), (11, 202 * ms, 203 * ms)]
    ask(300, took_ms=50)  # that was no question, but a wait that was given up
    assert core.told[5:] == [(99, 300 * ms, 350 * ms)]


def test_ids_are_positive_and_apart() -> None:
    ids = {calls.mixed(calls.id_of(b"pool"), number, piece) for number in range(100) for piece in range(100)}
    assert len(ids) == 10_000 and all(0 < one < 1 << 63 for one in ids)
    assert calls.id_of(b"a") != calls.id_of(b"b")
    assert len({calls.new_id() for _ in range(1000)}) == 1000
