"""Modules, compared with what the machine can do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.module_times import MODULES
from scalana.detectors.when.module_work import WAYS, ModuleWork
from scalana.detectors.when.roofline import COMPUTE, MEMORY, OVERHEAD, ROOFLINE, Roofline
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.readers.folder.operators import OperatorKind
from scalana.graphs.spans.modules import Module
from scalana.graphs.spans.operator_costs import flops_of
from scalana.report import names
from scalana.report.document.sections import Facts, Section, section, texts
from scalana.report.values import plain

NAME = "roofline"

MOST_PLACES = 4
"""Modules that are shown with what they could gain; the JSON report has all."""
_LEAST_SHARE = 0.02
"""Of the time of the whole model: gains below are left out."""
_STALLED = 0.1
"""Part of the time of a model that it is off the CPU, from which that is said."""
_STANDS_OUT = 0.6
"""Part of what the modules of a list could gain that one of them must hold to be named instead."""
_MOST = 0.5
"""Part of a gain that one operator must hold to be the only one named."""
_WORDS = {
    COMPUTE: "compute-bound",
    MEMORY: "memory-bound",
    OVERHEAD: "mostly between operators or in very small ones",
}


@dataclass(frozen=True, slots=True)
class Gain:
    """What the modules at one place of a model could gain themselves."""

    name: str
    kind: str
    members: list[int]
    taken_s: float
    """Of a step, outside of the modules inside, on the median rank."""
    gain_s: float
    bound: str


def reached(line: Roofline, members: list[int]) -> float:
    """The part of the time of some modules that the least time is, both ways, on the median rank; NaN if unknown."""
    least, taken = (table[members].sum(axis=(0, 1)) for table in (line.least_s, line.work.seconds))
    parts = np.divide(least, taken, out=np.full(len(taken), np.nan), where=taken > 0)
    return float(np.median(parts[~np.isnan(parts)])) if not np.isnan(parts).all() else float("nan")


def gains(line: Roofline) -> list[Gain]:
    """The places of a model by what could be gained there, most first; of a list one module that stands out."""
    work = line.work
    members: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for number, module in enumerate(work.modules):
        members[module.root, module.position, module.kind].append(number)
    found = []
    for (_, name, kind), own in members.items():
        each = [_median(line.own_gain_s[[one]].sum(axis=(0, 1))) for one in own]
        most = own[int(np.argmax(each))]
        if len(own) > 1 and max(each) >= _STANDS_OUT * sum(each) > 0.0:  # one of a list
            name, own = work.modules[most].name, [most]
        gain, taken = (_median(table[own].sum(axis=(0, 1))) for table in (line.own_gain_s, work.own_s))
        whole = np.nansum(line.own_parts_s[:, own], axis=(1, 2, 3))
        bound = (COMPUTE, MEMORY, OVERHEAD)[int(np.argmax(whole))] if whole.any() else ""
        if gain > 0.0:
            found.append(Gain(name, kind, own, taken, gain, bound))
    return sorted(found, key=lambda one: -one.gain_s)


def _median(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0


def sections(analysis: Analysis) -> Sequence[Section]:
    """Where modules stay furthest below what the machine can do; a hint where that was not measured."""
    line = analysis.section(ROOFLINE)
    if line is None:
        hint = _hint(analysis)
        return [Section(NAME, "", ((Facts((hint,)),),))] if hint else []
    tops = [number for number, module in enumerate(line.work.modules) if module.parent < 0]
    whole_s = _median(line.work.seconds[tops].sum(axis=(0, 1)))
    shown = [one for one in gains(line) if one.gain_s >= _LEAST_SHARE * whole_s][:MOST_PLACES]
    if not shown:
        return []
    count = int(line.work.steps.max())
    what = "on the device" if line.work.on_device.any() else "of CPU time"
    of = f"ms {what} in a step, {count} counted step{'s' * (count > 1)}"
    stalled_s = _median(line.work.stalled_s[tops].sum(axis=(0, 1)))
    stalled = f"excluding {names.amount(1e3 * stalled_s)} in which the model had no core or slept"
    is_stalled = stalled_s >= _STALLED * (whole_s + stalled_s)
    lost = Facts(tuple(_gain_text(analysis, line, one) for one in shown), hangs=True)
    return [section(NAME, "Below what this machine can do", of, lost, Facts(texts(stalled if is_stalled else "")))]


def _gain_text(analysis: Analysis, line: Roofline, gain: Gain) -> str:
    several = f" ({len(gain.members)} x {gain.kind})" if len(gain.members) > 1 else f" ({gain.kind})"
    several += _where(analysis, line.work.modules[gain.members[0]])
    return (
        f"{names.amount(1e3 * gain.gain_s)} of {names.amount(1e3 * gain.taken_s)} in {gain.name}{several}, "
        f"{_WORDS.get(gain.bound, '')}{_most(line, gain)}"
    )


def _where(analysis: Analysis, module: Module) -> str:
    """Where the ``forward`` of a module stands, unless that is torch's."""
    place = analysis.ppg.models.forwards.get((module.root, module.name, module.kind))
    if place is None or "/torch/nn/" in place.file.replace("\\", "/"):
        return ""
    return f" at {names.place(names.near(place.file, analysis.ppg.run.cwd), place.line)}"


