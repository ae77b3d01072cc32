"""Ranks that are slow because a thread or process of their own takes their core: the lines that become slower are told
together, by what makes them so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import CpuSplit, Evidence, PlaceTime, SlowedLine
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.advice import advise
from scalana.detectors.rollup.callers import callers
from scalana.detectors.thresholds.shares import IN_PART, MAJORITY, SUBSTANTIAL
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.structure.psg import PSG

KIND = "helper-takes-core"


def name_interference(findings: list[Finding], helper_cpu_s: FloatArray, psg: PSG) -> list[Finding]:
    """Put findings that are due to one helper together, at the place where that computes.

    ``helper_cpu_s`` are seconds on a CPU of the other threads and the children of every rank ``[vertices, ranks]``.
    """
    result: dict[int, Finding] = {}
    """By the row of the first finding that each is made of."""
    found: dict[tuple[str, str, tuple[int, ...]], int] = {}
    rivals = [_rival(finding, helper_cpu_s, psg) for finding in findings]
    for row, (finding, rival) in enumerate(zip(findings, rivals, strict=True)):
        if rival < 0:
            result[row] = finding
        if finding.evidence.helper_share:
            found.setdefault((finding.file, finding.function, tuple(finding.ranks)), row)
    for row, (finding, rival) in enumerate(zip(findings, rivals, strict=True)):
        if rival < 0:
            continue
        known = found.setdefault((psg[rival].place.file, psg.function_of(rival), tuple(finding.ranks)), row)
        if known == row:
            result[row] = _slowing(_at(rival, finding, helper_cpu_s, psg), finding)
        else:
            result[known] = _slowing(_together(result[known], finding), finding)
    return [result[row] for row in sorted(result)]


def _together(known: Finding, finding: Finding) -> Finding:
    """A finding of a helper that costs what another one does as well."""
    return replace(
        known,
        lost_s=known.lost_s + finding.lost_s,
        lost_share=known.lost_share + finding.lost_share,
        saving_s=known.saving_s + finding.saving_s,
    )


def _slowing(known: Finding, finding: Finding) -> Finding:
    """A finding of a helper with one more line that this slows."""
    slowed = [*(known.evidence.slowed or ()), SlowedLine(finding.file, finding.line, finding.lost_s)]
    known = replace(known, evidence=replace(known.evidence, slowed=slowed))
    if known.kind == KIND or sum(line.lost_s for line in slowed) <= MAJORITY * known.lost_s:
        return known
    known = replace(known, kind=KIND)
    return replace(known, advice=advise(known))


def _rival(finding: Finding, helper_cpu_s: FloatArray, psg: PSG) -> int:
    """The vertex at which helpers of a finding's ranks compute most, if they took the core; -1 if not."""
    place, split = finding.evidence.place or PlaceTime(0.0), finding.evidence.cpu or CpuSplit()
    others, cpu, core_wait = place.seconds_others, split.cpu_share, split.core_wait_share
    if (
        finding.evidence.turns is not None
        or finding.evidence.helper_share != 0.0
        or others is None
        or cpu is None
        or core_wait is None
    ):
        return -1
    if core_wait < SUBSTANTIAL or cpu > IN_PART or others >= place.seconds_here:
        return -1
    own = np.isin(np.arange(helper_cpu_s.shape[1]), finding.ranks)
    more = helper_cpu_s[:, own].mean(axis=1) - helper_cpu_s[:, ~own].mean(axis=1)
    more[[index for index in np.flatnonzero(more > 0.0).tolist() if psg[index].place.line <= 0]] = 0.0  # no source
    if more.max(initial=0.0) <= 0.0 or np.maximum(more, 0.0).sum() < MAJORITY * core_wait * (
        place.seconds_here - others
    ):
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
        evidence=Evidence(
            place=PlaceTime(float(helper_cpu_s[vertex, own].mean()), float(helper_cpu_s[vertex, ~own].mean())),
            cpu=CpuSplit(core_wait_share=finding.evidence.cpu.core_wait_share if finding.evidence.cpu else None),
            callers=callers(vertex, psg),
        ),
    )
    return replace(moved, advice=advise(moved))
