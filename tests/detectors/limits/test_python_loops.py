"""Which loops are the interpreter's work: by what their headers take, and by their sources."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from scalana.detectors.limits.python_loops import runs_in_python
from scalana.detectors.thresholds.shares import WORTH_FOLLOWING
from scalana.graphs.structure.psg import Place

SOURCE = """\
def loops(text, rows, model, clock, until):
    for letter in text:
        out = ord(letter) % 50
    while rows:
        rows.pop()
    for batch in model.loader(rows):
        model(batch)
    while clock.perf_counter() < until:
        model(rows)
    codes = [ord(letter) % 50 for letter in text]
    words = {word.lower(): len(word) for word in text.split()}
    numbers = [row % 7 for row in rows]
    layers = [model(row) for row in rows]
    scaled = [row * 2 for row in rows]
    products = [row @ len(rows) for row in rows]
    broken = sum(row * row for row in rows)
"""
OFTEN, SELDOM = 2 * WORTH_FOLLOWING, WORTH_FOLLOWING / 2


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "loops.py"
    path.write_text(SOURCE)
    linecache.checkcache()
    return str(path)


def line_of(text: str) -> int:
    (line,) = (number for number, one in enumerate(SOURCE.splitlines(), 1) if one.strip().startswith(text))
    return line


@pytest.mark.parametrize(
    ("text", "share", "is_python"),
    [
        ("for letter", OFTEN, True),
        ("for letter", SELDOM, False),
        ("while rows", OFTEN, True),
        ("for batch", OFTEN, False),
        ("while clock", OFTEN, False),
        ("codes", 1.0, True),
        ("words", 1.0, True),
        ("numbers", 1.0, True),
        ("layers", 1.0, False),
        ("scaled", 1.0, False),
        ("products", 1.0, False),
        ("broken", 1.0, False),
    ],
)
def test_short_turns_show_in_headers_and_sources(file: str, text: str, share: float, is_python: bool) -> None:
    line = line_of(text)
    assert runs_in_python(Place(file, line, line + 1, 0, text), share) == is_python


def test_loops_of_other_languages_and_without_a_source_are_none(tmp_path: Path) -> None:
    for name in ("mesh.cpp", "missing.py"):
        assert not runs_in_python(Place(str(tmp_path / name), 2, 3, 0, "for"), OFTEN)
