"""What ranks did over time: own work, waiting by the finding that causes it, transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names
from scalana.report.document.pictures import LanePart, Lanes, Period
from scalana.report.document.sections import Section, section
from scalana.report.findings.order import faults_of
from scalana.report.topics.activity import COLUMNS, close_up, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding

MOST_RANKS = 32
"""Rows; of more ranks, those of findings and others, evenly."""
MOST_CAUSES = 5
"""Findings that have a style of their own."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """The whole run and a few steps; none where ranks do not communicate."""
    timeline, run = analysis.ppg.timeline, analysis.ppg.run
    if not len(timeline.calls) or not len(timeline.locations) or run.ranks < 2:
        return []
    causes = [finding for finding in faults_of(analysis) if finding.entries is not None][:MOST_CAUSES]
    ranks = chosen(run.ranks, causes)
    parts = [
        LanePart("outside communication", kind="work"),
        *(LanePart(f"waiting for {_cause(one, analysis)}", cause=number) for number, one in enumerate(causes)),
        LanePart("waiting, other causes" if causes else "waiting", kind="waiting"),
        LanePart("transfer", kind="transfer"),
    ]
    whole = float(timeline.locations.start_s.min()), float(timeline.locations.end_s.max())
    shown: list[int] = []
    periods = []
    for title, (begin, end) in [("The whole run", whole), *close_up(analysis)]:
        rows = filled(analysis, causes, ranks, np.linspace(begin, end, COLUMNS + 1))
        shown = [row.rank for row in rows]
        words = f"Each column is {names.seconds((end - begin) / COLUMNS)}, filled by the activities of the rank."
        table = np.array([row.parts for row in rows]).reshape(len(rows), len(parts), COLUMNS)
        periods.append(Period(title, words, end - begin, table))
    few = (
        f"{len(ranks)} of {run.ranks} ranks: those that findings name, and others evenly."
        if len(ranks) < run.ranks
        else ""
    )
    lanes = Lanes("what ranks did", few, tuple(map(run.names.one, shown)), tuple(parts), tuple(periods))
    return [section("over-time", "Over time", "", lanes)]


def _cause(finding: Finding, analysis: Analysis) -> str:
    run = analysis.ppg.run
    place = names.place(names.near(finding.file, run.cwd), finding.line)
    return f"{place} on {run.names.many(finding.ranks, run.ranks)}"


def chosen(ranks: int, findings: Sequence[Finding]) -> list[int]:
    """The ranks that are drawn: all, or the first of each finding and others, evenly.

    >>> chosen(3, [])
    [0, 1, 2]
    >>> len(chosen(1000, [])), chosen(1000, [])[-1]
    (32, 999)
    """
    if ranks <= MOST_RANKS:
        return list(range(ranks))
    late = [rank for finding in findings for rank in sorted(finding.ranks)[:3]]
    few = list(dict.fromkeys(late))[: MOST_RANKS // 2]
    evenly = np.linspace(0, ranks - 1, MOST_RANKS).astype(int).tolist()
    return sorted([*few, *[rank for rank in evenly if rank not in few][: MOST_RANKS - len(few)]])
