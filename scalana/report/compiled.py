"""Compiled code by the lines that it came from, as reports tell of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.report import names
from scalana.report.paint import Paint, clip, rule, wrap
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding
    from scalana.detectors.when.compiled_lines import CompiledLine
    from scalana.graphs.arrays.types import FloatArray

MOST_LINES = 10
"""Rows of the text; the JSON report has every line."""
_LEAST_SHARE = 0.02
"""Of the largest: rows below are left out."""
_MOST_OPERATORS = 6


def table(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The lines whose kernels take most: ms of a step on the rank that takes least, in the middle, most; and what is
    fused."""
    lines = analysis.compiled
    if not lines:
        return []
    largest = float(lines[0].seconds.sum(axis=0).max())
    shown = [line for line in lines if float(line.seconds.sum(axis=0).max()) >= _LEAST_SHARE * largest][:MOST_LINES]
    of = "ms of a step" if analysis.steps is not None else "ms of the run"
    left, line, right = rule("Compiled code", f"{of}, by the line that most of a kernel came from", width)
    rows = []
    for one in shown:
        seconds = _of_recorded(one.seconds, analysis)
        all_s = seconds.sum(axis=0)
        cells = " ".join(f"{names.amount(1e3 * float(s)):>7}" for s in (all_s.min(), np.median(all_s), all_s.max()))
        cells += " " + " ".join(f"{_way(part):>8}" for part in seconds)
        where = _where(one, analysis.ppg.run.cwd)
        module = f"  {one.module} ({one.module_class})" if one.module else ""
        room = max(width - 46, 8)
        shown_place = clip(where, room)
        rows.append(f"  {cells}  " + paint(shown_place, "cyan") + clip(module, max(room - len(shown_place), 0)))
        rows += wrap(_made_of(one), width, " " * 8, " " * 8)
    if len(lines) > len(shown):
        rows.append(f"  and {len(lines) - len(shown)} smaller: see the JSON report")
    head = f"  {'least':>7} {'median':>7} {'most':>7} {'forward':>8} {'backward':>8}  line, module, operators"
    return [paint(left, "bold") + paint(line + right, "dim"), paint(head, "dim"), *rows]


def _of_recorded(seconds: FloatArray, analysis: Analysis) -> FloatArray:
    there = np.unique(analysis.ppg.timeline.locations.rank)
    return np.asarray(seconds[:, there] if len(there) else seconds)


def _way(seconds: FloatArray) -> str:
    value = float(np.median(seconds))
    return names.amount(1e3 * value) if value > 0 else "·"


def _where(line: CompiledLine, cwd: str) -> str:
    file, at, function = line.frame
    return f"{names.place(names.near(file, cwd), at)} {function}" if file else "a line that is not known"


def _made_of(line: CompiledLine) -> str:
    """The operators of the line, and those of others that are fused with them."""
    operators = line.operators()
    own = _some(list(operators.here))
    fused = any(kernel.is_fused for kernel in line.kernels)
    text = f"fused: {own}" if fused and own else own or "operators that are not known"
    others = _of_others([(file, at, name) for (file, at, _), name in operators.fused], line.frame[0])
    return f"{text}; with {others}" if others else text


def _of_others(fused: Iterable[tuple[str, int, str]], file: str) -> str:
    """Operators of other lines, by these; a line of another file than ``file`` has its name."""
    by_line: dict[tuple[str, int], list[str]] = {}
    for of, at, name in fused:
        by_line.setdefault((of, at), []).append(name)
    return "; ".join(
        f"{_some(some)} of " + (f"line {at}" if of == file else f"{os.path.basename(of)}:{at}")
        for (of, at), some in list(by_line.items())[:_MOST_OPERATORS]
    )


def _some(operators: list[str]) -> str:
    return ", ".join(operators[:_MOST_OPERATORS]) + (", ..." if len(operators) > _MOST_OPERATORS else "")


def inside(finding: Finding) -> str:
    """The compiled code that a finding lies in, as a sentence; empty where it lies in none."""
    code = finding.evidence.compiled
    if code is None:
        return ""
    several = f" and {len(code.kernels) - 1} more" if len(code.kernels) > 1 else ""
    way = f", in the {code.direction}" if code.direction else ""
    module = f" of module {code.module} ({code.module_class})" if code.module else ""
    text = f"It runs compiled{way}{module}: {code.kernels[0]}{several}"
    text += f", made of {_some(code.operators)}" if code.operators else ""
    if code.file and code.file != finding.file:
        text += f", for the most part from {os.path.basename(code.file)}:{code.line}"
    fused = [(one.file, one.line, one.operator) for one in code.fused_with]
    return f"{text}; fused with {_of_others(fused, finding.file)}." if fused else f"{text}."


def document(analysis: Analysis) -> list[dict[str, Any]] | None:
    """Every line of compiled code that took time, for the JSON report; None where there is none."""
    if not analysis.compiled:
        return None
    cwd = analysis.ppg.run.cwd
    return [_entry(line, analysis, cwd) for line in analysis.compiled]


def _entry(line: CompiledLine, analysis: Analysis, cwd: str) -> dict[str, Any]:
    file, at, function = line.frame
    operators = line.operators()
    seconds = _of_recorded(line.seconds, analysis)
    return {
        "file": names.relative(file, cwd),
        "line": int(at),
        "function": function,
        "module": line.module,
        "module_class": line.module_class,
        "forward_s": _spread(seconds[0]),
        "backward_s": _spread(seconds[1]),
        "kernels": list(dict.fromkeys(kernel.name for kernel in line.kernels)),
        "operators": [{"operator": name, "elements": work or None} for name, work in operators.here.items()],
        "fused_with": [
            {
                "operator": name,
                "file": names.relative(frame[0], cwd),
                "line": int(frame[1]),
                "elements": work or None,
            }
            for (frame, name), work in operators.fused.items()
        ],
        "known_by": sorted({kernel.by for kernel in line.kernels}),
    }


def _spread(seconds: FloatArray) -> dict[str, Any]:
    values = {"least": seconds.min(), "median": np.median(seconds), "most": seconds.max()}
    return {name: plain(float(value)) for name, value in values.items()}