def _hint(analysis: Analysis) -> str:
    operators = analysis.ppg.models.operators
    if not operators.machines or analysis.section(MODULES) is None:
        return ""
    if not len(operators):
        return (
            "Operators were not counted: their counter was not compiled yet (`scalana calibrate` compiles it), or "
            "SCALANA_OPERATORS or SCALANA_TORCH_KERNELS disables it. Record again to compare modules with what the "
            "machine can do."
        )
    return (
        "Modules are not compared with what the machine can do: that needs `scalana calibrate` with this folder, which "
        "takes some seconds, on the machine of the run."
    )


def _most(line: Roofline, one: Gain) -> str:
    """The operators that hold most of a gain, or that it lies between operators; where a device runs them, so that only
    all of them together have a time, those that need most."""
    costs = _operators(line, one.members)
    if any(kind.is_on_device for kind in costs):
        kind, (_, least, calls) = max(costs.items(), key=lambda item: item[1][1])
        return f"; {_times(kind, calls)} could take {names.amount(1e3 * least)}" if least > 0.0 else ""
    between_s = one.taken_s - sum(taken for taken, _, _ in costs.values())
    if between_s >= _MOST * one.gain_s:
        return f"; {names.amount(1e3 * between_s)} between operators"
    found = []
    left_s = one.gain_s
    for kind, (taken, least, calls) in sorted(costs.items(), key=lambda item: item[1][1] - item[1][0])[:2]:
        found.append(
            f"{names.amount(1e3 * taken)} in {_times(kind, calls)}, which could take {names.amount(1e3 * least)}"
        )
        left_s -= taken - least
        if left_s <= _MOST * one.gain_s:
            break
    return f"; {'; '.join(found)}" if found else ""


def _times(kind: OperatorKind, calls: float) -> str:
    return operator_text(kind) + (f" x {calls:.0f}" if round(calls) > 1 else "")


def _operators(line: Roofline, members: list[int]) -> dict[OperatorKind, tuple[float, float, float]]:
    """Seconds, least seconds and calls of a step, by kind, of what modules run themselves, on a median rank."""
    work = line.work
    total = np.nansum(work.own_s[members], axis=(0, 1))
    ranks = np.flatnonzero((work.steps > 0) & np.isin(np.arange(len(work.steps)), list(line.ceilings)))
    rank = int(ranks[np.argsort(total[ranks])[len(ranks) // 2]])
    chosen = np.flatnonzero(np.isin(work.module, members) & (work.rank == rank))
    scale = 1.0 / float(work.steps[rank])
    found = {}
    for kind in np.unique(work.kind[chosen]).tolist():
        rows = chosen[work.kind[chosen] == kind]
        sums = (float(column[rows].sum()) * scale for column in (work.call_s, line.call_least_s, work.calls))
        taken, least, calls = sums
        launched = work.kinds[kind].is_on_device  # what it takes is not known then, but what its launch does
        found[work.kinds[kind]] = (taken, least if launched else min(least, taken), calls)
    return found


def operator_text(kind: OperatorKind) -> str:
    """An operator for people: its name, type and shapes; and that it is strided, where it copies."""
    tensors = [tensor for tensor in kind.inputs if tensor is not None and tensor.shape]
    tensors = tensors[1:3] if flops_of(kind) and len(tensors) > 2 and "mm" in kind.name else tensors[:2]  # not the bias
    shapes = " x ".join(str(list(tensor.shape or ())) for tensor in tensors)
    dtype = tensors[0].dtype if tensors else ""
    name = kind.name.removeprefix("aten::")
    copies = name in ("clone", "copy_", "_to_copy", "contiguous") and any(not one.is_contiguous for one in tensors)
    return f"{name} of {dtype} {shapes}{' (not contiguous)' if copies else ''}"


def work_document(work: ModuleWork, line: Roofline | None, module: int) -> dict[str, Any]:
    """What a module computes and how fast, each way, for the JSON report; medians over ranks."""
    found: dict[str, Any] = {}
    for way, word in enumerate(WAYS):
        seconds, operators = _median(work.seconds[module, way]), _median(work.operators[module, way])
        if not operators or not seconds:
            continue
        flops, moved = _median(work.flops[module, way]), _median(work.bytes[module, way])
        numbers = {
            "seconds": seconds,
            "flops": flops,
            "bytes": moved,
            "operators": operators,
            "stalled_s": _median(work.stalled_s[module, way]),
            "flops_per_s": flops / seconds,
            "bytes_per_s": moved / seconds,
        }
        between = work.seconds[module, way] - work.operators_s[module, way]
        if not np.isnan(between).all():
            numbers["between_operators_s"] = max(_median(between), 0.0)
        values: dict[str, Any] = plain(numbers)
        if line is not None and not np.isnan(line.least_s[module, way]).all():
            least = _median(line.least_s[module, way])
            values |= plain({"least_s": least, "reached": least / seconds, "bound": line.bound(module, way)})
            values["own_gain_s"] = plain(_median(line.own_gain_s[module, way]))
        found[word] = values
    return found


def ceilings_document(line: Roofline) -> list[dict[str, Any]]:
    """The ceilings of a run, those of ranks on equal machines once, for the JSON report."""
    ranks: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for rank, ceiling in line.ceilings.items():
        ranks[tuple(sorted(ceiling.flops.items())), ceiling.bandwidth].append(rank)
    return [
        {
            "ranks": some,
            "flops_per_s": {name: plain(value) for name, value in flops},
            "bytes_per_s": [[size, plain(value)] for size, value in bandwidth],
        }
        for (flops, bandwidth), some in ranks.items()
    ]
