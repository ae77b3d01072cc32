"""The efficiencies of the POP model (``docs/efficiencies.md``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.efficiency.over_steps import OverSteps
from scalana.detectors.efficiency.pop_factors import FACTORS, Efficiencies
from scalana.detectors.efficiency.run_efficiency import EFFICIENCY, RunEfficiency
from scalana.report import names
from scalana.report.document.pictures import ColumnBar, Columns
from scalana.report.document.sections import Cell, Column, Facts, Part, Row, Section, Table, Tone, section, texts
from scalana.report.values import plain

MOST_COLUMNS = 240
"""Of more steps, neighbours are one column, as high as the lowest of them."""
_MOST_LOW = 3
"""Steps that are named in the text."""
_MOST_REGIONS = 6
"""Regions and phases that the table shows; the JSON report has all."""

WORDS = {
    "load_balance": "balance",
    "serialisation": "serialisation",
    "transfer": "transfer",
    "parallel": "parallel",
    "stall": "runnable",
    "core": "on a core",
    "useful": "useful",
}
"""Factors in the order in which they are shown."""
_SPARED = ("serialisation", "transfer", "stall", "core")
"""Those that are left out where there is little room."""
_OF_ONE_PROCESS = ("stall", "core", "useful")
"""Those that say anything where nobody communicates."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """A row for the run and each region and phase, what falls over the steps, and the curve."""
    found = analysis.section(EFFICIENCY)
    if found is None:
        return []
    alone = analysis.ppg.run.ranks == 1
    columns = _OF_ONE_PROCESS if alone else tuple(WORDS)
    heads = [Column(WORDS[name], len(WORDS[name]), is_spared=not alone and name in _SPARED) for name in columns]
    regions = [*found.regions, *found.phases]
    rows = [_row(("the steps" if found.of_steps else "the run",), found.whole, columns)]
    rows += [_row(path, one, columns) for path, one in regions[:_MOST_REGIONS]]
    more = len(regions) - _MOST_REGIONS
    explained = "" if alone else "parallel = balance x serialisation x transfer; "
    notes = texts(
        f"and {more} more: see the JSON report" if more > 0 else "",
        f"{explained}useful = {'' if alone else 'parallel x '}runnable x on a core",
    )
    table = Table((*heads, Column("of", is_text=True, leads=True, tone=Tone.PLACE)), tuple(rows), notes)
    parts: list[Part] = [table, Facts(_sentences(found.over_steps), hangs=True)]
    curve = None if alone else _curve(found)
    parts += [curve] if curve is not None else []
    whose = "all hosts, not of their devices" if analysis.ppg.spans.device_lanes().any() else "all ranks"
    return [section("efficiency", "Efficiency", f"parts of the time of {whose}", *parts)]


def _row(path: tuple[str, ...], found: Efficiencies, columns: tuple[str, ...]) -> Row:
    cells = (names.percent(float(getattr(found, name))) for name in columns)
    return Row((*cells, Cell(path[-1], indent=len(path) - 1, full=" / ".join(path))))


def _sentences(found: OverSteps) -> tuple[str, ...]:
    """Where parallel efficiency falls."""
    fall, low, falls = found.fall, found.low[:_MOST_LOW], ""
    if fall is not None:
        where = f"from step {fall.at} on" if fall.at >= 0 else "over the steps"
        factor = f"{names.percent(fall.factor_before)} to {names.percent(fall.factor_after)}"
        falls = (
            f"Parallel efficiency falls {where}, from {names.percent(fall.before)} to {names.percent(fall.after)}: "
            f"{WORDS[fall.factor]} falls from {factor}."
        )
    listed = ", ".join(
        f"{step.number} ({names.percent(step.efficiencies.parallel)}, {WORDS[step.factor]} "
        f"{names.percent(float(getattr(step.efficiencies, step.factor)))})"
        for step in low
    )
    more = f" and {len(found.low) - len(low)} more" if len(found.low) > len(low) else ""
    word = "steps" if len(found.low) > 1 else "step"
    return texts(falls, f"Parallel efficiency is low in {word} {listed}{more}." if low else "")


def _curve(found: RunEfficiency) -> Columns | None:
    """Parallel efficiency of every step."""
    known = [(int(at), one) for at, one in zip(found.number, found.steps, strict=True) if one is not None]
    if not known:
        return None
    low = {step.number for step in found.over_steps.low}
    warm = {int(at) for at in found.number[: found.warm_up]}
    size = -(-len(known) // MOST_COLUMNS)
    bars = []
    for begin in range(0, len(known), size):
        some = known[begin : begin + size]
        least, lowest = min(some, key=lambda step: step[1].parallel)
        kind = "slow" if least in low else "first" if some[-1][0] in warm else "step"
        factors = ", ".join(f"{WORDS[name]} {names.percent(float(getattr(lowest, name)))}" for name in WORDS)
        bars.append(ColumnBar(lowest.parallel, f"step {least}: {factors}", kind))
    keys = [*(["▼ low"] if low else []), *(["gray: start-up"] if warm else [])]
    keys += [f"each column: {size} steps, as high as the lowest"] if size > 1 else []
    first, last = known[0][0], known[-1][0]
    ends = f"step {first}", f"step {last}" if last > first else ""
    return Columns("parallel efficiency of every step", tuple(bars), *ends, True, tuple(keys), is_of_one=True)


def entries(analysis: Analysis) -> dict[str, Any]:
    """All of it, for the JSON report."""
    found = analysis.section(EFFICIENCY)
    if found is None:
        return {}
    steps = zip(found.number.tolist(), found.steps, strict=True)
    fall = found.over_steps.fall
    return {
        "efficiency": {
            "of": "steps" if found.of_steps else "run",
            "elapsed_s": plain(found.elapsed_s),
            **entry(found.whole),
            "run": entry(found.run),
            "steps": [{"step": number, **entry(one)} for number, one in steps if one is not None],
            "low_steps": [step.number for step in found.over_steps.low],
            "fall": None
            if fall is None
            else {name: plain(getattr(fall, name)) for name in ("at", "before", "after", "factor")},
            "regions": {"/".join(path): entry(one) for path, one in found.regions},
            "phases": {"/".join(path): entry(one) for path, one in found.phases},
        }
    }


def entry(found: Efficiencies) -> dict[str, Any]:
    """The factors of one stretch of time."""
    return {name: plain(getattr(found, name)) for name in FACTORS}
