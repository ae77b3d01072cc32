"""Places by ranks: which rank spends how long at which of the largest places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names, overview
from scalana.report.hot import seconds_of_ranks
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element, lines

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.graphs.arrays.types import IntArray
    from scalana.graphs.run_info import RunInfo

MOST_COLUMNS = 96
"""Of more ranks, neighbours share a column."""
_SHADES = 8
"""Steps of the darkness of a cell, which the eye tells apart, and which keep a page of many ranks small."""
_WIDTH, _LEFT, _TOP, _ROW = 1100, 300, 26, 24
_READABLE = 44
"""Width of a column into which a number fits."""
_MOST_LETTERS = 44


def section(analysis: Analysis) -> Markup | None:
    """The drawing; None for one rank, or where no time was recorded."""
    found, run = overview.hot_table(analysis), analysis.ppg.run
    if found is None or run.ranks < 2:
        return None
    seconds = seconds_of_ranks(found.places, analysis.ppg)
    begins = np.arange(0, run.ranks, -(-run.ranks // MOST_COLUMNS))
    most = np.maximum.reduceat(seconds, begins, axis=1)
    heads = _heads(begins, run)
    column = (_WIDTH - _LEFT) / len(begins)
    parts = []
    for row, (place, where) in enumerate(zip(found.places, found.where, strict=True)):
        y = _TOP + row * _ROW
        name = f"{where} {place.name}"
        short = name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"
        title = element("title", name)
        parts.append(shape("text", title, short, x=_LEFT - 8, y=y + 16, text_anchor="end"))
        whole = max(float(most[row].max()), 1e-12)
        for number, value in enumerate(most[row].tolist()):
            said = element("title", f"{heads[number]}: {names.seconds(value)} at {name}")
            shade = np.ceil(_SHADES * value / whole) / _SHADES
            x = _LEFT + number * column
            cell = shape("rect", x=x, y=y, width=column, height=_ROW - 2, class_="heat", opacity=0.04 + 0.56 * shade)
            text = names.amount(value) if column >= _READABLE else None
            parts.append(element("g", said, cell, label(text, x + column / 2, y + 15, "middle") if text else None))
    every = -(-len(begins) // 16)
    scale = [
        label(str(int(begins[number])), _LEFT + (number + 0.5) * column, _TOP - 8, "middle")
        for number in range(0, len(begins), every)
    ]
    words = "Seconds over the whole run, a column each rank: the darker, the more of the most that a rank spends there."
    if len(begins) < run.ranks:
        words += f" Of {run.ranks} ranks, neighbours share a column: the most of them."
    picture = drawing(_WIDTH, _TOP + len(found.places) * _ROW + 4, "seconds at places, by rank", *scale, *parts)
    return lines(element("p", words, class_="soft"), picture)


def _heads(begins: IntArray, run: RunInfo) -> list[str]:
    """What each column stands for."""
    ends = [*begins[1:].tolist(), run.ranks]
    return [
        run.names.one(begin) if end - begin == 1 else run.names.many(range(begin, end))
        for begin, end in zip(begins.tolist(), ends, strict=True)
    ]
