"""The columns of a table of operations: their names, those by which others call them, and how they are recognised."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    is_text: bool = False
    """Whether it holds words; else it holds whole numbers from 0 on."""
    aliases: tuple[str, ...] = ()
    """Other names, in lower case."""


COLUMNS = (
    Column("rank"),
    Column("kind", is_text=True, aliases=("optype", "op_type", "operation")),
    Column("step", aliases=("iteration",)),
    Column("microbatch", aliases=("mb_id", "microbatch_id")),
    Column("stage"),
    Column("chunk", aliases=("mc", "model_chunk")),
    Column("replica", aliases=("dp_rank",)),
    Column("sequence", aliases=("seq_id",)),
    Column("group", is_text=True),
    Column("model_stage", aliases=("gmc",)),
)
"""All but the moments. ``stage`` counts through the whole pipeline, or, where ``chunk`` or ``model_stage`` is given by
the name of the straggler study, the ranks of it."""
NEEDED = ("rank", "kind")
MOMENTS = ("begin", "duration", "end")
_MOMENT_ALIASES = {"start": "begin", "start_ts": "begin", "end_ts": "end", "dur": "duration"}
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds of each unit, by the end of a column's name."""
STUDY = frozenset({"dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration"})
"""Columns by which a table of the straggler study of ByteDance is recognised; its times are seconds."""
_NAMES = {alias: column.name for column in COLUMNS for alias in (column.name, *column.aliases)}
BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, slots=True)
class Header:
    """What the columns of one table are."""

    column: dict[str, str]
    """Name in the file of each of :data:`COLUMNS` and :data:`MOMENTS` that it has."""
    unit_ns: dict[str, int]
    """Of each moment that it has."""
    is_study: bool
    """Whether it is one of the straggler study."""


def normal(name: str) -> str:
    """The name of a column without what makes no difference."""
    return name.strip().strip('"').strip().lower()


def resembles(names: Iterable[str]) -> bool:
    """Whether columns of these names may be those of a table of operations."""
    known = {_NAMES.get(normal(name), "") for name in names}
    return {"rank", "kind"} <= known or len(known & {"rank", "kind", "step", "stage", "microbatch", "replica"}) >= 3


def header_of(names: Iterable[str]) -> tuple[Header | None, str]:
    """What columns of these names are; None, and what is wrong with them."""
    given = list(names)
    is_study = {normal(name) for name in given} >= STUDY
    column: dict[str, str] = {}
    unit: dict[str, int] = {}
    unitless = []
    for name in given:
        known = _NAMES.get(normal(name))
        moment, unit_ns = (None, 0) if known else _moment(normal(name), is_study)
        if moment and not unit_ns:
            unitless.append(name)
            continue
        meant = known or moment
        if meant is None:
            continue
        if meant in column:
            return None, f"columns {column[meant]} and {name} both mean {meant}: keep one"
        column[meant] = name
        if moment:
            unit[moment] = unit_ns
    missing = [name for name in NEEDED if name not in column]
    missing += [] if "begin" in column else ["begin_s"]
    missing += [] if "duration" in column or "end" in column else ["duration_s or end_s"]
    if missing:
        says = f"no column {', '.join(missing)} (it has {', '.join(given)})"
        if unitless:
            says += f"; the unit of {', '.join(unitless)} is unknown: end the name with _s, _ms, _us or _ns"
        return None, says
    return Header(column, unit, is_study), ""


def _moment(name: str, is_study: bool) -> tuple[str | None, int]:
    """Which moment a column is, and its unit in nanoseconds, 0 where that is not known; None for none."""
    match = re.fullmatch(r"(.+?)(?:_(s|ms|us|ns))?", name)
    stem, unit = (match[1], match[2]) if match else (name, None)
    meant = _MOMENT_ALIASES.get(stem, stem)
    if meant not in MOMENTS:
        return None, 0
    return meant, UNITS[unit] if unit else UNITS["s"] if is_study else 0
