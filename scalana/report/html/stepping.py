"""Steps over time: a column each, slow ones marked by a sign as well as by their colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names, steps
from scalana.report.html.markup import Markup, element, lines

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis

MOST_COLUMNS = 240
"""Of more steps, neighbours are one column, as high as the longest of them."""
_WIDTH, _HEIGHT, _TOP, _LEFT, _BOTTOM = 1100, 150, 18, 62, 20


def section(analysis: Analysis) -> Markup | None:
    """How long every step took."""
    found = analysis.steps
    if found is None or not len(found):
        return None
    length = found.length_s()
    known = np.where(np.isfinite(length), length, 0.0)
    if not known.max() > 0:
        return None
    slow = {step.number for step in analysis.slow_steps}
    size = -(-len(known) // MOST_COLUMNS)
    columns, most = [], float(known.max())
    starts = bool((known[: found.warm_up] > 0).any())
    width = (_WIDTH - _LEFT) / -(-len(known) // size)
    for column, begin in enumerate(range(0, len(known), size)):
        rows = range(begin, min(begin + size, len(known)))
        numbers = found.number[rows.start : rows.stop].tolist()
        seconds = float(known[rows.start : rows.stop].max())
        marked = not slow.isdisjoint(numbers)
        kind = "slow" if marked else "first" if rows.stop <= found.warm_up else "step"
        words = {"slow": ", slow", "first": ", start-up", "step": ""}[kind]
        which = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {numbers[0]} to {numbers[-1]}, at most"
        columns.append(_column(column, width, seconds / most, kind, f"{which}: {names.seconds(seconds)}{words}"))
    bottom = _TOP + _HEIGHT
    first, last = int(found.number[0]), int(found.number[-1])
    frame = [
        *_grid(most),
        _text(_LEFT, bottom + 15, f"step {first}", "start"),
        _text(_WIDTH, bottom + 15, f"step {last}", "end") if last > first else None,
    ]
    said = steps.in_words(analysis)
    picture = element(
        "svg",
        *frame,
        *columns,
        viewBox=f"0 0 {_WIDTH} {bottom + _BOTTOM}",
        role="img",
        aria_label=f"length of every step: {said}",
    )
    keys = [*(["▼ slow"] if slow else []), *(["gray: start-up"] if starts else [])]
    if size > 1:
        keys.append(f"a column is {size} steps, as high as the longest of them")
    return lines(
        element("p", said),
        element("p", steps.slow_in_words(analysis)) if slow else None,
        element("div", picture, class_="columns"),
        element("p", " · ".join(keys), class_="soft") if keys else None,
    )


def _column(number: int, width: float, share: float, kind: str, title: str) -> Markup:
    x, height = _LEFT + number * width, max(share * _HEIGHT, 1.0)
    gap = min(width * 0.15, 2.0)
    box = element(
        "rect",
        x=f"{x:.1f}",
        y=f"{_TOP + _HEIGHT - height:.1f}",
        width=f"{min(width - gap, 60.0):.1f}",
        height=f"{height:.1f}",
        class_=kind,
    )
    sign = _text(x + min(width - gap, 60.0) / 2, _TOP + _HEIGHT - height - 4, "▼", "middle") if kind == "slow" else None
    return element("g", element("title", title), box, sign)


def _grid(most: float) -> list[Markup]:
    made = []
    for part in (0.0, 0.5, 1.0):
        y = f"{_TOP + _HEIGHT * (1 - part):.1f}"
        made.append(element("line", x1=str(_LEFT), x2=str(_WIDTH), y1=y, y2=y))
        made.append(_text(_LEFT - 6, float(y) + 4, names.seconds(part * most) if part else "0", "end"))
    return made


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
