"""Findings that lie in modules of models, and why a module takes longer on their ranks: more work, other operators,
code between them, or the same work for longer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import ModuleWorkCompared, OwnOperator
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.factors import AS_MUCH, LARGER_INPUT
from scalana.detectors.thresholds.limits import SHOWN_IN_BRIEF
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.when.advice import Reason
from scalana.detectors.when.module_times import MODULES, with_modules
from scalana.detectors.when.module_work import WAYS, WORK, ModuleWork
from scalana.detectors.when.roofline import ROOFLINE, roofline
from scalana.graphs.arrays.types import BoolArray, FloatArray


class InModels:
    """Modules of models: their time, and what they compute."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings with the module that they lie in, and what that computes on their ranks and on others."""
        if facts.modules is None:
            return Annotated(findings)
        found = with_modules(findings, facts.modules, facts.ppg)
        known: dict[str, object] = {MODULES.name: facts.modules}
        work = facts.module_work
        if work is None:
            return Annotated(found, known)
        known[WORK.name] = work
        line = roofline(work, facts.ceilings)
        if line is not None:
            known[ROOFLINE.name] = line
        return Annotated(with_work(found, work), known)


def with_work(findings: Sequence[Finding], work: ModuleWork) -> list[Finding]:
    """Findings that lie in a module with what it computes."""
    number = {(one.name or one.root, one.kind): place for place, one in enumerate(work.modules)}
    return [_with_work(finding, work, number) for finding in findings]


def _with_work(finding: Finding, work: ModuleWork, number: Mapping[tuple[str, str], int]) -> Finding:
    module = number.get((str(finding.where.module), str(finding.where.module_class)))
    if module is None or finding.evidence.module_time is None:
        return finding
    counted = work.steps > 0
    here = np.isin(np.arange(len(counted)), finding.ranks) & counted
    if not here.any() or not (counted & ~here).any():
        return finding
    compared = _compared(work, module, int(finding.where.direction != WAYS[0]), here, counted & ~here)
    finding = replace(finding, evidence=replace(finding.evidence, module_work=compared))
    is_slower = compared.different == Reason.TIME.name.lower()
    return replace(finding, advice=finding.advised(Reason.TIME.value)) if is_slower else finding


def _compared(work: ModuleWork, module: int, way: int, here: BoolArray, others: BoolArray) -> ModuleWorkCompared:
    def both(table: FloatArray) -> tuple[float, float]:
        values = table[module, way]
        return float(values[here].mean()), float(np.median(values[others]))

    values = {name: both(getattr(work, name)) for name in ("flops", "bytes", "operators", "seconds", "stalled_s")}
    values["between_s"] = both(work.seconds - work.operators_s)
    known: dict[str, Any] = {}
    for name, (mine, theirs) in values.items():
        if np.isfinite(mine) and np.isfinite(theirs):
            known |= {f"{name}_here": mine, f"{name}_others": theirs}
    compared = ModuleWorkCompared(only_here=_only_here(work, module, way, here, others) or None)
    compared = replace(compared, **known)
    work_here, work_others = values["flops"] if values["flops"][1] > 0.0 else values["bytes"]
    seconds_here, seconds_others = values["seconds"]
    stalled_s = values["stalled_s"][0] - values["stalled_s"][1]
    longer_s = seconds_here - seconds_others + stalled_s
    if min(work_others, seconds_here, seconds_others) <= 0.0 or longer_s <= 0.0:
        return compared
    speed = (work_here / seconds_here) / (work_others / seconds_others)
    between_s = values["between_s"][0] - values["between_s"][1]
    different = None
    if stalled_s >= MAJORITY * longer_s:
        different = "stalled"
    elif between_s >= MAJORITY * longer_s:
        different = "between"
    elif values["operators"][0] >= LARGER_INPUT * values["operators"][1]:
        different = Reason.NUMBER.name.lower()
    elif work_here >= LARGER_INPUT * work_others:
        different = Reason.INPUTS.name.lower()
    elif speed <= AS_MUCH:
        different = Reason.TIME.name.lower()
    return replace(compared, speed=speed, different=different)


def _only_here(work: ModuleWork, module: int, way: int, here: BoolArray, others: BoolArray) -> list[OwnOperator]:
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
    rows = [OwnOperator(name, calls, seconds) for name, (calls, seconds) in mine.items() if name not in theirs]
    return sorted(rows, key=lambda row: -row.seconds)[:SHOWN_IN_BRIEF]
