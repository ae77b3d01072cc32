"""The modules of models, as reports tell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.detectors.when.module_times import LARGER, ModuleTimes
from scalana.graphs.spans.modules import DIRECTIONS
from scalana.report import names, roofline
from scalana.report.paint import Paint, clip, rule, wrap
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding
    from scalana.graphs.arrays.types import FloatArray, IntArray

MOST_MODULES = 12
"""Rows of the text; the JSON report has every module."""
_LEAST_SHARE = 0.01
"""Of the largest module: rows below are left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """Modules that stand at one place of a model: the layers of a list are one row."""

    name: str
    """Qualified, ``*`` for a number."""
    kind: str
    count: int
    depth: int
    seconds: FloatArray
    """Of a step ``[directions, ranks]``; on devices, where that is known of all of them."""
    starved: float
    """Part of these in which devices waited for their hosts, at most; NaN on hosts."""
    members: list[int]
    """Their numbers."""

    @property
    def is_on_device(self) -> bool:
        """Whether the seconds are those of devices."""
        return self.starved == self.starved


def rows_of(times: ModuleTimes) -> list[Row]:
    """The modules of a run, those of one place together, in the order in which they run."""
    ranks = np.flatnonzero(times.of_ranks())
    depth: list[int] = []
    members: dict[tuple[str, str, str], list[int]] = {}
    for number, module in enumerate(times.modules):
        depth.append(depth[module.parent] + 1 if module.parent >= 0 else 0)
        members.setdefault((module.root, module.position, module.kind), []).append(number)
    rows = []
    for (_, name, kind), own in members.items():
        called = name if times.modules[own[0]].name else kind  # what wraps a model has its name, too
        seconds, starved = times.seconds[own][:, :, ranks].sum(axis=0), float("nan")
        if times.device is not None and times.is_on_device(own):
            seconds, idle = (
                table[own][:, :, ranks].sum(axis=0) for table in (times.device.seconds, times.device.starved_s)
            )
            starved = float(idle.sum()) / max(float(seconds.sum()), 1e-300)
        rows.append(Row(called, kind, len(own), depth[own[0]], seconds, starved, own))
    return rows


