"""The modules of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.module_times import MODULES, ModuleTimes
from scalana.detectors.when.module_work import WORK
from scalana.detectors.when.roofline import ROOFLINE, Roofline
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.spans.modules import DIRECTIONS
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Row, Section, Table, Tone, section, texts
from scalana.report.topics import roofline
from scalana.report.values import plain

MOST_MODULES = 12
"""Rows of the text; the JSON report has every module."""
_LEAST_SHARE = 0.01
"""Of the largest module: rows below are left out."""


@dataclass(frozen=True, slots=True)
class ModuleRow:
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


def rows_of(times: ModuleTimes) -> list[ModuleRow]:
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
        rows.append(ModuleRow(called, kind, len(own), depth[own[0]], seconds, starved, own))
    return rows


def sections(analysis: Analysis) -> Sequence[Section]:
    """The largest modules: ms of a step on the rank that takes least, in the middle, most; forward and backward."""
    times, beside = analysis.section(MODULES), analysis.section(ROOFLINE)
    if times is None:
        return []
    rows = rows_of(times)
    largest = max(float(row.seconds.sum(axis=0).max()) for row in rows)
    worth = [row for row in rows if row.seconds.sum(axis=0).max() >= _LEAST_SHARE * largest]
    kept = sorted(worth, key=lambda row: -float(row.seconds.sum(axis=0).max()))[:MOST_MODULES]
    shown = [row for row in worth if any(row is one for one in kept)]
    count, on_device = len(times.steps), any(row.is_on_device for row in shown)
    where = " on the device" if on_device else ""
    of = f"ms of a step{where}, mean of {count} timed step{'s' * (count > 1)}"
    columns = [
        *(Column(head, 7) for head in ("least", "median", "most")),
        *(Column(head, 8) for head in ("forward", "backward")),
        *([Column("starved", 8)] if on_device else []),
        *([Column("reached", 8)] if beside is not None else []),
        Column("module", is_text=True, leads=True, tone=Tone.PLACE),
    ]
    smaller, whose = len(rows) - len(shown), "time" if on_device else "CPU time"
    notes = texts(
        f"and {smaller} smaller: see the JSON report" if smaller else "",
        "starved: at most this share of the time on the device passes in waiting for the host" if on_device else "",
        f"reached: the least time that this machine needs, as a share of the {whose} (scalana calibrate)"
        if beside is not None
        else "",
    )
    made = tuple(_row(row, on_device, beside) for row in shown)
    return [section("modules", "Modules", of, Table(tuple(columns), made, notes))]


def _row(row: ModuleRow, on_device: bool, line: Roofline | None) -> Row:
    """``on_device``: whether any row of the table is timed on devices."""
    all_s = row.seconds.sum(axis=0)
    cells = [names.amount(1e3 * float(value)) for value in (all_s.min(), np.median(all_s), all_s.max())]
    cells += [_way(row, way) for way in DIRECTIONS[:2]]
    if on_device:
        cells.append(names.percent(row.starved) if row.is_on_device else "·")
    if line is not None:
        cells.append(_reached(roofline.reached(line, row.members)))
    several = f"{row.count} x " if row.count > 1 else ""
    kind = several + (row.kind if row.name != row.kind or several else "")
    kind += ", on the host" if on_device and not row.is_on_device else ""
    tail = f"  {kind.removeprefix(', ')}" if kind else ""
    return Row((*cells, Cell(row.name, tail, row.depth)))


def _reached(part: float) -> str:
    return names.percent(min(part, 1.0)) if part == part else "·"


def _way(row: ModuleRow, way: str) -> str:
    value = float(np.median(row.seconds[DIRECTIONS.index(way)]))
    return names.amount(1e3 * value) if value > 0 else "·"


def entries(analysis: Analysis) -> dict[str, Any]:
    """Every module of a run, for the JSON report."""
    times = analysis.section(MODULES)
    if times is None:
        return {}
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
    found: dict[str, Any] = {
        "steps": [int(step) for step in times.steps],
        "ranks": [int(rank) for rank in ranks],
        "modules": modules,
    }
    beside = analysis.section(ROOFLINE)
    if beside is not None:
        found["ceilings"] = roofline.ceilings_document(beside)
    return {"modules": found}


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
    work = analysis.section(WORK)
    if work is None:
        return {}
    found = roofline.work_document(work, analysis.section(ROOFLINE), module)
    return {"work": found} if found else {}


def _spread(seconds: FloatArray) -> dict[str, Any]:
    values = {"least": seconds.min(), "median": np.median(seconds), "most": seconds.max()}
    return {name: plain(float(value)) for name, value in values.items()}
