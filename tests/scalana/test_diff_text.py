"""The table of changes, for people."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from scalana.detectors.runs.diff import Change
from scalana.report.compare.diff_text import changes_of
from scalana.report.text.paint import Paint
from scalana.report.text.sections import section_lines


def change(line: int, caller: str, only: str = "") -> Change:
    return Change("/job/a.hpp", line, line, "nap", "comp", "work", 3, only, 1.0, 2.0, 1.0, 0.0, 0.0, 0.1, caller)


def test_callers_are_named_where_a_place_has_several_rows() -> None:
    run = SimpleNamespace(cwd="/job")
    changes = [change(4, "/job/a.cpp:40 save", "after"), change(4, "/job/a.cpp:30 encode"), change(9, "/job/a.cpp:8 f")]
    found: Any = SimpleNamespace(before=run, after=run, changes=changes, core_wait_s=0.0, setup_s=0.0, rest_s=0.0)
    rows = section_lines(changes_of(cast(Any, found)), 120, Paint(False))[2:5]
    assert [row.rpartition("  ")[2] for row in rows] == [
        "a.hpp:4 in save, nap, new",
        "a.hpp:4 in encode, nap",
        "a.hpp:9 nap",
    ]