def table(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The largest modules: ms of a step on the rank that takes least, in the middle, most; forward and backward."""
    times = analysis.modules
    if times is None:
        return []
    rows = rows_of(times)
    largest = max(float(row.seconds.sum(axis=0).max()) for row in rows)
    worth = [row for row in rows if row.seconds.sum(axis=0).max() >= _LEAST_SHARE * largest]
    kept = sorted(worth, key=lambda row: -float(row.seconds.sum(axis=0).max()))[:MOST_MODULES]
    shown = [row for row in worth if any(row is one for one in kept)]
    count = len(times.steps)
    on_device = any(row.is_on_device for row in shown)
    where = " on the device" if on_device else ""
    left, line, right = rule("Modules", f"ms of a step{where}, mean of {count} timed step{'s' * (count > 1)}", width)
    beside = analysis.roofline
    more = f" {'starved':>8}" if on_device else ""
    more += f" {'reached':>8}" if beside is not None else ""
    lines = [f"  {'least':>7} {'median':>7} {'most':>7} {'forward':>8} {'backward':>8}{more}  module"]
    for row in shown:
        all_s = row.seconds.sum(axis=0)
        cells = " ".join(
            f"{names.amount(1e3 * float(value)):>7}" for value in (all_s.min(), np.median(all_s), all_s.max())
        )
        ways = " ".join(f"{_way(row, way):>8}" for way in DIRECTIONS[:2])
        if on_device:
            ways += f" {names.percent(row.starved) if row.is_on_device else '·':>8}"
        if beside is not None:
            ways += f" {_reached(roofline.reached(beside, row.members)):>8}"
        several = f"{row.count} x " if row.count > 1 else ""
        name = "  " * row.depth + row.name
        room = max(width - 46 - len(more), 8)
        kind = several + (row.kind if row.name != row.kind or several else "")
        kind += ", on the host" if on_device and not row.is_on_device else ""
        what = clip(f"  {kind.removeprefix(', ')}", room - len(name)) if kind and room > len(name) else ""
        lines.append(f"  {cells} {ways}  " + paint(clip(name, room), "cyan") + what)
    if len(rows) > len(shown):
        lines.append(f"  and {len(rows) - len(shown)} smaller: see the JSON report")
    if on_device:
        lines += wrap("starved: of its time on the device, it waited at most so much for its host", width, "  ")
    if beside is not None:
        whose = "time" if on_device else "CPU time"
        lines += wrap(f"reached: of its {whose}, what this machine would need at best (scalana calibrate)", width, "  ")
    return [paint(left, "bold") + paint(line + right, "dim"), paint(lines[0], "dim"), *lines[1:]]


def _reached(part: float) -> str:
    return names.percent(min(part, 1.0)) if part == part else "·"


def _way(row: Row, way: str) -> str:
    value = float(np.median(row.seconds[DIRECTIONS.index(way)]))
    return names.amount(1e3 * value) if value > 0 else "·"


def inside(finding: Finding) -> str:
    """The module that a finding lies in, as a sentence; empty where it lies in none that is known."""
    time, where = finding.evidence.module_time, finding.where
    if time is None:
        return ""
    whose = f" on the {time.on}" if time.on is not None else ""
    text = (
        f"It is in the {where.direction} of module {where.module} ({where.module_class}): "
        f"{names.seconds(time.seconds_here)} a step{whose}, on other ranks {names.seconds(time.seconds_others)}"
    )
    if time.calls_here is not None:
        text += f"; it is called {time.calls_here:.3g} times a step, elsewhere {time.calls_others:.3g} times"
    if time.elements_here is not None and time.elements_others:
        ratio = time.elements_here / time.elements_others
        if ratio >= LARGER:
            text += f"; its input has {ratio:.1f} times as many elements"
        elif ratio > 1 / LARGER:
            text += ", for an input of the same size"
    return f"{text}."


def document(analysis: Analysis) -> dict[str, Any] | None:
    """Every module of a run, for the JSON report; None where none was timed."""
    times = analysis.modules
    if times is None:
        return None
    ranks = np.flatnonzero(times.of_ranks())
    modules = [
        {
            "root": module.root,
            "name": module.name,
            "class": module.kind,
            "calls": plain(float(np.median(times.calls[number][0, ranks]))),
            **_seconds(times, number, ranks),
            **_work(analysis, number),
        }
        for number, module in enumerate(times.modules)
    ]
    told: dict[str, Any] = {
        "steps": [int(step) for step in times.steps],
        "ranks": [int(rank) for rank in ranks],
        "modules": modules,
    }
    if analysis.roofline is not None:
        told["ceilings"] = roofline.ceilings_document(analysis.roofline)
    return told


def _seconds(times: ModuleTimes, number: int, ranks: IntArray) -> dict[str, Any]:
    """What a module takes each way it is gone: on devices if that is known, and then on hosts as well."""
    ways = [(place, way) for place, way in enumerate(DIRECTIONS) if times.calls[number, place, ranks].any()]
    hosts = {f"{way}_s": _spread(times.seconds[number, place, ranks]) for place, way in ways}
    if times.device is None or not times.is_on_device([number]):
        return hosts
    seconds, starved_s = times.device.seconds[number], times.device.starved_s[number]
    return {
        "on": "device",
        **{f"{way}_s": _spread(seconds[place, ranks]) for place, way in ways},
        "starved_s": {way: plain(float(np.median(starved_s[place, ranks]))) for place, way in ways},
        "host": hosts,
    }


def _work(analysis: Analysis, module: int) -> dict[str, Any]:
    """What a module computes, if that was counted; modules have the same numbers there."""
    if analysis.work is None:
        return {}
    found = roofline.work_document(analysis.work, analysis.roofline, module)
    return {"work": found} if found else {}


def _spread(seconds: FloatArray) -> dict[str, Any]:
    values = {"least": seconds.min(), "median": np.median(seconds), "most": seconds.max()}
    return {name: plain(float(value)) for name, value in values.items()}
