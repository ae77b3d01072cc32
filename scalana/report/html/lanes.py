"""What rows did over time: columns that are filled by parts; waiting has the style of the finding that causes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.report import names
from scalana.report.document.pictures import LanePart, Lanes
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element, lines

_WIDTH, _LEFT, _TOP = 1100, 96, 24
_ROW, _GAP = 26, 5
_TICKS = 8
_CAUSES = ("red", "violet", "brown", "pink", "olive")
"""Styles of waiting, by the place of its cause among the findings."""
_KINDS = {"work": "green", "waiting": "gray", "transfer": "blue"}
"""Styles of what no finding causes."""
_TURNED = {"red": -45, "violet": 45, "brown": 90, "pink": -45, "olive": 0, "gray": 0}
"""By how many degrees the lines of their patterns are turned."""


def lanes_markup(lanes: Lanes) -> Markup:
    """A legend, and a drawing of every period."""
    styles = [_style(part) for part in lanes.parts]
    drawn: list[Markup] = [_patterns()]
    seen = np.zeros(len(styles), np.bool_)
    for period in lanes.periods:
        seen |= (period.filled > 0).any(axis=(0, 2)) if period.filled.size else False
        height = _TOP + len(lanes.rows) * (_ROW + _GAP) + 22
        body = [
            _row(filled, number, name, styles, lanes.parts)
            for number, (filled, name) in enumerate(zip(period.filled, lanes.rows, strict=True))
        ]
        axis = _axis(period.length_s, height)
        drawn.append(element("h3", period.title))
        drawn.append(element("p", period.caption, class_="soft"))
        drawn.append(drawing(_WIDTH, height, f"{lanes.label}: {period.title}", axis, *body))
    keys = [
        element("li", element("span", class_=f"key {style}", aria_hidden="true"), part.name)
        for style, part, there in zip(styles, lanes.parts, seen.tolist(), strict=True)
        if there
    ]
    few = element("p", lanes.caption, class_="soft") if lanes.caption else None
    return lines(element("ul", *keys, class_="legend"), few, *drawn)


def _style(part: LanePart) -> str:
    return _KINDS[part.kind] if part.cause is None else _CAUSES[part.cause % len(_CAUSES)]


def _row(filled: FloatArray, number: int, name: str, styles: list[str], parts: Sequence[LanePart]) -> Markup:
    """One row ``[parts, columns]``: the parts of a column lie upon each other, work at the bottom."""
    y = _TOP + number * (_ROW + _GAP)
    base = np.zeros(filled.shape[1])
    drawn = []
    for share, style, part in zip(filled, styles, parts, strict=True):
        top = np.minimum(base + share, 1.0)
        low, high = np.round(_ROW * (1 - base)).astype(int), np.round(_ROW * (1 - top)).astype(int)
        base = top
        outline = _outline(low, high, y)
        if outline:
            drawn.append(shape("path", element("title", f"{name}: {part.name}"), d=outline, class_=f"over-{style}"))
    back = shape("rect", x=_LEFT, y=y, width=_WIDTH - _LEFT, height=_ROW, class_="back")
    return element("g", label(name, _LEFT - 8, y + _ROW / 2 + 4, "end"), back, *drawn)


def _outline(low: IntArray, high: IntArray, y: int) -> str:
    """Columns from ``low`` up to ``high``; equal neighbours are one box."""
    width = (_WIDTH - _LEFT) / len(low)
    change = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0)) + 1
    edges = [0, *change.tolist(), len(low)]
    boxes = []
    for begin, end in zip(edges[:-1], edges[1:], strict=True):
        if (height := int(low[begin] - high[begin])) > 0:
            boxes.append(f"M{_LEFT + begin * width:.1f} {y + int(high[begin])}H{_LEFT + end * width:.1f}v{height}")
            boxes.append(f"H{_LEFT + begin * width:.1f}z")
    return "".join(boxes)


def _patterns() -> Markup:
    """The fills of waiting, once for all drawings."""
    fills = [
        shape(
            "pattern",
            shape("rect", width=6, height=6, class_=f"on-{style}"),
            shape("rect", width=6, height=1.6, class_="hatch"),
            id=f"over-{style}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform=f"rotate({turn})",
        )
        for style, turn in _TURNED.items()
    ]
    return shape("svg", element("defs", *fills), width=0, height=0, aria_hidden="true", class_="unseen")


def _axis(length_s: float, height: float) -> Markup:
    ticks = []
    for number in range(_TICKS + 1):
        x = _LEFT + (_WIDTH - _LEFT) * number / _TICKS
        anchor = {0: "start", _TICKS: "end"}.get(number, "middle")
        ticks.append(shape("line", x1=x, x2=x, y1=_TOP - 6, y2=height - 18))
        words = names.seconds(length_s * number / _TICKS) if number else "0 s"
        ticks.append(label(words, x, height - 4, anchor))
    return element("g", *ticks)
