"""Sections on the page: sentences, accounts as bars with a table, tables, and pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.report import names
from scalana.report.document.pictures import Bars, Columns, Heatmap, Lanes, Picture
from scalana.report.document.sections import (
    Account,
    Cell,
    Column,
    Facts,
    Layout,
    Part,
    Section,
    Share,
    Table,
    Tone,
)
from scalana.report.html import bars
from scalana.report.html.bars import PALETTE, bars_markup
from scalana.report.html.columns import columns_markup
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.lanes import lanes_markup
from scalana.report.html.markup import Content, Markup, element, join, lines, prose, table

_LARGEST_PICTURE = 600_000
"""Characters of a picture from which on it is left out: the page is to stay small."""


def sections_markup(sections: Sequence[Section]) -> list[Markup]:
    """The sections of a page; those of one name together."""
    together: dict[str, list[Section]] = {}
    for section in sections:
        together.setdefault(section.name, []).append(section)
    return [made for some in together.values() if (made := _section(some)) is not None]


def _section(sections: Sequence[Section]) -> Markup | None:
    """Sections of one name, under one heading."""
    first, several = sections[0], sum(bool(section.of) for section in sections) > 1
    made: list[Content] = []
    for section in sections:
        parts = [part_markup(part) for block in section.blocks for part in block]
        if any(parts):
            kind = ("h3", None) if several else ("p", "soft")
            made.append(element(kind[0], section.of, class_=kind[1]) if section.of else None)
            made += parts
    if not any(made):
        return None
    heading = element("h2", first.heading) if first.heading else None
    return element("section", heading, lines(*made), id=first.name)


def part_markup(part: Part) -> Markup | None:
    """One part; None where there is nothing in it."""
    if isinstance(part, Facts):
        return _facts(part)
    if isinstance(part, Account):
        return _account(part)
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Picture):
        return _picture(part)
    if isinstance(part, Columns):
        return columns_markup(part)
    if isinstance(part, Heatmap):
        return heatmap_markup(part)
    return lanes_markup(part) if isinstance(part, Lanes) else _bars(part)


def _bars(part: Bars) -> Markup:
    return bars_markup(part)


def _facts(facts: Facts) -> Markup | None:
    rows = [join(element("dt", name), element("dd", prose(text))) for name, text in facts.values]
    said = [element("p", prose(text), class_="soft" if facts.is_soft else None) for text in facts.sentences]
    return lines(*said, element("dl", *rows) if rows else None) if said or rows else None


def _account(account: Account) -> Markup:
    """A bar, and a legend or a table that says what its parts are."""
    parts = [bars.Part(one.name, one.seconds, _style(one)) for one in account.shares]
    drawn = bars.bar(parts, account.whole_s, account.of)
    if account.layout is Layout.LINE:
        of = f"{account.of[:1].upper()}{account.of[1:]}" + (f", {account.lead}" if account.lead else "")
        return lines(element("p", f"{of}:"), drawn, bars.legend(parts, account.whole_s))
    rows: list[list[Content]] = [
        [
            element("span", element("span", class_=f"key {_style(one)}", aria_hidden="true"), one.name),
            names.percent(account.share(one)),
            names.seconds(one.seconds),
            one.behind,
        ]
        for one in account.shares
    ]
    heads = ["part", "share", account.seconds_head, account.behind_head]
    return lines(drawn, table(heads, rows, frozenset((0, 3))))


def _style(share: Share) -> str:
    return PALETTE[share.color % len(PALETTE)]


def _table(part: Table) -> Markup:
    """A table; the column that says what a row is about comes first."""
    order = sorted(range(len(part.columns)), key=lambda number: not part.columns[number].leads)
    columns = [part.columns[number] for number in order]
    rows = [
        [_cell(part.columns[number], row.cells[number], row.below if number == order[0] else "") for number in order]
        for row in part.rows
    ]
    texts = frozenset(number for number, column in enumerate(columns) if column.is_text)
    heads = [column.head for column in columns]
    return lines(table(heads, rows, texts), *(element("p", note, class_="soft") for note in part.notes))


def _cell(column: Column, cell: str | Cell, below: str) -> Content:
    if isinstance(cell, str):
        return cell
    text = cell.full or cell.text
    tone = column.tone if cell.tone is None else cell.tone
    shown = element("code", text) if tone is Tone.PLACE else join(text)
    indent = f"padding-left:{1.2 * cell.indent:g}em" if cell.indent and not cell.full else None
    more = element("div", below, class_="soft") if below else None
    return element("div", shown, f" {cell.tail.strip()}" if cell.tail else None, more, style=indent)


def _picture(picture: Picture) -> Markup:
    svg = picture.svg()
    if len(svg) > _LARGEST_PICTURE:
        return element("p", f"The {picture.label} is too large for this page.", class_="soft")
    return element("div", Markup(svg), class_="picture", tabindex="0", role="region", aria_label=picture.label)


_SHADES = 8
"""Steps of the darkness of a cell, which the eye tells apart, and which keep a page of many ranks small."""
_WIDTH, _LEFT, _TOP, _ROW = 1100, 300, 26, 24
_READABLE = 44
"""Width of a column into which a number fits."""
_MOST_LETTERS = 44
_MOST_TICKS = 16


def heatmap_markup(heatmap: Heatmap) -> Markup:
    """The caption and the drawing."""
    count = len(heatmap.heads)
    column = (_WIDTH - _LEFT) / count
    parts = []
    for row, (name, seconds) in enumerate(zip(heatmap.rows, heatmap.seconds, strict=True)):
        y = _TOP + row * _ROW
        short = name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"
        parts.append(shape("text", element("title", name), short, x=_LEFT - 8, y=y + 16, text_anchor="end"))
        parts += _cells(heatmap, name, seconds, y)
    scale = [
        label(heatmap.ticks[number], _LEFT + (number + 0.5) * column, _TOP - 8, "middle")
        for number in range(0, count, -(-count // _MOST_TICKS))
    ]
    picture = drawing(_WIDTH, _TOP + len(heatmap.rows) * _ROW + 4, heatmap.label, *scale, *parts)
    return lines(element("p", heatmap.caption, class_="soft"), picture)


def _cells(heatmap: Heatmap, name: str, seconds: FloatArray, y: float) -> list[Markup]:
    """The cells of a row."""
    whole, column = max(float(seconds.max()), 1e-12), (_WIDTH - _LEFT) / len(heatmap.heads)
    made = []
    for number, value in enumerate(seconds.tolist()):
        said = element("title", f"{heatmap.heads[number]}: {names.seconds(value)} at {name}")
        shade = np.ceil(_SHADES * value / whole) / _SHADES
        x = _LEFT + number * column
        cell = shape("rect", x=x, y=y, width=column, height=_ROW - 2, class_="heat", opacity=0.04 + 0.56 * shade)
        text = names.amount(value) if column >= _READABLE else None
        made.append(element("g", said, cell, label(text, x + column / 2, y + 15, "middle") if text else None))
    return made
