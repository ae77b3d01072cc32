"""What ranks did over time: columns that are filled by parts; waiting has the style of the finding that causes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names
from scalana.report.html.activity import COLUMNS, Filled, close_up, filled
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding
    from scalana.graphs.arrays.types import IntArray

MOST_RANKS = 32
"""Rows; of more ranks, those of findings and others, evenly."""
MOST_CAUSES = 5
"""Findings that have a style of their own."""
_WIDTH, _LEFT, _TOP = 1100, 96, 24
_ROW, _GAP = 26, 5
_TICKS = 8
_CAUSES = ("red", "violet", "brown", "pink", "olive")
"""Styles of waiting, by the place of its cause among the findings."""
_TURNED = {"red": -45, "violet": 45, "brown": 90, "pink": -45, "olive": 0, "gray": 0}
"""By how many degrees the lines of their patterns are turned."""


def section(analysis: Analysis, findings: Sequence[Finding]) -> Markup | None:
    """The drawings; None where ranks do not communicate."""
    timeline, run = analysis.ppg.timeline, analysis.ppg.run
    if not len(timeline.calls) or not len(timeline.locations) or run.ranks < 2:
        return None
    causes = [finding for finding in findings if finding.entries is not None][:MOST_CAUSES]
    ranks = chosen(run.ranks, causes)
    styles = ["green", *_CAUSES[: len(causes)], "gray", "blue"]
    words = ["outside communication", *(f"waiting, by {_cause(one, analysis)}" for one in causes)]
    words += ["waiting, by other causes" if causes else "waiting", "transfer"]
    whole = float(timeline.locations.start_s.min()), float(timeline.locations.end_s.max())
    periods = [("The whole run", whole), *close_up(analysis)]
    drawn: list[Markup] = [_patterns()]
    seen = np.zeros(len(styles), np.bool_)
    for title, (begin, end) in periods:
        rows = filled(analysis, causes, ranks, np.linspace(begin, end, COLUMNS + 1))
        for row in rows:
            seen |= row.parts.sum(axis=1) > 0
        column = names.seconds((end - begin) / COLUMNS)
        height = _TOP + len(rows) * (_ROW + _GAP) + 22
        body = [_row(row, number, run.names.one(row.rank), styles, words) for number, row in enumerate(rows)]
        drawn.append(element("h3", title))
        drawn.append(element("p", f"Each column is {column}, filled by what the rank did in it.", class_="soft"))
        drawn.append(drawing(_WIDTH, height, f"what ranks did: {title}", _axis(end - begin, height), *body))
    keys = [
        element("li", element("span", class_=f"key {style}", aria_hidden="true"), word)
        for style, word, there in zip(styles, words, seen.tolist(), strict=True)
        if there
    ]
    few = f"{len(ranks)} of {run.ranks} ranks: those of findings, and others." if len(ranks) < run.ranks else None
    return lines(element("ul", *keys, class_="legend"), element("p", few, class_="soft") if few else None, *drawn)


def _cause(finding: Finding, analysis: Analysis) -> str:
    run = analysis.ppg.run
    place = names.place(names.near(finding.file, run.cwd), finding.line)
    return f"{place} on {run.names.many(finding.ranks, run.ranks)}"


def chosen(ranks: int, findings: Sequence[Finding]) -> list[int]:
    """The ranks that are drawn: all, or the first of each finding and others, evenly.

    >>> chosen(3, [])
    [0, 1, 2]
    >>> len(chosen(1000, [])), chosen(1000, [])[-1]
    (32, 999)
    """
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    late = [rank for finding in findings for rank in sorted(finding.ranks)[:3]]
    few = list(dict.fromkeys(late))[: MOST_RANKS // 2]
    evenly = np.linspace(0, ranks - 1, MOST_RANKS).astype(int).tolist()
    return sorted([*few, *[rank for rank in evenly if rank not in few][: MOST_RANKS - len(few)]])


def _row(row: Filled, number: int, name: str, styles: list[str], words: list[str]) -> Markup:
    """One rank: the parts of a column lie upon each other, work at the bottom."""
    y = _TOP + number * (_ROW + _GAP)
    base = np.zeros(COLUMNS)
    drawn = []
    for part, style, word in zip(row.parts, styles, words, strict=True):
        top = np.minimum(base + part, 1.0)
        low, high = np.round(_ROW * (1 - base)).astype(int), np.round(_ROW * (1 - top)).astype(int)
        base = top
        outline = _outline(low, high, y)
        if outline:
            drawn.append(shape("path", element("title", f"{name}: {word}"), d=outline, class_=f"over-{style}"))
    back = shape("rect", x=_LEFT, y=y, width=_WIDTH - _LEFT, height=_ROW, class_="back")
    return element("g", label(name, _LEFT - 8, y + _ROW / 2 + 4, "end"), back, *drawn)


def _outline(low: IntArray, high: IntArray, y: int) -> str:
    """Columns from ``low`` up to ``high``; neighbours that are alike are one box."""
    width = (_WIDTH - _LEFT) / COLUMNS
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
