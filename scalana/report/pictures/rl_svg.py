"""A step of reinforcement learning as a picture: processes over time, trajectories, and what waiting is due to."""

from __future__ import annotations

import math
from html import escape

from scalana.detectors.rl.account import Bar, StepPicture
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names
from scalana.report.findings.claims import UNNAMED

_LEFT, _TOP, _RIGHT = 70, 46, 20
_WIDTH = 1000
_ROW, _GAP = 26, 10
_LANE, _MOST_LANES = 4, 12
"""Height of a trajectory, and how many lie above each other at most: the longest."""

_MOST_RANKS = 48
"""Processes that are drawn: a third of them those that wait least, as the others wait for them."""

_COLORS = {
    "generation": "#4c78a8",
    "verifier": "#b279a2",
    "log-prob": "#72b7b2",
    "training": "#54a24b",
    "weight sync": "#eeca3b",
    "data and driver": "#9d755d",
    "waiting for trajectories": "#d4a6c8",
    "evaluation": "#a0cbe8",
    "communication": "#79706e",
    "other": "#d8d8d8",
}
_WAITS = {
    "long-tail": "#e45756",
    "assignment": "#f58518",
    "verifier": "#d45087",
    "weight-sync": "#c9a227",
    "data-transfer": "#b07d4f",
    "evaluation": "#4f8fb0",
    "log-prob": "#3f9a95",
    "training-imbalance": "#88d27a",
    "backpressure": "#2f6b3a",
    "slow-hardware": "#7a1f1f",
}
_UNKNOWN = "#bab0ac"


def svg(picture: StepPicture, processes: ProcessNames = UNNAMED) -> str:
    """Draw a step. The picture loads nothing, and says in a title what each bar is."""
    everyone = sorted({bar.rank for bar in picture.bars} | {made.rank for made in picture.trajectories})
    ranks = _shown(picture, everyone)
    lanes = {rank: _longest(picture, rank) for rank in ranks}
    scale = (_WIDTH - _LEFT - _RIGHT) / max(picture.length_s, 1e-12)
    body, y = [], float(_TOP)
    for rank in ranks:
        name = escape(processes.one(rank))
        body.append(f'<text x="{_LEFT - 8}" y="{y + _ROW / 2 + 4:.0f}" text-anchor="end">{name}</text>')
        body += [_bar(bar, y, scale) for bar in picture.bars if bar.rank == rank]
        y += _ROW + 2
        for begin_s, end_s, title in lanes[rank]:
            body.append(_rectangle(begin_s, end_s, y, _LANE - 1, scale, "#1f3b57", title))
            y += _LANE
        y += _GAP
    legend, height = _legend(picture, y + 8)
    title = f"step {picture.step} · {names.seconds(picture.length_s)}"
    if len(ranks) < len(everyone):
        title += f" · {len(ranks)} of {len(everyone)} processes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">\n'
        '<defs><pattern id="waits" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="3" height="6" fill="white" fill-opacity="0.55"/></pattern></defs>\n'
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="white"/>\n'
        f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(title)}</text>\n'
        + _axis(picture.length_s, y - _GAP / 2, scale)
        + "\n".join([*body, *legend])
        + "\n</svg>\n"
    )


def _shown(picture: StepPicture, ranks: list[int]) -> list[int]:
    """The processes that are drawn: all, or those that wait least and some of the others, evenly."""
    if len(ranks) <= _MOST_RANKS:
        return ranks
    waits = dict.fromkeys(ranks, 0.0)
    for bar in picture.bars:
        waits[bar.rank] += (bar.end_s - bar.begin_s) * bar.waits
    order = sorted(ranks, key=waits.__getitem__)
    least, others = order[: _MOST_RANKS // 3], sorted(order[_MOST_RANKS // 3 :])
    count = _MOST_RANKS - len(least)
    return sorted([*least, *(others[number * len(others) // count] for number in range(count))])


def _longest(picture: StepPicture, rank: int) -> list[tuple[float, float, str]]:
    """The longest trajectories of a process, by begin: begin, end, title."""
    mine = sorted((made for made in picture.trajectories if made.rank == rank), key=lambda made: -made.end_s)
    shown = sorted(mine[:_MOST_LANES], key=lambda made: (made.begin_s, made.end_s))
    found = []
    for made in shown:
        tokens = f", {made.tokens:.0f} {picture.unit}s" if math.isfinite(made.tokens) else ""
        seconds = names.seconds(made.end_s - made.begin_s)
        found.append((made.begin_s, made.end_s, f"trajectory {made.name}: {seconds}{tokens}"))
    return found


def _bar(bar: Bar, y: float, scale: float) -> str:
    """One stretch of a process; waiting is lower, and hatched."""
    seconds = names.seconds(bar.end_s - bar.begin_s)
    if not bar.waits:
        color = _COLORS.get(bar.doing, _UNKNOWN)
        return _rectangle(bar.begin_s, bar.end_s, y, _ROW, scale, color, f"{bar.doing}: {seconds}")
    color = _WAITS.get(bar.doing, _UNKNOWN)
    title = f"waits {seconds}: {bar.doing}"
    below = _rectangle(bar.begin_s, bar.end_s, y + _ROW / 4, _ROW / 2, scale, color, title)
    return below + _rectangle(bar.begin_s, bar.end_s, y + _ROW / 4, _ROW / 2, scale, "url(#waits)", title)


def _rectangle(begin_s: float, end_s: float, y: float, height: float, scale: float, fill: str, title: str) -> str:
    x, width = _LEFT + begin_s * scale, max((end_s - begin_s) * scale, 0.3)
    return (
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{fill}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _axis(length_s: float, bottom: float, scale: float) -> str:
    """Lines at round times."""
    unit = 10.0 ** math.floor(math.log10(max(length_s, 1e-9)))
    step = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if length_s / (unit * part) <= 12)
    lines = []
    for number in range(int(length_s / step) + 1):
        x = _LEFT + number * step * scale
        lines.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{bottom:.0f}" stroke="#e6e6e6"/>')
        text = names.seconds(number * step) if number else "0 s"
        lines.append(f'<text x="{x:.1f}" y="{_TOP - 10}" fill="#666" font-size="10">{text}</text>')
    return "\n".join(lines) + "\n"


def _legend(picture: StepPicture, y: float) -> tuple[list[str], float]:
    """What the colours are, and where it ends."""
    used = dict.fromkeys((bar.doing, bar.waits) for bar in sorted(picture.bars, key=lambda bar: bar.waits))
    parts, x = [], float(_LEFT)
    for doing, waits in used:
        label = f"waits: {doing}" if waits else doing
        if x + 30 + 7 * len(label) > _WIDTH:
            x, y = float(_LEFT), y + 18
        color = (_WAITS if waits else _COLORS).get(doing, _UNKNOWN)
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="12" fill="{color}"/>')
        if waits:
            parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="12" height="12" fill="url(#waits)"/>')
        parts.append(f'<text x="{x + 17:.0f}" y="{y + 10:.0f}">{escape(label)}</text>')
        x += 30 + 7 * len(label)
    return parts, y + 26
