"""When the compiled recorder writes what is pending, and what it writes then."""

from __future__ import annotations

import signal
from pathlib import Path

from scalana.runtime.record.format import ProcessRecord

from .recording import recorded, run


def test_what_need_not_be_written_at_once_is_written_without_another_call(tmp_path: Path) -> None:
    run(
        """
        _core.start(RECORD, 0, 1 << 20, flush_s=3600)
        _core.flush()
        size = os.path.getsize(RECORD)
        _core.meta("first", "in an hour")
        _core.flush(3_600_000_000_000)
        assert os.path.getsize(RECORD) == size
        _core.meta("second", "soon")
        _core.flush(50_000_000)
        while os.path.getsize(RECORD) == size:
            time.sleep(0.001)
        size = os.path.getsize(RECORD)
        _core.meta("third", "now")
        _core.flush(1)
        assert os.path.getsize(RECORD) > size
        os.kill(os.getpid(), 9)
        """,
        tmp_path / "program.rec",
        expect=-signal.SIGKILL,
    )
    record = ProcessRecord.read(tmp_path / "program.rec")
    assert not record.ended and record.troubles == []
    assert [record.meta.get(key) for key in ("first", "second", "third")] == ["in an hour", "soon", "now"]


def test_calls_that_are_open_are_told_at_every_flush(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 0, 1 << 20, flush_s=100)
        world = _core.group("world", 0, [0, 1])
        outer = _core.begin(3, world, 9, -1, 0, 10, 1)
        inner = _core.begin(12, world, 0, 1, 0, 0, 4)
        _core.flush()
        _core.end(inner)
        _core.flush()
        _core.end(outer)
        _core.stop()
        """,
        tmp_path,
    )
    opened, events = record.open, record.events
    assert opened.operation.tolist() == [3, 12, 3]
    assert opened.seq.tolist() == [9, 0, 9] and opened.peer.tolist() == [-1, 1, -1]
    assert opened.event.tolist() == [events.id[1], events.id[0], events.id[1]]
    assert opened.enter_ns.tolist() == [events.enter_ns[1], events.enter_ns[0], events.enter_ns[1]]
    assert all(enter < as_of for enter, as_of in zip(opened.enter_ns, opened.as_of_ns, strict=True))
