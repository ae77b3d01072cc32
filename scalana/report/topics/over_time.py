"""What ranks did over time: own work, waiting by the finding that causes it, transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.paths import reaching_entries
from scalana.graphs.arrays.types import FloatArray
from scalana.report import names
from scalana.report.document.pictures import LanePart, Lanes, Period
from scalana.report.document.sections import Section, section
from scalana.report.findings.order import faults_of

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


COLUMNS = 360
_CLOSE = 5
"""Steps that are shown large."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Parts of the columns of one rank."""

    rank: int
    parts: FloatArray
    """Time outside communication, waiting by each cause and by others, transfer ``[causes + 3, columns]``, each as a
    share of the column."""


def close_up(analysis: Analysis) -> list[tuple[str, tuple[float, float]]]:
    """A title, begin and end of a few steps: the slowest of all, or one in the middle, with its neighbours; none where
    there are too few steps for it to show more than the whole run."""
    steps = analysis.steps
    if steps is None or len(steps) < 3 * _CLOSE:
        return []
    slow = steps.slow()
    middle = int(slow[0]) if len(slow) else (steps.warm_up + len(steps)) // 2
    first = min(max(middle - _CLOSE // 2, steps.warm_up), len(steps) - _CLOSE)
    begin = float(np.nanmin(np.append(steps.start_s[first], steps.end_s[max(first - 1, 0)])))
    end = float(np.nanmax(steps.end_s[first + _CLOSE - 1]))
    title = f"Steps {int(steps.number[first])} to {int(steps.number[first + _CLOSE - 1])}"
    return [(f"{title}, around the slowest" if len(slow) else title, (begin, end))]


def filled(analysis: Analysis, causes: Sequence[Finding], ranks: list[int], edges: FloatArray) -> list[Filled]:
    """What the main threads of some ranks did between edges in seconds ``[columns + 1]``.

    ``causes`` are findings that are made of entries of the blame table. O(their calls x causes).
    """
    timeline, waits, groups = analysis.ppg.timeline, analysis.waits, analysis.blame.groups.group_of_call
    calls, locations = timeline.calls, timeline.locations
    by_cause = [
        np.append(reaching_entries(cause.entries, analysis.blame)[1], 0.0)
        for cause in causes
        if cause.entries is not None
    ]
    rows = []
    for rank in ranks:
        found = np.flatnonzero((locations.rank == rank) & locations.is_main)
        if not len(found):
            continue
        location = int(found[0])
        at = slice(int(calls.first[location]), int(calls.first[location + 1]))
        enter, leave = calls.enter_s[at], calls.exit_s[at]
        released = enter + waits.wait_s[at]
        left = np.ones(len(enter))
        parts = []
        for reaching in by_cause:
            part = np.minimum(reaching[groups[at]], left)
            left = left - part
            parts.append(_between(enter, released, part, edges))
        parts.append(_between(enter, released, left, edges))
        parts.append(_between(released, leave, np.ones(len(enter)), edges))
        start, end = locations.start_s[location : location + 1], locations.end_s[location : location + 1]
        recorded = _between(start, end, np.ones(1), edges)
        own = np.maximum(recorded - np.sum(parts, axis=0), 0.0)
        rows.append(Filled(rank, np.array([own, *parts]) / np.diff(edges)))
    return rows


def _between(begin: FloatArray, end: FloatArray, part: FloatArray, edges: FloatArray) -> FloatArray:
    """Seconds between edges in periods that follow each other, each counted by a part of it ``[columns]``."""
    if not len(begin):
        return np.zeros(len(edges) - 1)
    times = np.maximum.accumulate(np.column_stack([begin, end]).ravel())
    grown = np.zeros((len(begin), 2))
    grown[:, 1] = part
    seconds = np.concatenate(([0.0], np.cumsum(np.diff(times) * grown.ravel()[1:])))
    return np.diff(np.interp(edges, times, seconds))
