"""Requests by HTTP: both ends of a connection know them by the same ids, and a program sees nothing of that."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.http import blocking, connections, loops, servers
from scalana.runtime.http.connections import Answers, Requests, key_of
from scalana.runtime.remote import calls

from . import jobs

PROGRAM = jobs.PROGRAMS / "http_everything.py"
CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 8000)


class Core:
    """Takes down what is recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.told: dict[str, str] = {}

    def hand(self, operation: int, call: int, nbytes: int) -> None:
        self.events.append((calls.BY_CODE[operation].name, call))

    def event_at(self, operation: int, group: int, call: int, *others: int) -> None:
        self.hand(operation, call, 0)

    def meta(self, key: str, value: str) -> None:
        self.told[key] = value

    def moment(self) -> tuple[int, int]:
        return 1, 1

    def now(self) -> int:
        return 1

    def flush(self, after_ns: int = 0) -> None:
        """Nothing is pending."""


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    made = Core()
    monkeypatch.setattr(calls, "BY_CODE", {row.code: row for row in calls.BY_NAME.values()}, raising=False)
    monkeypatch.setattr(session, "core", made)
    monkeypatch.setattr(session, "process_role", "rank")
    monkeypatch.setattr(session, "record_path", "a record")
    monkeypatch.setattr(connections, "_servers", {})
    return made


def test_both_ends_know_a_connection_by_the_same() -> None:
    key = key_of(CLIENT, SERVER)
    assert key == key_of(("::ffff:10.0.0.1", 40000, 0, 0), ("::ffff:10.0.0.2", 8000, 0, 0)) > 0
    assert key_of(("fe80::1%eth0", 1, 0, 2), ("fe80::2", 2, 0, 0)) == key_of(
        ("fe80::1", 1, 0, 0), ("fe80::2%2", 2, 0, 9)
    )
    others = [(CLIENT[0], 40001), (SERVER[0], 40000)]
    assert len({key, *(key_of(other, SERVER) for other in others), key_of(CLIENT, (SERVER[0], 8001))}) == 4
    assert key_of("", "/run/server.socket") == key_of(None, None) == 0


def test_addresses_of_a_host_itself_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here, away = ("127.0.0.1", 40000), ("127.0.0.1", 8000)
    keys = []
    for name in ("one", "two"):
        monkeypatch.setattr(connections.os, "uname", lambda name=name: SimpleNamespace(nodename=name))
        keys.append((key_of(here, away), key_of(CLIENT, SERVER)))
    assert keys[0][0] != keys[1][0] and keys[0][1] == keys[1][1]


def test_the_so_manieth_request_of_a_connection_has_one_id_at_both_ends(core: Core) -> None:
    requests, answers = Requests(), Answers(CLIENT, SERVER)
    for _ in range(3):
        requests.sent((1, 1), CLIENT, SERVER)
        head = requests.expected
        answers.begin()
        answers.head()
        answers.head()
        requests.has_head = True
        answers.end()
        answers.end()
        told, core.events = core.events, []
        assert told == [
            ("submit", requests.call), ("take", requests.call), ("reply", head), ("reply", requests.expected),
        ]  # fmt: skip
        assert requests.expected == requests.call != head
    assert core.told["server 1"] == "10.0.0.2:8000"


def test_a_new_connection_counts_anew_and_has_ids_of_its_own(core: Core) -> None:
    requests, ids = Requests(), []
    for port in (40000, 40000, 40001, 40000):
        requests.sent((1, 1), (CLIENT[0], port), SERVER)
        ids.append(requests.call)
    assert ids[3] == ids[0] and len(set(ids)) == 3  # a port that is used again: what was given last counts
    assert requests.server == 1


def test_a_request_that_is_not_answered_ends_with_the_next_or_the_connection(core: Core) -> None:
    answers = Answers(CLIENT, SERVER)
    answers.begin()
    answers.begin()
    answers.end()
    assert Counter(name for name, _ in core.events) == {"take": 2, "reply": 4}


