"""Ranks that are late because another rank starts them, after it has prepared by itself: the line that starts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import StartedBy
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.rollup.candidates import Candidate
from scalana.graphs.readers.processes.starts import Start
from scalana.graphs.timeline import Timeline

KIND = "started-late"
_EARLIER = "carried-in"


def with_started_together(candidates: list[Candidate], starts: Mapping[int, Start]) -> list[Candidate]:
    """Candidates of ranks that are late before their records begin, with the other ranks that the same line starts:
    whoever waits for several of them waits for the last one alone."""
    return [_with_started_together(candidate, starts) for candidate in candidates]


def is_started(candidate: Candidate, starts: Mapping[int, Start]) -> bool:
    """Whether a candidate's ranks are late before their records begin, and others start them all."""
    is_early = candidate.code_location.kind == TargetKind.CARRIED_IN
    return is_early and all(rank in starts for rank in candidate.ranks)


def _with_started_together(candidate: Candidate, starts: Mapping[int, Start]) -> Candidate:
    lines = {starts.get(rank) for rank in candidate.ranks}
    if candidate.code_location.kind != TargetKind.CARRIED_IN or len(lines) != 1 or None in lines:
        return candidate
    return replace(candidate, ranks=sorted(rank for rank, start in starts.items() if start in lines))


def name_starts(findings: list[Finding], starts: Mapping[int, Start], timeline: Timeline) -> list[Finding]:
    """Findings of ranks that are late before their records begin, as what they are where other ranks start them all at
    one line: before that they do not exist. ``starts`` are known by rank."""
    return [_named(one, starts, timeline) if one.kind == _EARLIER else one for one in findings]


def _named(finding: Finding, starts: Mapping[int, Start], timeline: Timeline) -> Finding:
    known = {starts[rank] for rank in finding.ranks if rank in starts}
    if len(known) != 1 or not all(rank in starts for rank in finding.ranks):
        return finding
    (start,) = known
    locations, main = timeline.locations, timeline.locations.is_main
    begins_s = np.zeros(timeline.ranks)
    begins_s[locations.rank[main]] = locations.start_s[main]
    after_s = float(begins_s[finding.ranks].mean() - begins_s[start.by])
    root = replace(finding.path[-1], file=start.file, line=start.line, function=start.function)
    return replace(
        finding,
        kind=KIND,
        file=start.file,
        line=start.line,
        end_line=start.line,
        function=start.function,
        path=[*finding.path[:-1], root],
        evidence=replace(finding.evidence, started=StartedBy([start.by], after_s)),
        advice=kind_of(KIND).advice,
    )
