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
    known = finding.evidence.get("module_time")
    if not isinstance(known, Mapping):
        return ""
    where = finding.where
    here, others = (float(known[f"seconds_{side}"]) for side in ("here", "others"))
    whose = f" on the {known['on']}" if "on" in known else ""
    text = (
        f"The time is spent in the {where['direction']} of module {where['module']} ({where['module_class']}): "
        f"{names.seconds(here)} a step{whose}, on other ranks {names.seconds(others)}"
    )
    if "calls_here" in known:
        text += (
            f"; it is called {known['calls_here']:.3g} times a step, on other ranks {known['calls_others']:.3g} times"
        )
    if "elements_here" in known and known["elements_others"]:
        ratio = float(known["elements_here"]) / float(known["elements_others"])
        if ratio >= LARGER:
            text += f"; its input has {ratio:.1f} times as many elements"
        elif ratio > 1 / LARGER:
            text += ", for an input of the same size"
    return f"{text}."


def in_work(finding: Finding) -> str:
    """What the module of a finding computes, compared with other ranks, as a sentence; empty where unknown."""
    known = finding.evidence.get("module_work")
    if not isinstance(known, Mapping) or "different" not in known:
        return ""
    what = "flops" if known.get("flops_others") else "bytes"
    here, others = float(known[f"{what}_here"]), float(known[f"{what}_others"])
    amount = f"{_large(here)}{'FLOP' if what == 'flops' else 'B'} a step"
    unit = f"{amount}, {here / others:.2g} times as many as on other ranks"
    speed = f"at {float(known['speed']):.2g} of their speed"
    different = str(known["different"])
    if different == "between":
        between = (float(known[f"between_s_{side}"]) for side in ("here", "others"))
        text = "The time passes between operators: {} a step, on other ranks {}".format(*map(names.seconds, between))
    elif different == "stalled":
        stalled = (float(known[f"stalled_s_{side}"]) for side in ("here", "others"))
        text = "It has no core or sleeps: {} a step, on other ranks {}".format(*map(names.seconds, stalled))
    elif different == Reason.TIME.name.lower():
        text = f"It computes the same as on other ranks ({amount}), {speed}"
    elif different == Reason.NUMBER.name.lower():
        text = (
            f"It runs {float(known['operators_here']):.0f} operators a step, on other ranks "
            f"{float(known['operators_others']):.0f}; {unit}"
        )
    else:
        text = f"It computes more: {unit}, {speed}"
    only = known.get("only_here")
    if isinstance(only, list) and only:
        rows = [f"{str(row['operator']).removeprefix('aten::')} (x {float(row['calls']):.0f})" for row in only]
        text += f"; only here it runs {', '.join(rows)}"
    return f"{text}."


def in_compiled(finding: Finding) -> str:
    """The compiled code that a finding lies in, as a sentence; empty where it lies in none."""
    known = finding.evidence.get("compiled")
    if not isinstance(known, Mapping):
        return ""
    kernels = list(known["kernels"])
    several = f" and {len(kernels) - 1} more" if len(kernels) > 1 else ""
    way = f", in the {known['direction']}" if known["direction"] else ""
    module = f" of module {known['module']} ({known['module_class']})" if known["module"] else ""
    text = f"This code is compiled{way}{module}: {kernels[0]}{several}"
    operators = list(known["operators"])
    text += f", made of {some_operators(operators)}" if operators else ""
    if known["file"] and known["file"] != finding.file:
        text += f", mostly from {os.path.basename(known['file'])}:{known['line']}"
    fused = [(str(one["file"]), int(one["line"]), str(one["operator"])) for one in known["fused_with"]]
    return f"{text}; fused with {of_other_lines(fused, finding.file)}." if fused else f"{text}."


def _large(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.0f} "
