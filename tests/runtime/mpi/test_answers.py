"""Answers of other programs are kept as long as what they depend on stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalana.runtime.mpi.answers import answer


class Other:
    """A program that answers with the contents of a file, and counts how often it is asked."""

    def __init__(self, file: Path) -> None:
        self.file, self.asked = file, 0

    def __call__(self) -> tuple[str, list[str]]:
        self.asked += 1
        return self.file.read_text(), [str(self.file), str(self.file.parent)]


@pytest.fixture
def other(tmp_path: Path) -> Other:
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "file").write_text("one\ntwo")
    return Other(tmp_path / "read" / "file")


def test_a_question_is_asked_once(tmp_path: Path, other: Other) -> None:
    environ = {"SCALANA_CACHE": str(tmp_path)}
    assert [answer("what?", environ, other) for _ in range(3)] == ["one\ntwo"] * 3
    assert other.asked == 1
    assert answer("what else?", environ, other) == "one\ntwo" and other.asked == 2


def test_another_file_gives_another_answer(tmp_path: Path, other: Other) -> None:
    environ = {"SCALANA_CACHE": str(tmp_path)}
    answer("what?", environ, other)
    other.file.write_text("three and more")
    assert answer("what?", environ, other) == "three and more"
    os.utime(other.file, ns=(1, 1))
    answer("what?", environ, other)
    (other.file.parent / "new").touch()
    answer("what?", environ, other)
    assert other.asked == 4


def test_what_cannot_be_asked_is_not_kept(tmp_path: Path, other: Other) -> None:
    environ = {"SCALANA_CACHE": str(tmp_path)}
    other.file.unlink()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            answer("what?", environ, other)
    assert other.asked == 2


@pytest.mark.parametrize("content", [b"", b"what?", b"what?\0no\0file", b"not that\0no", b"\xff\0\xff"])
def test_a_damaged_answer_is_asked_for_again(tmp_path: Path, other: Other, content: bytes) -> None:
    environ = {"SCALANA_CACHE": str(tmp_path)}
    answer("what?", environ, other)
    (kept,) = (tmp_path / "mpi" / "answers").iterdir()
    kept.write_bytes(content)
    assert answer("what?", environ, other) == "one\ntwo"
    assert answer("what?", environ, other) == "one\ntwo"
    assert other.asked == 2


def test_where_nothing_can_be_kept_it_is_asked_each_time(tmp_path: Path, other: Other) -> None:
    (tmp_path / "file").touch()
    environ = {"SCALANA_CACHE": str(tmp_path / "file")}
    assert [answer("what?", environ, other) for _ in range(2)] == ["one\ntwo"] * 2
    assert other.asked == 2
