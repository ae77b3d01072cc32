"""A workload as a picture: how many values are longer, on logarithmic axes with fits; and lengths over the steps."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from scalana.graphs.arrays.types import FloatArray
from scalana.workload.distributions import KINDS
from scalana.workload.profile import RESPONSE, TOOL, TURN, VERIFIER, Profile
from scalana.workload.trajectories import Workload

_WIDTH, _HEIGHT = 480, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 60, 34, 16, 34
_LEAST = 1e-4
"""Part of the values down to which a tail is drawn."""
_POINTS = 200
_COLORS = ("#e45756", "#4c78a8", "#54a24b", "#b279a2", "#eeca3b")
_TITLES = {RESPONSE: "responses", TURN: "turns", TOOL: "tools", VERIFIER: "verifier"}


def svg(workload: Workload, profile: Profile) -> str:
    """Draw it: a panel for each quantity with a fit, and one for the steps."""
    values = {
        RESPONSE: workload.response,
        TURN: workload.turns.tokens,
        TOOL: workload.turns.tool_s,
        VERIFIER: workload.verifier_s,
    }
    panels = [
        _tail(name, values[name], profile)
        for name in values
        if name in profile.quantities and len(profile.quantities[name].fits) > 1
    ]
    if workload.steps > 1:
        panels.append(_over_steps(workload, profile.unit))
    rows = -(-len(panels) // 2)
    width, height = _WIDTH * min(len(panels), 2), _HEIGHT * rows
    placed = [
        f'<g transform="translate({_WIDTH * (number % 2)},{_HEIGHT * (number // 2)})">{panel}</g>'
        for number, panel in enumerate(panels)
    ]
    label = escape(f"workload of {profile.source}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11" role="img" aria-label="{label}">\n<rect width="{width}" height="{height}" fill="white"/>\n'
        + "\n".join(placed)
        + "\n</svg>\n"
    )


def _tail(name: str, values: FloatArray, profile: Profile) -> str:
    """Which part of the values is longer, and what the fits say."""
    values = np.sort(values[np.isfinite(values) & (values > 0.0)])
    low, high = math.log10(float(values[0])), math.log10(max(float(values[-1]), float(values[0]) * 1.01))
    least = max(_LEAST, 0.5 / len(values))

    def path(at: FloatArray, part: FloatArray) -> str:
        x = _LEFT + (np.log10(at) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)
        y = _TOP + np.log10(np.maximum(part, least)) / math.log10(least) * (_HEIGHT - _TOP - _BOTTOM)
        return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))

    unit = "s" if name in (TOOL, VERIFIER) else f"{profile.unit}s"
    evenly = np.linspace(0, len(values) - 1, min(len(values), 4 * _POINTS)).astype(int)
    shown = np.union1d(evenly, np.arange(max(len(values) - _POINTS, 0), len(values)))
    parts = [_frame(f"{_TITLES[name]}: part that is longer, {unit}"), *_decades(low, high, least)]
    above = 1.0 - (shown + 0.5) / len(values)
    parts.append(f'<path d="{path(values[shown], above)}" fill="none" stroke="#222" stroke-width="2"/>')
    grid = np.logspace(low, high, _POINTS)
    fits = [fit for fit in profile.quantities[name].fits if math.isfinite(fit.bic)]
    for number, (fit, color) in enumerate(zip(fits, _COLORS, strict=False)):
        line = path(grid, 1.0 - fit.distribution.cdf(grid))
        parts.append(f'<path d="{line}" fill="none" stroke="{color}" stroke-width="1.2"/>')
        text = f"{KINDS[fit.distribution.kind].text} ({fit.ks:.3f})"
        parts.append(f'<text x="{_LEFT + 8}" y="{_HEIGHT - _BOTTOM - 8 - 13 * number}" fill="{color}">{text}</text>')
    return "\n".join(parts)


def _frame(title: str) -> str:
    return (
        f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}</text><rect x="{_LEFT}" y="{_TOP}" fill="none" '
        f'width="{_WIDTH - _LEFT - _RIGHT}" height="{_HEIGHT - _TOP - _BOTTOM}" stroke="#999"/>'
    )


def _decades(low: float, high: float, least: float) -> list[str]:
    """Ticks of logarithmic axes."""
    ticks = []
    for power in range(math.ceil(low), math.floor(high) + 1):
        x = _LEFT + (power - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)
        ticks.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#e6e6e6"/>')
        ticks.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{10.0**power:g}</text>')
    for power in range(0, math.floor(-math.log10(least)) + 1):
        y = _TOP + power / -math.log10(least) * (_HEIGHT - _TOP - _BOTTOM)
        ticks.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6e6e6"/>')
        ticks.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**-power:g}</text>')
    return ticks


def _over_steps(workload: Workload, unit: str) -> str:
    """Median, 90 % and most of the responses of each step."""
    steps = workload.steps
    rows = [workload.response[workload.step == step] for step in range(steps)]
    lines = {"p50": 0.5, "p90": 0.9, "max": 1.0}
    most = max(float(row.max(initial=0.0)) for row in rows)
    parts = [_frame(f"responses over the steps, {unit}s")]
    for number in range(5):
        y = _TOP + (1 - number / 4) * (_HEIGHT - _TOP - _BOTTOM)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6e6e6"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{most * number / 4:.0f}</text>')
    for (name, part), color in zip(lines.items(), _COLORS[1:], strict=False):
        known = [(step, float(np.quantile(row, part))) for step, row in enumerate(rows) if len(row)]
        points = " ".join(
            f"{_LEFT + step / (steps - 1) * (_WIDTH - _LEFT - _RIGHT):.1f},"
            f"{_TOP + (1 - value / most) * (_HEIGHT - _TOP - _BOTTOM):.1f}"
            for step, value in known
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        y = _TOP + (1 - known[-1][1] / most) * (_HEIGHT - _TOP - _BOTTOM)
        parts.append(f'<text x="{_WIDTH - _RIGHT - 4}" y="{y - 4:.1f}" text-anchor="end" fill="{color}">{name}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - _BOTTOM + 14}">step 0</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="end">{steps - 1}</text>')
    return "\n".join(parts)
