"""Seconds, or parts of one, over steps: a column each, slow ones marked by a sign as well as by their colour."""

from __future__ import annotations

from scalana.report import names
from scalana.report.document.pictures import ColumnBar, Columns
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element, lines

_WIDTH, _LEFT = 1100, 62
_HIGH, _LOW = 150, 70
"""Height of the columns."""
_MOST_WIDTH = 60.0


def columns_markup(columns: Columns) -> Markup:
    """The drawing, with what its marks mean; with a scale at its left."""
    height, top = (_LOW, 8) if columns.is_low else (_HIGH, 18)
    most, bottom = 1.0 if columns.is_of_one else max(bar.seconds for bar in columns.bars), top + height
    width = (_WIDTH - _LEFT) / len(columns.bars)
    frame = [
        *_grid(columns, most, height, top),
        label(columns.first, _LEFT, bottom + 15),
        label(columns.last, _WIDTH, bottom + 15, "end") if columns.last else None,
    ]
    drawn = [
        _column(bar, _LEFT + number * width, width, bottom, max(bar.seconds, 0.0) / most * height)
        for number, bar in enumerate(columns.bars)
    ]
    picture = drawing(_WIDTH, bottom + 20, columns.label, *frame, *drawn)
    keys = element("p", " · ".join(columns.keys), class_="soft") if columns.keys else None
    return lines(picture, keys)


def _column(bar: ColumnBar, x: float, width: float, bottom: float, height: float) -> Markup:
    height = max(height, 1.0)
    wide = min(max(width - min(width * 0.15, 2.0), 0.5), _MOST_WIDTH)
    box = shape("rect", x=x, y=bottom - height, width=wide, height=height, class_=bar.kind)
    sign = label("▼", x + wide / 2, bottom - height - 4, "middle") if bar.kind == "slow" else None
    return element("g", element("title", bar.title), box, sign)


def _grid(columns: Columns, most: float, height: float, top: float) -> list[Markup]:
    made = []
    for part in (0.0, 1.0) if columns.is_low else (0.0, 0.5, 1.0):
        y = top + height * (1 - part)
        text = names.percent(part) if columns.is_of_one else names.seconds(part * most) if part else "0"
        made.append(shape("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y))
        made.append(label(text, _LEFT - 6, y + 4, "end"))
    return made
