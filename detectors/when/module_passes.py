"""The forward and the backward of a module are one cause: what makes the one longer makes the other longer, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import OtherPass
from scalana.detectors.finding import Finding
from scalana.detectors.when.module_times import ModuleTimes, is_half_of
from scalana.graphs.structure.psg import PSG

_FORWARD = "forward"


def join_passes(
    findings: Sequence[Finding], halves: Sequence[Finding], modules: ModuleTimes, psg: PSG
) -> list[Finding]:
    """Findings, those in the forward and in the backward of a module put together, largest first.

    One stands where the forward does, the line that somebody wrote for the module.

    Args:
        findings: that are worth it by themselves.
        halves: that are not, and go with one of these or nowhere.
        modules: the times of modules.
        psg: what places are vertices of.
    """
    result: list[Finding] = []
    for finding in findings:
        row = next((row for row, one in enumerate(result) if _are_halves(finding, one, modules, psg)), -1)
        if row < 0:
            result.append(finding)
        elif finding.where.direction == _FORWARD:
            result[row] = _together(finding, result[row])
        else:
            result[row] = _together(result[row], finding)
    for half in halves:
        row = next((row for row, one in enumerate(result) if _are_halves(half, one, modules, psg)), -1)
        if row >= 0:
            result[row] = _together(result[row], half)
    return sorted(result, key=lambda one: -one.lost_s)


def _are_halves(one: Finding, other: Finding, modules: ModuleTimes, psg: PSG) -> bool:
    if one.kind != other.kind or one.entries is None or other.entries is None:
        return False
    return is_half_of(one, other, modules, psg) or is_half_of(other, one, modules, psg)


def _together(first: Finding, second: Finding) -> Finding:
    assert first.entries is not None and second.entries is not None and second.where.direction is not None
    passes = [
        *(first.evidence.passes or ()),
        OtherPass(second.where.direction, second.file, second.line, second.lost_s),
        *(second.evidence.passes or ()),
    ]
    return replace(
        first,
        lost_s=first.lost_s + second.lost_s,
        lost_share=first.lost_share + second.lost_share,
        saving_s=first.saving_s + second.saving_s,
        entries=np.union1d(first.entries, second.entries),
        evidence=replace(first.evidence, passes=passes, balanced_saving_s=_sum(first, second)),
    )


def _sum(first: Finding, second: Finding) -> float | None:
    """What both save where their work is spread evenly; None where that is not known of one."""
    one, other = first.evidence.balanced_saving_s, second.evidence.balanced_saving_s
    return None if one is None or other is None else one + other
