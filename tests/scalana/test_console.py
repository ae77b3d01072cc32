"""What is written where: colour, width, encodings and progress."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scalana import console, progress
from scalana.errors import CommandError
from scalana.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it() -> None:
    assert console.wants_color(Terminal(), {"TERM": "xterm"})
    assert not console.wants_color(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert not console.wants_color(Terminal(), {"TERM": "dumb"})
    assert not console.wants_color(io.StringIO(), {"TERM": "xterm"})


def test_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not console.is_terminal(stream)


def test_width_where_there_is_no_terminal() -> None:
    assert console.width(io.StringIO()) == console.width(Terminal()) == console.MAX_WIDTH


def test_text_for_narrow_encodings() -> None:
    assert console.encodable("a ─ b · é", "utf-8") == "a ─ b · é"
    assert console.encodable("a ─ b · é", "ascii") == "a - b - ?"
    assert console.encodable("a ─ b", "no such encoding") == "a - b"


def test_result_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot write .*: No such file or directory"):
        console.deliver("text", str(tmp_path / "no" / "where"))


def test_progress_shows_on_a_terminal_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SHOW_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        with Progress(stream) as show:
            show("reading", 1, 4)
            show("matching", 2, 4)
        assert ("matching" in stream.getvalue()) is expected


def test_progress_of_short_work_is_silent() -> None:
    stream = Terminal()
    with Progress(stream) as show:
        show("reading", 1, 4)
    assert stream.getvalue() == ""
