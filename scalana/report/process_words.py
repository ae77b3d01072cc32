"""What the processes of a run are called in prose: processes, where none of them is a rank."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scalana.graphs.readers.processes.process_names import RANK, ProcessNames
from scalana.report.document.pictures import Heatmap
from scalana.report.document.sections import Facts, Part, Section, Table

if TYPE_CHECKING:
    from scalana.report.document.contents import Contents
    from scalana.report.document.finding import Cause

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
