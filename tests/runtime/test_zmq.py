"""Messages of ZeroMQ: both sides know them by one id, and a program does the same when they are recorded."""

from __future__ import annotations

import array
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.remote import thread_queues, zmq_ids, zmq_loops, zmq_sockets
from scalana.runtime.remote.zmq_ids import Message, bytes_of, sum_of

from . import jobs

PROGRAM = jobs.PROGRAMS / "zmq_everything.py"
NAME = b"\0abcd"


def ids(frames: Sequence[bytes], socket: str = "") -> tuple[int, ...]:
    message = Message(named=socket == "router", may_be_named=socket == "dealer")
    for number, frame in enumerate(frames, 1):
        message.add(bytes_of(frame), number < len(frames))
    return message.ids()


@pytest.mark.parametrize(
    ("sender", "sent", "receiver", "received"),
    [
        ("push", [b"a"], "pull", [b"a"]),
        ("push", [b"a", b"b"], "pull", [b"a", b"b"]),
        ("push", [b"a", b""], "pull", [b"a", b""]),
        ("dealer", [b"a"], "router", [NAME, b"a"]),
        ("dealer", [b"a", b"b"], "router", [NAME, b"a", b"b"]),
        ("router", [NAME, b"a", b"b"], "dealer", [b"a", b"b"]),
        ("req", [b"a", b"b"], "router", [NAME, b"", b"a", b"b"]),
        ("router", [NAME, b"", b"a"], "req", [b"a"]),
        ("req", [b"a", b"", b"c"], "rep", [b"a", b"", b"c"]),
        ("req", [b"a", b"", b"c"], "router", [NAME, b"", b"a", b"", b"c"]),
        ("req", [b""], "router", [NAME, b"", b""]),
        ("dealer", [b"", b"a"], "rep", [b"a"]),
        ("router", [b"worker", b"client", b"", b"a"], "dealer", [b"client", b"", b"a"]),
        # A proxy leaves the client's name before it, and on the way back takes it off.
        ("dealer", [b"a", b"b"], "dealer", [NAME, b"a", b"b"]),
        ("dealer", [NAME, b"a", b"b"], "dealer", [b"a", b"b"]),
        ("dealer", [b"a"], "dealer", [NAME, b"a"]),
    ],
)
def test_both_sides_know_a_message_by_one_id(
    sender: str, sent: list[bytes], receiver: str, received: list[bytes]
) -> None:
    assert len(set(ids(sent, sender)) & set(ids(received, receiver))) == 1


def test_other_messages_have_other_ids() -> None:
    messages = [[b"a"], [b"b"], [b"ab"], [b"a", b"b"], [b"b", b"a"], [b"a", b"b", b""], [b""], [b"\0"], [b"", b"c"]]
    assert len({ids(frames)[0] for frames in messages}) == len(messages)
    assert all(0 < one < 1 << 63 for frames in messages for one in ids(frames))


def test_a_frame_is_known_by_its_bytes_whatever_they_lie_in() -> None:
    values = array.array("d", [1.5, -2.0, 0.25] * 2000)
    data = values.tobytes()
    alike = [data, bytearray(data), memoryview(data), values, memoryview(values), memoryview(data).cast("B", (60, 800))]
    assert len({sum_of(bytes_of(frame)) for frame in alike}) == 1
    assert bytes_of(memoryview(b"")) == bytes_of(array.array("d")) == b""


def test_what_a_large_frame_costs_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    original = zmq_ids.crc32
    monkeypatch.setattr(zmq_ids, "crc32", lambda data, value=0: looked_at.append(len(data)) or original(data, value))
    for size in (4096, 4097, 10_000, 1 << 28):
        looked_at.clear()
        sum_of(memoryview(bytearray(size)))
        assert sum(looked_at) <= 4096


def test_large_frames_that_differ_have_other_sums() -> None:
    """At either end by a byte, and between by a little of it: as do answers of one model, and weights of two steps."""
    data = bytearray(random.Random(3).randbytes(1 << 16))
    sums = {sum_of(data)}
    for place in (0, 500, 1023, len(data) - 1024, len(data) - 1):
        changed = bytearray(data)
        changed[place] ^= 1
        sums.add(sum_of(changed))
    for place in range(2000, 60_000, 9000):
        changed = bytearray(data)
        changed[place : place + 100] = bytes(100)
        sums.add(sum_of(changed))
    assert len(sums) == 1 + 5 + 7
    assert sum_of(data[:-1]) not in sums


@pytest.mark.slow
def test_a_recorded_program_does_the_same(tmp_path: Path) -> None:
    """Also where it waits in vain, sends what cannot be sent, and uses what is closed. What is received was sent."""
    pytest.importorskip("zmq")
    plain, recorded = (jobs.run([sys.executable, PROGRAM], record) for record in (None, tmp_path))
    assert plain.returncode == 7
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (7, plain.stdout, plain.stderr)
    records = jobs.records(tmp_path)
    assert {note for record in records for note in record.notes} == set()
    calls = [call for record in records for call in jobs.calls(record)]
    given, taken = ({call.seq for call in calls if call.operation == name} for name in ("put", "get"))
    assert len(given) > 30
    assert len(taken - given) == 1  # a subscription, which is sent by no call


@pytest.mark.parametrize(
    ("patch", "module"),
    [
        (zmq_sockets.patch_sockets, SimpleNamespace(Socket=type("Socket", (), {}))),
        (
            zmq_sockets.patch_sockets,
            SimpleNamespace(Socket=type("Socket", (), {}), SocketBase=SimpleNamespace(get=print)),
        ),
        (zmq_sockets.patch_polls, SimpleNamespace(Poller=type("Poller", (), {}))),
        (zmq_loops.patch, SimpleNamespace(_AsyncSocket=type("Socket", (), {}))),
    ],
)
def test_what_is_not_where_it_was_is_a_note(patch, module, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    for of_threads in ("patch", "patch_coroutines"):  # of modules that are those of this process
        monkeypatch.setattr(thread_queues, of_threads, lambda _: None)
    patch(module)
    assert notes and all("recorded" in note for note in notes)
