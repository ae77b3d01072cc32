"""Compiled code by the lines that it came from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.compiled_lines import COMPILED, CompiledLine
from scalana.graphs.arrays.types import FloatArray
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Row, Section, Table, Tone, section, texts
from scalana.report.values import plain

MOST_LINES = 10
"""Rows of the text; the JSON report has every line."""
_LEAST_SHARE = 0.02
"""Of the largest: rows below are left out."""
_MOST_OPERATORS = 6


_COLUMNS = (
    Column("least", 7),
    Column("median", 7),
    Column("most", 7),
    Column("forward", 8),
    Column("backward", 8),
    Column("line, module, operators", is_text=True, leads=True, tone=Tone.PLACE),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """The lines whose kernels take most: ms of a step on the rank that takes least, in the middle, most; and what is
    fused."""
    lines = analysis.section(COMPILED)
    if not lines:
        return []
    largest = float(lines[0].seconds.sum(axis=0).max())
    shown = [line for line in lines if float(line.seconds.sum(axis=0).max()) >= _LEAST_SHARE * largest][:MOST_LINES]
    of = "ms of a step" if analysis.steps is not None else "ms of the run"
    smaller = len(lines) - len(shown)
    notes = texts(f"and {smaller} smaller: see the JSON report" if smaller else "")
    table = Table(_COLUMNS, tuple(_row(line, analysis) for line in shown), notes)
    return [section("compiled", "Compiled code", f"{of}, by the line from which most of a kernel comes", table)]


def _row(line: CompiledLine, analysis: Analysis) -> Row:
    seconds = _of_recorded(line.seconds, analysis)
    all_s = seconds.sum(axis=0)
    amounts = (names.amount(1e3 * float(value)) for value in (all_s.min(), np.median(all_s), all_s.max()))
    module = f"  {line.module} ({line.module_class})" if line.module else ""
    place = Cell(_where(line, analysis.ppg.run.cwd), module)
    return Row((*amounts, *map(_way, seconds), place), _made_of(line))


def _of_recorded(seconds: FloatArray, analysis: Analysis) -> FloatArray:
    there = np.unique(analysis.ppg.timeline.locations.rank)
    return np.asarray(seconds[:, there] if len(there) else seconds)


def _way(seconds: FloatArray) -> str:
    value = float(np.median(seconds))
    return names.amount(1e3 * value) if value > 0 else "·"


def _where(line: CompiledLine, cwd: str) -> str:
    file, at, function = line.frame
    return f"{names.place(names.near(file, cwd), at)} {function}" if file else "unknown line"


def _made_of(line: CompiledLine) -> str:
    """The operators of the line, and those of others that are fused with them."""
    operators = line.operators()
    own = some_operators(list(operators.here))
    fused = any(kernel.is_fused for kernel in line.kernels)
    text = f"fused: {own}" if fused and own else own or "unknown operators"
    others = of_other_lines([(file, at, name) for (file, at, _), name in operators.fused], line.frame[0])
    return f"{text}; with {others}" if others else text


def of_other_lines(fused: Iterable[tuple[str, int, str]], file: str) -> str:
    """Operators of other lines, by these; a line of another file than ``file`` has its name."""
    by_line: dict[tuple[str, int], list[str]] = {}
    for of, at, name in fused:
        by_line.setdefault((of, at), []).append(name)
    return "; ".join(
        f"{some_operators(some)} of " + (f"line {at}" if of == file else f"{os.path.basename(of)}:{at}")
        for (of, at), some in list(by_line.items())[:_MOST_OPERATORS]
    )


def some_operators(operators: list[str]) -> str:
    """The first of some operators."""
    return ", ".join(operators[:_MOST_OPERATORS]) + (", ..." if len(operators) > _MOST_OPERATORS else "")


def entries(analysis: Analysis) -> dict[str, Any]:
    """Every line of compiled code that took time, for the JSON report."""
    lines, cwd = analysis.section(COMPILED), analysis.ppg.run.cwd
    return {"compiled": [_entry(line, analysis, cwd) for line in lines]} if lines else {}


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
