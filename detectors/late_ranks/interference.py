"""Ranks that are slow because a thread or process of their own takes their core: the lines that become slower are told
together, by what makes them so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.advice import advise
from scalana.detectors.rollup.callers import callers
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.structure.psg import PSG

KIND = "helper-takes-core"
STARVED = 0.2
"""Part of an excess spent without a core, from which one asks who had it."""
COMPUTED = 0.3
"""Part of it on a CPU from which the line itself does more there."""
MOST = 0.5
"""Part of the time without a core that a rank's helpers must have computed more than those of other ranks."""


def name_interference(findings: list[Finding], helper_cpu_s: FloatArray, psg: PSG) -> list[Finding]:
    """Put findings that are due to one helper together, at the place where that computes.

    ``helper_cpu_s`` are seconds on a CPU of the other threads and the children of every rank ``[vertices, ranks]``.
    """
    result: list[Finding] = []
    found: dict[tuple[str, str, tuple[int, ...]], Finding] = {}
    for finding in findings:
        if finding.evidence.get("helper_share"):
            found.setdefault((finding.file, finding.function, tuple(finding.ranks)), finding)
    for finding in findings:
        interfering = _rival(finding, helper_cpu_s, psg)
        if interfering < 0:
            result.append(finding)
            continue
        key = (psg[interfering].place.file, psg.function_of(interfering), tuple(finding.ranks))
        known = found.get(key)
        if known is None:
            known = found[key] = _at(interfering, finding, helper_cpu_s, psg)
            result.append(known)
        else:
            known.lost_s += finding.lost_s
            known.lost_share += finding.lost_share
            known.saving_s += finding.saving_s
        slowed = known.evidence.setdefault("slowed", [])
        assert isinstance(slowed, list)
        slowed.append({"file": finding.file, "line": finding.line, "lost_s": finding.lost_s})
        if known.kind != KIND and sum(place["lost_s"] for place in slowed) > MOST * known.lost_s:
            known.kind = KIND
            known.advice = advise(known)
    return result


def _rival(finding: Finding, helper_cpu_s: FloatArray, psg: PSG) -> int:
    """The vertex at which helpers of a finding's ranks compute most, if they took the core; -1 if not."""
    numbers = [finding.evidence.get(key) for key in ("seconds_here", "seconds_others", "cpu_share", "core_wait_share")]
    if finding.evidence.get("helper_share") != 0.0 or not all(isinstance(number, float) for number in numbers):
        return -1
    here, others, cpu, core_wait = (float(number) for number in numbers)  # type: ignore[arg-type]
    if core_wait < STARVED or cpu > COMPUTED:
        return -1
    own = np.isin(np.arange(helper_cpu_s.shape[1]), finding.ranks)
    more = helper_cpu_s[:, own].mean(axis=1) - helper_cpu_s[:, ~own].mean(axis=1)
    more[[index for index in np.flatnonzero(more > 0.0).tolist() if psg[index].place.line <= 0]] = 0.0  # no source
    if more.max(initial=0.0) <= 0.0 or np.maximum(more, 0.0).sum() < MOST * core_wait * (here - others):
        return -1
    return int(np.argmax(more))


def _at(vertex: int, finding: Finding, helper_cpu_s: FloatArray, psg: PSG) -> Finding:
    """A finding, moved to where the helper computes."""
    place = psg[vertex].place
    own = np.isin(np.arange(helper_cpu_s.shape[1]), finding.ranks)
    root = replace(
        finding.path[-1], file=place.file, line=place.line, function=psg.function_of(vertex),
        vertex_kind=psg[vertex].kind.value,
    )  # fmt: skip
    moved = replace(
        finding,
        kind=KIND,
        vertex=vertex,
        file=place.file,
        line=place.line,
        end_line=place.end_line,
        function=psg.function_of(vertex),
        vertex_kind=psg[vertex].kind.value,
        path=[*finding.path[:-1], root],
        evidence={
            "seconds_here": float(helper_cpu_s[vertex, own].mean()),
            "seconds_others": float(helper_cpu_s[vertex, ~own].mean()),
            "core_wait_share": finding.evidence["core_wait_share"],
            "callers": callers(vertex, psg),
        },
    )
    moved.advice = advise(moved)
    return moved
