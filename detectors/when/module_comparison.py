"""Why a module takes longer on the ranks of a finding: more work, other operators, code between them, or the same work
for longer."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from scalana.detectors.finding import Finding
from scalana.detectors.when.module_times import LARGER
from scalana.detectors.when.module_work import WAYS, ModuleWork
from scalana.detectors.when.reasons import Reason
from scalana.graphs.arrays.types import BoolArray, FloatArray

MOST_HERE = 3
"""Operators that only these ranks run which are named."""
_EXPLAINS = 0.5
"""Part of what a module takes longer that must lie between operators to say so."""
_SLOWER = 0.9
"""Of the others' speed, below which the same work is slow."""


def tell_work(findings: list[Finding], work: ModuleWork) -> None:
    """Add to every finding that lies in a module what the module computes there, and on the other ranks.

    ``evidence.module_work`` has FLOPs, bytes, operators and seconds of a step ``here`` and on ``others``, ``speed``
    (operations a second, or bytes where there are none, as a part of the others'), ``only_here`` (operators that the
    others don't run), and ``different``, as findings of devices have it: ``inputs``, ``number`` or ``time``; or
    ``between``, where the time lies outside of operators, and ``stalled``, where the module had no core, or slept.
    """
    number = {(one.name or one.root, one.kind): place for place, one in enumerate(work.modules)}
    for finding in findings:
        module = number.get((str(finding.where.get("module")), str(finding.where.get("module_class"))))
        if module is None or "module_time" not in finding.evidence:
            continue
        way = int(finding.where["direction"] != WAYS[0])
        counted = work.steps > 0
        here = np.isin(np.arange(len(counted)), finding.ranks) & counted
        if here.any() and (counted & ~here).any():
            told = finding.evidence["module_work"] = _compared(work, module, way, here, counted & ~here)
            if told.get("different") == Reason.TIME.name.lower():
                finding.advice = " ".join(filter(None, (finding.advice, Reason.TIME.value)))


def _compared(work: ModuleWork, module: int, way: int, here: BoolArray, others: BoolArray) -> dict[str, object]:
    def both(table: FloatArray) -> tuple[float, float]:
        values = table[module, way]
        return float(values[here].mean()), float(np.median(values[others]))

    told: dict[str, object] = {}
    values = {name: both(getattr(work, name)) for name in ("flops", "bytes", "operators", "seconds", "stalled_s")}
    values["between_s"] = both(work.seconds - work.operators_s)
    for name, (mine, theirs) in values.items():
        if np.isfinite(mine) and np.isfinite(theirs):
            told[f"{name}_here"], told[f"{name}_others"] = mine, theirs
    only = _only_here(work, module, way, here, others)
    if only:
        told["only_here"] = only
    work_here, work_others = values["flops"] if values["flops"][1] > 0.0 else values["bytes"]
    seconds_here, seconds_others = values["seconds"]
    stalled_s = values["stalled_s"][0] - values["stalled_s"][1]
    longer_s = seconds_here - seconds_others + stalled_s
    if min(work_others, seconds_here, seconds_others) <= 0.0 or longer_s <= 0.0:
        return told
    speed = (work_here / seconds_here) / (work_others / seconds_others)
    told["speed"] = speed
    between_s = values["between_s"][0] - values["between_s"][1]
    if stalled_s >= _EXPLAINS * longer_s:
        told["different"] = "stalled"
    elif between_s >= _EXPLAINS * longer_s:
        told["different"] = "between"
    elif values["operators"][0] >= LARGER * values["operators"][1]:
        told["different"] = Reason.NUMBER.name.lower()
    elif work_here >= LARGER * work_others:
        told["different"] = Reason.INPUTS.name.lower()
    elif speed <= _SLOWER:
        told["different"] = Reason.TIME.name.lower()
    return told


def _only_here(work: ModuleWork, module: int, way: int, here: BoolArray, others: BoolArray) -> list[dict[str, object]]:
    """Operators that the module runs on these ranks and on no other, those that take most first."""
    inside = work.inside(module)
    mine: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for rank in np.flatnonzero(here).tolist():
        for kind, (calls, seconds) in work.operators_of(inside, (way,), rank).items():
            sums = mine[work.kinds[kind].name]
            sums[0] += calls / int(here.sum())
            sums[1] += seconds / int(here.sum())
    theirs = {
        work.kinds[kind].name
        for rank in np.flatnonzero(others).tolist()
        for kind in work.operators_of(inside, (way,), rank)
    }
    rows = [
        {"operator": name, "calls": calls, "seconds": seconds}
        for name, (calls, seconds) in mine.items()
        if name not in theirs
    ]
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))[:MOST_HERE]
