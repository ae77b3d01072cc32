"""What a finding costs over the steps, drawn where that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.report import names, steps
from scalana.report.html.drawing import drawing, label, shape
from scalana.report.html.markup import Markup, element

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding

_WIDTH, _HEIGHT, _TOP, _LEFT, _BOTTOM = 1100, 70, 8, 62, 18


def growth(finding: Finding) -> Markup | None:
    """A column for each step, or for some steps each; None where the cost of a finding does not change."""
    known = finding.evidence.over_steps
    if known is None:
        return None
    cost_s, numbers = known.series_s, known.series_steps
    most = max(cost_s)
    if most <= 0:
        return None
    width, bottom = (_WIDTH - _LEFT) / len(cost_s), _TOP + _HEIGHT
    joined = len(cost_s) < known.of
    columns = []
    for column, (number, seconds) in enumerate(zip(numbers, cost_s, strict=True)):
        which = f"from step {number} on, on average" if joined else f"step {number}"
        height = max(seconds / most, 0.0) * _HEIGHT
        box = shape(
            "rect",
            x=_LEFT + column * width,
            y=bottom - height,
            width=max(width - min(width * 0.15, 2.0), 0.5),
            height=height,
            class_="step",
        )
        columns.append(element("g", element("title", f"{which}: {names.seconds(seconds)}"), box))
    frame = [
        *(shape("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y) for y in (_TOP, bottom)),
        label(names.seconds(most), _LEFT - 6, _TOP + 4, "end"),
        label("0", _LEFT - 6, bottom + 4, "end"),
        label(f"step {numbers[0]}", _LEFT, bottom + 14),
        label(f"step {numbers[-1]}{' on' if joined else ''}", _WIDTH, bottom + 14, "end"),
    ]
    return drawing(_WIDTH, bottom + _BOTTOM, steps.trend(finding), *frame, *columns)
