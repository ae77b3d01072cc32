"""Parts of the report that only some jobs have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalana.report import json as json_report
from scalana.report import sections, text
from tests.scalana.examples import late_rank

SECTION = sections.Section(
    "tides", lambda data, analysis, width, paint: [f"Tides: {data}"], lambda data, analysis: data
)


@pytest.mark.parametrize("has", [True, False])
def test_a_section_is_shown_where_a_detector_has_returned_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    monkeypatch.setattr(sections, "SECTIONS", (SECTION,))
    analysis = late_rank(tmp_path)
    analysis.sections = {"tides": [3, 4]} if has else {"unknown": 1}
    assert ("Tides: [3, 4]" in text.render(analysis)) is has
    assert json.loads(json_report.render(analysis)).get("tides") == ([3, 4] if has else None)


def test_names_are_unique() -> None:
    names = [section.name for section in sections.SECTIONS]
    assert len(names) == len(set(names))
