"""Seconds by row and column, as shades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element, lines

if TYPE_CHECKING:
    from scalana.graphs.arrays.types import FloatArray
    from scalana.report.document.pictures import Heatmap

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
