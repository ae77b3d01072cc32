"""Requests to a Manager: how many, how long they take, the line that makes them; and who is waited for in some."""

from __future__ import annotations

import queue
import sys
from dataclasses import replace
from multiprocessing import managers
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scalana import api
from scalana.detectors.evidence import Evidence, Serialising
from scalana.graphs.ppg import PPG
from scalana.report.findings.sentences import serialising
from scalana.runtime import session
from scalana.runtime.operations import BY_NAME
from scalana.runtime.patching import Patches
from scalana.runtime.record.span_kinds import REQUESTS
from scalana.runtime.remote import asking, calls
from scalana.runtime.remote.managers.requests import STRETCH_NS, Stretch
from scalana.runtime.remote.managers.waits import BOUNDED, InManager, InRequest, roles_of
from tests.detectors.noise.test_contention import found
from tests.jobs.test_launching import PROGRAMS, line_of
from tests.runtime import jobs

PROGRAM = PROGRAMS / "manager_requests.py"


def test_a_stretch_is_half_full_of_requests_at_least() -> None:
    stretch = Stretch((0, 0))
    for number in range(10):
        stretch.add((100 * number, 10 * number), (100 * number + 60, 10 * number + 5))
    assert (stretch.count, stretch.busy_ns, stretch.cpu_ns, stretch.until) == (10, 600, 50, (960, 95))
    assert not stretch.ends_before((1100, 0)) and stretch.ends_before((1300, 0))


def waited_for(ppg: PPG, operation: str, line: int) -> set[int]:
    """The processes that gave what the main process waits for in calls of an operation at a line."""
    calls, instances = ppg.timeline.calls, ppg.timeline.instances
    rank = ppg.timeline.locations.rank[calls.location]
    result: set[int] = set()
    for call in np.flatnonzero((calls.operation == BY_NAME[operation].code) & (rank == 0)).tolist():
        if ppg.psg[int(calls.vertex[call])].place.line == line:
            (instance,) = calls.waits[calls.wait_first[call] : calls.wait_first[call + 1]]
            members = instances.members[instances.first[instance] : instances.first[instance + 1]]
            result |= set(rank[members].tolist()) - {0}
    return result


def test_a_message_has_its_id_from_who_puts_it_to_who_gets_it() -> None:
    served, (text, number) = InManager({"queue": (queue.Queue(),), "small": (queue.Queue(2),)}), ("a text", 7)
    for name, item, message in (("queue", text, 11), ("small", number, 12), ("queue", number, 13), ("queue", text, 14)):
        put = InRequest((item,), message)
        assert put.goes((None, "accept_connection", ("a thread",), {})) == 0  # what opens a connection
        request = name, "put", put.args, {}
        served.came(request, put.goes(request))
        assert served.goes(("#RETURN", None)) == (BOUNDED if name == "small" else 0)
    served.came(("queue", "put", ("no room",), {}), 15)
    assert served.goes(("#ERROR", queue.Full())) == 0
    for name, item, message in (("queue", number, 13), ("queue", text, 11), ("queue", text, 14), ("queue", text, 0)):
        served.came((name, "get", (), {}), 0)
        assert served.goes(("#RETURN", item)) == message
    served.came(("small", "qsize", (), {}), 0)
    assert served.goes(("#RETURN", number)) == 0
    served.came(("small", "get_nowait", (), {}), 0)
    assert served.goes(("#RETURN", number)) == 12 | BOUNDED


def test_what_lets_wait_is_known_by_its_methods() -> None:
    shared = roles_of(managers.MakeProxyType("mine", managers.public_methods(queue.Queue())))
    assert shared.is_queue and shared.waits
    assert roles_of(managers.EventProxy).awaiting == {"wait"} and not roles_of(managers.EventProxy).is_queue
    assert roles_of(managers.AcquirerProxy).waits
    assert not roles_of(managers.DictProxy).waits and not roles_of(managers.ListProxy).waits


def test_who_asks_until_it_is_there_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Result:
        answers = [False, True, True]

        def ready(self) -> bool:
            return self.answers.pop(0)

    told: list[object] = []
    monkeypatch.setattr(session, "core", SimpleNamespace())
    monkeypatch.setattr(session, "record_path", "a record")
    monkeypatch.setattr(calls, "asked", lambda: told.append("asked"))
    monkeypatch.setattr(calls, "wait", lambda for_id: told.append(for_id) or 5)
    monkeypatch.setattr(calls, "got", lambda *ids: told.append(ids))
    asking.see(Patches("tests"), Result, "ready", False, "waits", lambda result: (8, 9))
    result = Result()
    assert [result.ready() for _ in range(3)] == [False, True, True]
    assert told == ["asked", "asked", 8, (5, 8, 9)]  # and nothing of who asks once it is there


@pytest.mark.slow
def test_workers_that_ask_a_manager_are_told_how_often_and_where(tmp_path: Path) -> None:
    done = jobs.run([sys.executable, PROGRAM], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = [line.split() for line in done.stdout.splitlines()]
    requests, spent_s = sum(int(one) for one, _ in told), sum(float(one) for _, one in told)
    ppg = api.analyze(tmp_path).ppg
    spans = ppg.spans
    rows = spans.rows("serialisation", "pickle requests")
    assert set(spans.line[rows].tolist()) == {line_of(PROGRAM, "<- asks")}
    asked, busy_ns = spans.integers("requests")[rows], spans.integers("busy_ns")[rows]
    assert 0 < asked.sum() <= requests and busy_ns.sum() <= 1e9 * spent_s
    took_ns = spans.table.end_ns[rows] - spans.table.start_ns[rows]
    assert (busy_ns >= STRETCH_NS).all() and (busy_ns <= took_ns).all() and (took_ns <= 2 * busy_ns).all()
    assert waited_for(ppg, "get", line_of(PROGRAM, "<- gets")) == {1, 2}
    assert waited_for(ppg, "result", line_of(PROGRAM, "<- looks")) <= {1, 2}


def test_requests_are_said_with_their_number_and_their_time() -> None:
    known = Serialising(REQUESTS, 24_000, 0, 3.5, 0.001, unpickled=False)
    finding = replace(found("late-ranks", 4.0), evidence=Evidence(serialising=known))
    assert "24,000 requests to the process of a multiprocessing Manager (3.50 s in all)" in serialising(finding)
