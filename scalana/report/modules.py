"""The modules of models, as reports tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.detectors.when.modules import LARGER, ModuleTimes
from scalana.graphs.spans.modules import DIRECTIONS
from scalana.report import names, roofline
from scalana.report.paint import Paint, clip, rule, wrap
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding
    from scalana.graphs.arrays.types import FloatArray

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
    """Of a step ``[directions, ranks]``."""
    members: list[int]
    """Their numbers."""


def rows_of(times: ModuleTimes) -> list[Row]:
    """The modules of a run, those of one place together, in the order in which they run."""
    ranks = np.flatnonzero(times.of_ranks())
    depth: list[int] = []
    members: dict[tuple[str, str, str], list[int]] = {}
    for number, module in enumerate(times.modules):
        depth.append(depth[module.parent] + 1 if module.parent >= 0 else 0)
        members.setdefault((module.root, module.position, module.kind), []).append(number)
    return [
        Row(name, kind, len(own), depth[own[0]], times.seconds[own][:, :, ranks].sum(axis=0), own)
        for (_, name, kind), own in members.items()
    ]


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
    left, line, right = rule("Modules", f"ms of a step, mean of {count} timed step{'s' * (count > 1)}", width)
    beside = analysis.roofline
    reached = f" {'reached':>8}" if beside is not None else ""
    lines = [f"  {'least':>7} {'median':>7} {'most':>7} {'forward':>8} {'backward':>8}{reached}  module"]
    for row in shown:
        all_s = row.seconds.sum(axis=0)
        cells = " ".join(
            f"{names.amount(1e3 * float(value)):>7}" for value in (all_s.min(), np.median(all_s), all_s.max())
        )
        ways = " ".join(f"{_way(row, way):>8}" for way in DIRECTIONS[:2])
        if beside is not None:
            ways += f" {_reached(roofline.reached(beside, row.members)):>8}"
        several = f"{row.count} x " if row.count > 1 else ""
        name = "  " * row.depth + row.name
        room = max(width - 46 - len(reached), 8)
        what = clip(f"  {several}{row.kind}", max(room - len(name), 0))
        lines.append(f"  {cells} {ways}  " + paint(clip(name, room), "cyan") + what)
    if len(rows) > len(shown):
        lines.append(f"  and {len(rows) - len(shown)} smaller: see the JSON report")
    if beside is not None:
        lines += wrap("reached: of its CPU time, what this machine would need at best (scalana calibrate)", width, "  ")
    return [paint(left, "bold") + paint(line + right, "dim"), paint(lines[0], "dim"), *lines[1:]]


def _reached(part: float) -> str:
    return names.percent(min(part, 1.0)) if part == part else "·"


def _way(row: Row, way: str) -> str:
    value = float(np.median(row.seconds[DIRECTIONS.index(way)]))
    return names.amount(1e3 * value) if value > 0 else "·"


def inside(finding: Finding) -> str:
    """The module that a finding lies in, as a sentence; empty where it lies in none that is known."""
    told = finding.evidence.get("module_time")
    if not isinstance(told, Mapping):
        return ""
    where = finding.where
    here, others = (float(told[f"seconds_{side}"]) for side in ("here", "others"))
    text = (
        f"It is in the {where['direction']} of module {where['module']} ({where['module_class']}): "
        f"{names.seconds(here)} a step, on other ranks {names.seconds(others)}"
    )
    if "calls_here" in told:
        text += f"; it is called {told['calls_here']:.3g} times a step, elsewhere {told['calls_others']:.3g} times"
    if "elements_here" in told and told["elements_others"]:
        ratio = float(told["elements_here"]) / float(told["elements_others"])
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
            **{
                f"{way}_s": _spread(times.seconds[number, place, ranks])
                for place, way in enumerate(DIRECTIONS)
                if times.calls[number, place, ranks].any()
            },
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


def _work(analysis: Analysis, module: int) -> dict[str, Any]:
    """What a module computes, if that was counted; modules have the same numbers there."""
    if analysis.work is None:
        return {}
    found = roofline.work_document(analysis.work, analysis.roofline, module)
    return {"work": found} if found else {}


def _spread(seconds: FloatArray) -> dict[str, Any]:
    values = {"least": seconds.min(), "median": np.median(seconds), "most": seconds.max()}
    return {name: plain(float(value)) for name, value in values.items()}
