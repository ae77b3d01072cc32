"""What a finding lies in: a module of a model, what it computes, compiled code."""

from __future__ import annotations

import os

from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.factors import LARGER_INPUT
from scalana.detectors.when.advice import Reason
from scalana.report import names
from scalana.report.topics.compiled import of_other_lines, some_operators


def in_module(finding: Finding) -> str:
    """The module that a finding lies in, as a sentence; empty where it lies in none that is known."""
    time, where = finding.evidence.module_time, finding.where
    if time is None:
        return ""
    whose = f" on the {time.on}" if time.on is not None else ""
    text = (
        f"The time is spent in the {where.direction} of module {where.module} ({where.module_class}): "
        f"{names.seconds(time.seconds_here)} a step{whose}, on other ranks {names.seconds(time.seconds_others)}"
    )
    if time.calls_here is not None:
        text += f"; it is called {time.calls_here:.3g} times a step, on other ranks {time.calls_others:.3g} times"
    if time.elements_here is not None and time.elements_others:
        ratio = time.elements_here / time.elements_others
        if ratio >= LARGER_INPUT:
            text += f"; its input has {ratio:.1f} times as many elements"
        elif ratio > 1 / LARGER_INPUT and finding.evidence.sizes is None:
            text += ", for an input of the same size"
    return f"{text}."


def in_work(finding: Finding) -> str:
    """What the module of a finding computes, compared with other ranks, as a sentence; empty where unknown."""
    work = finding.evidence.module_work
    if work is None or work.different is None:
        return ""
    computes = bool(work.flops_others)
    here, others = (work.flops_here, work.flops_others) if computes else (work.bytes_here, work.bytes_others)
    assert here is not None and others is not None and work.speed is not None  # else it is not known what is different
    amount = f"{_large(here)}{'FLOP' if computes else 'B'} a step"
    unit = f"{amount}, {here / others:.2g} times as many as on other ranks"
    speed = f"at {work.speed:.2g} of their speed"
    different = work.different
    if different == "between":
        between = _both(work.between_s_here, work.between_s_others)
        text = "The time passes between operators: {} a step, on other ranks {}".format(*map(names.seconds, between))
    elif different == "stalled":
        stalled = _both(work.stalled_s_here, work.stalled_s_others)
        text = "It has no core or sleeps: {} a step, on other ranks {}".format(*map(names.seconds, stalled))
    elif different == Reason.TIME.name.lower():
        text = f"It computes the same as on other ranks ({amount}), {speed}"
    elif different == Reason.NUMBER.name.lower():
        mine, theirs = _both(work.operators_here, work.operators_others)
        text = f"It runs {mine:.0f} operators a step, on other ranks {theirs:.0f}; {unit}"
    else:
        text = f"It computes more: {unit}, {speed}"
    if work.only_here:
        rows = [f"{row.operator.removeprefix('aten::')} (x {row.calls:.0f})" for row in work.only_here]
        text += f"; only here it runs {', '.join(rows)}"
    return f"{text}."


def in_compiled(finding: Finding) -> str:
    """The compiled code that a finding lies in, as a sentence; empty where it lies in none."""
    code = finding.evidence.compiled
    if code is None:
        return ""
    several = f" and {len(code.kernels) - 1} more" if len(code.kernels) > 1 else ""
    way = f", in the {code.direction}" if code.direction else ""
    module = f" of module {code.module} ({code.module_class})" if code.module else ""
    text = f"This code is compiled{way}{module}: {code.kernels[0]}{several}"
    text += f", made of {some_operators(code.operators)}" if code.operators else ""
    if code.file and code.file != finding.file:
        text += f", mostly from {os.path.basename(code.file)}:{code.line}"
    fused = [(one.file, one.line, one.operator) for one in code.fused_with]
    return f"{text}; fused with {of_other_lines(fused, finding.file)}." if fused else f"{text}."


def _both(here: float | None, others: float | None) -> tuple[float, float]:
    """Of both sides; NaN where nothing is known of them."""
    nan = float("nan")
    return nan if here is None else here, nan if others is None else others


def _large(value: float) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.0f} "
