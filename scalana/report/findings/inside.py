"""What a finding lies in: a module of a model, what it computes, compiled code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scalana.detectors.when.module_times import LARGER
from scalana.detectors.when.reasons import Reason
from scalana.report import names
from scalana.report.topics.compiled import of_other_lines, some_operators

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding


def in_module(finding: Finding) -> str:
    """The module that a finding lies in, as a sentence; empty where it lies in none that is known."""
    told = finding.evidence.get("module_time")
    if not isinstance(told, Mapping):
        return ""
    where = finding.where
    here, others = (float(told[f"seconds_{side}"]) for side in ("here", "others"))
    whose = f" on the {told['on']}" if "on" in told else ""
    text = (
        f"It is in the {where['direction']} of module {where['module']} ({where['module_class']}): "
        f"{names.seconds(here)} a step{whose}, on other ranks {names.seconds(others)}"
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


def in_work(finding: Finding) -> str:
    """What the module that a finding lies in computes beside other ranks, as a sentence; empty where unknown."""
    told = finding.evidence.get("module_work")
    if not isinstance(told, Mapping) or "different" not in told:
        return ""
    what = "flops" if told.get("flops_others") else "bytes"
    here, others = float(told[f"{what}_here"]), float(told[f"{what}_others"])
    amount = f"{_large(here)}{'FLOP' if what == 'flops' else 'B'} a step"
    unit = f"{amount}, {here / others:.2g} times as many as elsewhere"
    speed = f"at {float(told['speed']):.2g} of the others' speed"
    different = str(told["different"])
    if different == "between":
        between = (float(told[f"between_s_{side}"]) for side in ("here", "others"))
        text = "It is spent between operators: {} a step, on other ranks {}".format(*map(names.seconds, between))
    elif different == "stalled":
        stalled = (float(told[f"stalled_s_{side}"]) for side in ("here", "others"))
        text = "It has no core there, or sleeps: {} a step, on other ranks {}".format(*map(names.seconds, stalled))
    elif different == Reason.TIME.name.lower():
        text = f"It computes what the others do ({amount}), {speed}"
    elif different == Reason.NUMBER.name.lower():
        text = (
            f"It runs {float(told['operators_here']):.0f} operators a step, elsewhere "
            f"{float(told['operators_others']):.0f}; {unit}"
        )
    else:
        text = f"It has more to compute: {unit}, {speed}"
    only = told.get("only_here")
    if isinstance(only, list) and only:
        rows = [f"{str(row['operator']).removeprefix('aten::')} (x {float(row['calls']):.0f})" for row in only]
        text += f"; only here it runs {', '.join(rows)}"
    return f"{text}."


def in_compiled(finding: Finding) -> str:
    """The compiled code that a finding lies in, as a sentence; empty where it lies in none."""
    told = finding.evidence.get("compiled")
    if not isinstance(told, Mapping):
        return ""
    kernels = list(told["kernels"])
    several = f" and {len(kernels) - 1} more" if len(kernels) > 1 else ""
    way = f", in the {told['direction']}" if told["direction"] else ""
    module = f" of module {told['module']} ({told['module_class']})" if told["module"] else ""
    text = f"It runs compiled{way}{module}: {kernels[0]}{several}"
    operators = list(told["operators"])
    text += f", made of {some_operators(operators)}" if operators else ""
    if told["file"] and told["file"] != finding.file:
        text += f", for the most part from {os.path.basename(told['file'])}:{told['line']}"
    fused = [(str(one["file"]), int(one["line"]), str(one["operator"])) for one in told["fused_with"]]
    return f"{text}; fused with {of_other_lines(fused, finding.file)}." if fused else f"{text}."


def _large(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.0f} "
