"""Steps over time: a column each, slow ones marked by a sign as well as by their colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names, steps
from scalana.report.html.drawing import drawing, label, shape
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
        label(f"step {first}", _LEFT, bottom + 15),
        label(f"step {last}", _WIDTH, bottom + 15, "end") if last > first else None,
    ]
    said = steps.in_words(analysis)
    picture = drawing(_WIDTH, bottom + _BOTTOM, f"length of every step: {said}", *frame, *columns)
    keys = [*(["▼ slow"] if slow else []), *(["gray: start-up"] if starts else [])]
    if size > 1:
        keys.append(f"a column is {size} steps, as high as the longest of them")
    return lines(
        element("p", said),
        element("p", steps.slow_in_words(analysis)) if slow else None,
        picture,
        element("p", " · ".join(keys), class_="soft") if keys else None,
    )


def _column(number: int, width: float, share: float, kind: str, title: str) -> Markup:
    x, height = _LEFT + number * width, max(share * _HEIGHT, 1.0)
    gap = min(width * 0.15, 2.0)
    wide, top = min(width - gap, 60.0), _TOP + _HEIGHT - height
    box = shape("rect", x=x, y=top, width=wide, height=height, class_=kind)
    sign = label("▼", x + wide / 2, top - 4, "middle") if kind == "slow" else None
    return element("g", element("title", title), box, sign)


def _grid(most: float) -> list[Markup]:
    made = []
    for part in (0.0, 0.5, 1.0):
        y = _TOP + _HEIGHT * (1 - part)
        made.append(shape("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y))
        made.append(label(names.seconds(part * most) if part else "0", _LEFT - 6, y + 4, "end"))
    return made
