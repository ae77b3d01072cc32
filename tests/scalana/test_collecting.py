"""The first start of a job takes the records of the others over the network."""

from __future__ import annotations

import json
import os
import socket
import threading
import zlib
from pathlib import Path

import pytest

from scalana.job import gathering, meeting, transfer
from scalana.job.gathering import send
from scalana.job.meeting import Place, take_place
from scalana.job.parts import Part
from scalana.job.receiving import Receiver
from scalana.runtime.record import layout

PARTS = [Part("torchrun x", "x", index, 2, 2, "127.0.0.1") for index in range(2)]
WORLD = "0123456789abcdef"


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start(folder: Path, index: int, world: str = WORLD) -> Place:
    """The start of an index, in a folder of its own, that has ended with a record."""
    place = take_place(str(folder), PARTS[index])
    records = folder / "records"
    records.mkdir()
    (records / f"host{index}-7-0.rec").write_bytes(bytes(range(256)) * 1000)
    layout.note_world(folder, world)
    meeting.say_start(place, {"command": ["x"], "seconds": 1.0, "exit_code": 0})
    return place


def sender(name: str = "1") -> transfer.Sender:
    """Who sends."""
    return transfer.Sender(name, "host1", 0, 1.0)


def test_records_arrive_and_the_head_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, other = start(tmp_path / "a", 0), start(tmp_path / "b", 1)
    where = f"127.0.0.1:{free_port()}"
    said: dict[str, list[str]] = {"head": [], "other": []}
    answers = {}

    def follow() -> None:
        ended = gathering.Ended(other, PARTS[1], 1.0, 0, collect=where)
        answers["other"] = gathering.reports(ended, said["other"].append)

    thread = threading.Thread(target=follow)
    thread.start()
    assert gathering.reports(gathering.Ended(head, PARTS[0], 1.0, 0, collect=where), said["head"].append)
    thread.join(30)
    assert answers == {"other": False}
    assert "sent to 127.0.0.1" in said["other"][0] and not any("without" in line for line in said["head"])
    assert [Path(file).name for file in layout.record_files(tmp_path / "a")] == ["host0-7-0.rec", "host1-7-0.rec"]
    kept = Path(layout.start_folder(tmp_path / "a", "1"))
    assert (kept / "records" / "host1-7-0.rec").read_bytes() == bytes(range(256)) * 1000
    assert json.loads(Path(layout.start_file(tmp_path / "a", "1")).read_text())["host"] == socket.gethostname()


def test_a_start_of_another_job_is_refused(tmp_path: Path) -> None:
    start(tmp_path / "a", 0)
    start(tmp_path / "b", 1, world="fedcba9876543210")
    port = free_port()
    with Receiver(str(tmp_path / "a"), [port]).open() as receiver:
        assert receiver.listens
        assert not send(str(tmp_path / "b"), sender(), "127.0.0.1", [port], 0.0)
    assert len(layout.record_files(tmp_path / "a")) == 1
    assert not (tmp_path / "a" / "starts" / "1").exists()


def test_nothing_is_sent_to_another_program(tmp_path: Path) -> None:
    start(tmp_path / "b", 1)
    received = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(json.dumps({"greeting": transfer.GREETING, "challenge": "1"}).encode() + b"\n")
            received.append(connection.recv(65536))
            connection.sendall(b'{"proof": "guess"}\n')
            received.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        assert not send(str(tmp_path / "b"), sender(), "127.0.0.1", [listener.getsockname()[1]], 0.0)
        thread.join(10)
    assert WORLD.encode() not in b"".join(received) and received[-1] == b""


def connected(tmp_path: Path, port: int) -> tuple[socket.socket, object]:
    """A connection to the receiver, past its checks."""
    connection = socket.create_connection(("127.0.0.1", port))
    stream = connection.makefile("rwb")
    greeting = transfer.read_line(stream)  # type: ignore[arg-type]
    proof = transfer.proof(WORLD, "sends", greeting["challenge"])
    transfer.write_line(stream, {"proofs": [proof], "challenge": "1"})  # type: ignore[arg-type]
    assert transfer.read_line(stream)["proof"] == transfer.proof(WORLD, "receives", "1")  # type: ignore[arg-type]
    transfer.write_line(stream, vars(sender()))  # type: ignore[arg-type]
    return connection, stream


@pytest.mark.parametrize("name", ["../run.json", "records/../../x", "/etc/passwd", "records/.hidden", "job.json", 7])
def test_files_stay_in_the_folder(tmp_path: Path, name: object) -> None:
    start(tmp_path / "a", 0)
    port = free_port()
    before = sorted(str(path) for path in tmp_path.rglob("*") if "starts" not in path.parts)
    with Receiver(str(tmp_path / "a"), [port]).open():
        connection, stream = connected(tmp_path, port)
        transfer.write_line(stream, {"file": name})  # type: ignore[arg-type]
        with connection:
            assert stream.read(1) == b""  # type: ignore[attr-defined]
    assert sorted(str(path) for path in tmp_path.rglob("*") if "starts" not in path.parts) == before
    assert not (tmp_path / "a" / "starts" / "1").exists()


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LARGEST_FILE", 1 << 20)
    start(tmp_path / "a", 0)
    port = free_port()
    with Receiver(str(tmp_path / "a"), [port]).open():
        connection, stream = connected(tmp_path, port)
        packed = zlib.compress(bytes(1 << 24))
        transfer.write_line(stream, {"file": "records/a.rec"})  # type: ignore[arg-type]
        stream.write(len(packed).to_bytes(4, "big") + packed)  # type: ignore[attr-defined]
        stream.flush()  # type: ignore[attr-defined]
        with connection:
            assert stream.read(1) == b""  # type: ignore[attr-defined]
    assert not (tmp_path / "a" / "starts" / "1").exists()


def test_senders_that_die_lose_nothing_of_the_others(tmp_path: Path) -> None:
    start(tmp_path / "a", 0)
    port = free_port()
    folders = []
    for number in range(12):
        folder = tmp_path / f"b{number}"
        (folder / "records").mkdir(parents=True)
        (folder / "records" / f"n{number}-1-0.rec").write_bytes(os.urandom(100_000))
        layout.note_world(folder, WORLD)
        folders.append(folder)
    with Receiver(str(tmp_path / "a"), [port]).open():
        lost = [connected(tmp_path, port) for _ in range(2)]
        for connection, stream in lost:
            transfer.write_line(stream, {"file": "records/x.rec"})  # type: ignore[arg-type]
            connection.shutdown(socket.SHUT_RDWR)
        threads = [
            threading.Thread(target=send, args=(str(folder), sender(folder.name), "127.0.0.1", [port], 20.0))
            for folder in folders
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for connection, _ in lost:
            connection.close()
    got = {Path(file).name: Path(file).read_bytes() for file in layout.record_files(tmp_path / "a")}
    for number, folder in enumerate(folders):
        assert got[f"n{number}-1-0.rec"] == (folder / "records" / f"n{number}-1-0.rec").read_bytes()
    assert "x.rec" not in got


def test_no_port_is_open_where_it_is_forbidden_or_not_needed(tmp_path: Path) -> None:
    place = start(tmp_path / "a", 0)
    assert gathering.Ended(place, PARTS[0], 1.0, 0, collect="no").address[1] == []
    assert not Receiver(str(tmp_path / "a"), []).listens
    (tmp_path / "c").mkdir()
    assert not Receiver(str(tmp_path / "c"), [free_port()]).listens  # no rank has met another one
    assert transfer.ports_of("a") != transfer.ports_of("b") and len(transfer.ports_of("a")) == transfer.TRIES
