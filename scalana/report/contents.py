"""From an analysis to what a report shows of it, as data."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from scalana.detectors.analysis import Analysis
from scalana.graphs.readers.processes.process_names import RANK, ProcessNames
from scalana.report import head
from scalana.report.document.contents import Contents
from scalana.report.document.finding import Cause
from scalana.report.document.pictures import Heatmap
from scalana.report.document.sections import Facts, Part, Section, Table
from scalana.report.findings.cause import cause_of
from scalana.report.findings.order import faults_of, rest, warnings
from scalana.report.headline import headline
from scalana.report.topics.table import sections_of


def contents_of(analysis: Analysis, most: int, details: bool = False) -> Contents:
    """At most ``most`` findings, and the sections; with ``details`` also those that need much room."""
    run, faults = analysis.ppg.run, faults_of(analysis)
    sections = sections_of(analysis, details)
    contents = Contents(
        command=shlex.join(str(word) for word in run.command) or "(command not recorded)",
        head=head.lines(analysis),
        warnings=tuple(warnings(analysis)),
        causes=tuple(cause_of(finding, run) for finding in faults[:most]),
        rest=rest(faults[most:]),
        headline=(known := headline(analysis, faults)),
        nothing=("", "") if faults or known[1] else head.nothing(analysis),
        sections=tuple(sections),
    )
    return without_ranks(contents, run.names)


_WORDS = {"rank": "process", "ranks": "processes", "Rank": "Process", "Ranks": "Processes"}
_RANK = re.compile(r"(?<![\w./_-])[Rr]anks?\b(?!\.\w|:\d|[/(_])")


def without_ranks(contents: Contents, names: ProcessNames) -> Contents:
    """The same contents, in which processes that have roles and are no ranks are not called ranks."""
    if not names.several or RANK in names.role:
        return contents
    return replace(
        contents,
        head=tuple(map(worded, contents.head)),
        warnings=tuple(map(worded, contents.warnings)),
        causes=tuple(map(_cause, contents.causes)),
        rest=worded(contents.rest),
        headline=(worded(contents.headline[0]), worded(contents.headline[1])),
        nothing=(worded(contents.nothing[0]), worded(contents.nothing[1])),
        sections=tuple(map(_section, contents.sections)),
    )


def worded(text: str) -> str:
    """A sentence in which ranks are processes; code between backticks, and names of files, stay.

    >>> worded("Ranks wait: 4 ranks on 2 cores, 3.2 rank-seconds in `rank()` of rank.py. Balance each rank.")
    'Processes wait: 4 processes on 2 cores, 3.2 process-seconds in `rank()` of rank.py. Balance each process.'
    """
    parts = text.split("`")
    parts[::2] = [_RANK.sub(lambda found: _WORDS[found[0]], part) for part in parts[::2]]
    return "`".join(parts)


def _cause(cause: Cause) -> Cause:
    return replace(
        cause,
        sentences=tuple(map(worded, cause.sentences)),
        figures=tuple((worded(amount), worded(what)) for amount, what in cause.figures),
        advice=worded(cause.advice),
    )


def _section(section: Section) -> Section:
    blocks = tuple(tuple(map(_part, block)) for block in section.blocks)
    return replace(section, heading=worded(section.heading), of=worded(section.of), blocks=blocks)


def _part(part: Part) -> Part:
    """A part of a section; pictures, and the cells of tables, name processes by themselves."""
    if isinstance(part, Facts):
        values = tuple((worded(name), text) for name, text in part.values)
        return replace(part, sentences=tuple(map(worded, part.sentences)), values=values)
    if isinstance(part, Heatmap):
        return replace(part, label=worded(part.label), caption=worded(part.caption))
    if not isinstance(part, Table):
        return part
    columns = tuple(replace(column, head=worded(column.head)) for column in part.columns)
    return replace(part, columns=columns, notes=tuple(map(worded, part.notes)))