def test_who_has_no_address_is_told_with_the_path_of_the_socket(core: Core) -> None:
    requests = Requests()
    requests.sent((1, 1), "", "/run/server.socket")
    first = requests.call
    requests.sent((1, 1), "", "/run/server.socket")
    assert first != requests.call and core.told["server 1"] == "/run/server.socket"


@pytest.mark.parametrize(
    ("patch", "module"),
    [
        (blocking.patch_client, SimpleNamespace(HTTPConnection=type("Connection", (), {}), socket=SimpleNamespace(
            SocketIO=type("SocketIO", (), {})))),
        (blocking.patch_httpcore, SimpleNamespace(HTTP11Connection=type("Connection", (), {}))),
        (loops.patch_httpcore, SimpleNamespace(AsyncHTTP11Connection=type("Connection", (), {}), h11=SimpleNamespace(
            Connection=type("Connection", (), {})))),
        (loops.patch_aiohttp, SimpleNamespace(ClientRequest=type("R", (), {}), ClientResponse=type("R", (), {}))),
        (loops.patch_aiohttp_streams, SimpleNamespace(StreamReader=type("StreamReader", (), {}))),
        (loops.patch_aiohttp_protocol, SimpleNamespace(ResponseHandler=type("Handler", (), {}))),
        (servers.patch_server, SimpleNamespace(
            BaseHTTPRequestHandler=type("Handler", (), {}), HTTPServer=type("Server", (), {}))),
        (servers.patch_werkzeug, SimpleNamespace(WSGIRequestHandler=type("Handler", (), {}))),
        (servers.patch_uvicorn, SimpleNamespace(RequestResponseCycle=type("Cycle", (), {}))),
        (servers.patch_uvicorn_server, SimpleNamespace(Server=type("Server", (), {}))),
        (servers.patch_aiohttp, SimpleNamespace(RequestHandler=type("Handler", (), {}))),
        (servers.patch_aiohttp_responses, SimpleNamespace(StreamResponse=type("Response", (), {}))),
        (servers.patch_aiohttp_sites, SimpleNamespace(BaseSite=type("Site", (), {}))),
    ],
)  # fmt: skip
def test_what_is_not_where_it_was_is_a_note(patch, module, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    patch(module)
    assert notes and all("recorded" in note for note in notes)


def test_a_traceback_shows_the_recorder_by_its_files_and_its_name() -> None:
    """And not by the folder that the checkout lies in, which may have its name."""
    ours = [f'  File "{connections.__file__}", line 1', "scalana: a note", "<scalana.runtime._core.AroundCall object>"]
    others = [f'  File "{PROGRAM}", line 1', '  File "/x/scalana/.venv/lib/a.py", line 1']
    assert jobs.shows_recorder("\n".join([*ours, *others])) == ours


@pytest.mark.slow
def test_every_client_and_server_sees_the_same_and_all_requests_are_matched(tmp_path: Path) -> None:
    """Also where a client gives up, a server fails, and nobody listens; no traceback shows the recorder."""
    plain, recorded = (jobs.run([sys.executable, PROGRAM], record) for record in (None, tmp_path))
    assert plain.returncode == recorded.returncode == 0
    assert recorded.stdout == plain.stdout
    assert jobs.shows_recorder(recorded.stderr) == []
    (record,) = jobs.records(tmp_path)
    ids: dict[str, list[int]] = {name: [] for name in ("submit", "take", "reply", "result")}
    for call in jobs.calls(record):
        ids[call.operation].append(call.seq)
    submitted = Counter(ids["submit"])
    assert len(submitted) > 70 and Counter(ids["take"]) == submitted
    assert set(submitted.values()) == {1} == set(Counter(ids["reply"]).values())
    assert set(ids["result"]) <= set(ids["reply"]) and set(ids["take"]) <= set(ids["reply"])
    assert len(ids["reply"]) == 2 * len(submitted)
    assert len(set(ids["result"])) > len(submitted)  # both parts of most answers are waited for
