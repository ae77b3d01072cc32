"""Topics of the report, and sections that any renderer draws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from scalana.report import json as json_report
from scalana.report import text
from scalana.report.document.pictures import BarRow, Bars, ColumnBar, Columns, Heatmap, LanePart, Lanes, Period, Picture
from scalana.report.document.sections import (
    Account,
    Cell,
    Column,
    Facts,
    Fit,
    Layout,
    Part,
    Row,
    Section,
    Share,
    Table,
    Tone,
)
from scalana.report.html import page
from scalana.report.text.paint import Paint
from scalana.report.text.sections import section_lines
from scalana.report.topics import table
from tests.scalana.examples import late_rank
from tests.scalana.pages import drawn, well_formed

TIDES = table.Topic(
    "tides",
    lambda analysis: (
        [Section("tides", "Tides", ((Facts(("The tide is high.",)),),))] if "tides" in analysis.sections else []
    ),
    lambda analysis: {"tides": analysis.sections["tides"]} if "tides" in analysis.sections else {},
)


@pytest.mark.parametrize("has", [True, False])
def test_a_topic_is_a_row_and_every_report_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    monkeypatch.setattr(table, "TOPICS", (TIDES,))
    analysis = late_rank(tmp_path)
    analysis = replace(analysis, sections={"tides": [3, 4]} if has else {"unknown": 1})
    assert ("The tide is high." in text.render(analysis)) is has
    assert ("The tide is high." in well_formed(page.render(analysis)).text) is has
    assert json.loads(json_report.render(analysis)).get("tides") == ([3, 4] if has else None)


def test_names_are_unique() -> None:
    names = [topic.name for topic in table.TOPICS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", [table], ids=lambda module: module.__name__)
def test_details_are_for_pages_alone(tmp_path: Path, module: ModuleType) -> None:
    analysis = late_rank(tmp_path)
    few, all_of_them = (module.sections_of(analysis, details) for details in (False, True))
    assert {one.name for one in few} < {one.name for one in all_of_them}
    assert all_of_them[0].is_head and not all_of_them[-1].is_head


PLACES = Table(
    (
        Column("share", 6),
        Column("waiting", 7, is_spared=True, tone=Tone.WAITING),
        Column("place", is_text=True, leads=True, fit=Fit.CLIP_LEFT, tone=Tone.PLACE),
    ),
    (
        Row(("10 %", "0.50", Cell("a/very/long/way/to/train.py:9", " augment")), "most of it in <b>"),
        Row(("5 %", "·", Cell("b.py:1", " f", indent=1))),
    ),
    ("and 3 more",),
)
ACCOUNT = Account(
    "a step", 10.0, (Share("work", 7.5, 0, "all of it"), Share("waiting", 2.5, 1, "← rank 2", True)), Layout.BARS
)


def tides(*parts: Part, of: str = "seconds") -> Section:
    return Section("tides", "Tides", (parts,), of)


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("width", [60, 100])
def test_accounts_have_all_parts_in_every_layout(layout: Layout, width: int) -> None:
    account = Account("a step", 10.0, ACCOUNT.shares, layout, "", "a step", "behind")
    lines = section_lines(tides(account), width, Paint(False))
    page_of = drawn([tides(account)])
    assert max(map(len, lines)) <= width and lines[0].startswith("Tides ─")
    for words in ("work", "75 %", "waiting", "25 %"):
        assert words in " ".join(lines) and words in page_of.text
    assert page_of.widths() == pytest.approx([75.0, 25.0])
    if layout is not Layout.LINE:
        assert "← rank 2" in " ".join(lines) and "← rank 2" in page_of.text


def test_tables_keep_what_matters_where_there_is_little_room() -> None:
    wide = section_lines(tides(PLACES), 100, Paint(False))
    assert wide[1:] == [
        "   share waiting  place",
        "    10 %    0.50  a/very/long/way/to/train.py:9 augment",
        "        most of it in <b>",
        "     5 %       ·    b.py:1 f",
        "  and 3 more",
    ]
    narrow = section_lines(tides(PLACES), 34, Paint(False))
    assert narrow[1:3] == ["   share  place", "    10 %  …/long/way/to/train.py:9"]
    colored = section_lines(tides(PLACES), 100, Paint(True))
    assert (
        "\x1b[31m   0.50\x1b[0m" in colored[2]
        and "\x1b[36ma/very" in colored[2]
        and "\x1b[31m      ·" not in colored[4]
    )


def test_on_the_page_the_column_that_leads_is_first() -> None:
    seen = drawn([tides(PLACES)])
    assert "place share waiting" in seen.text
    assert "a/very/long/way/to/train.py:9 augment most of it in <b> 10 % 0.50" in seen.text


def test_long_words_of_a_table_are_wrapped_below_each_other() -> None:
    changes = Table(
        (Column("what if", 12, is_text=True), Column("step", 9), Column("change", is_text=True, fit=Fit.WRAP)),
        (Row(("as it is", "1.00 s", "")), Row(("new split", "0.50 s", "word " * 12))),
    )
    lines = section_lines(tides(changes), 50, Paint(False))
    assert lines[2] == "  as it is        1.00 s"
    assert lines[3].startswith("  new split       0.50 s  word word") and lines[4].startswith(" " * 26 + "word")


def test_pictures_are_on_the_page_alone() -> None:
    parts: tuple[Part, ...] = (
        Picture("a picture", lambda: "<svg></svg>"),
        Columns(
            "columns", (ColumnBar(1.0, "one"), ColumnBar(2.0, "two", "slow")), "step 1", "step 2", keys=("▼ slow",)
        ),
        Heatmap("shades", "darker", ("a <b>",), ("rank 0", "rank 1"), ("0", "1"), np.array([[1.0, 0.0]])),
        Lanes(
            "lanes",
            "",
            ("rank 0",),
            (LanePart("work", kind="work"),),
            (Period("All", "fine", 1.0, np.ones((1, 1, 4))),),
        ),
        Bars("bars", ("work",), 2.0, (BarRow("rank 0", (1.0,), "half", True),)),
    )
    assert section_lines(tides(*parts), 100, Paint(False)) == []
    seen = drawn([tides(*parts)])
    assert [tag for tag, _ in seen.elements].count("svg") == 5  # the fills of the lanes are one of their own
    for words in ("one", "▼ slow", "darker", "a <b>", "rank 0: work", "half"):
        assert words in seen.text
    assert seen.widths() == [50.0]


def test_sections_of_one_name_are_one_part_of_the_page() -> None:
    seen = drawn([tides(ACCOUNT, of="the first"), tides(ACCOUNT, of="the second")])
    tags = [tag for tag, _ in seen.elements]
    assert (tags.count("section"), tags.count("h2"), tags.count("h3")) == (1, 1, 2)
    assert "the first" in seen.text and "the second" in seen.text


def test_what_is_empty_is_left_out() -> None:
    assert section_lines(tides(Facts()), 100, Paint(False)) == []
    assert drawn([tides(Facts())]).text.strip() == ""
