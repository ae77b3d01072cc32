"""Runs of schedules: which span of a pipeline belongs to which run, and which runs of different ranks are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.spans.nearest import latest, numbered_keys
from scalana.graphs.spans.span_columns import Spans


@dataclass(slots=True)
class RunTable(ColumnTable):
    """Runs of all processes. Those that nobody recorded, but whose actions were, come last and have no span."""

    span: IntArray
    """Row in the spans, -1 for none ``[runs]``."""
    process: IntArray
    """``[runs]``"""
    rank: IntArray
    """World rank ``[runs]``."""
    number: IntArray
    """The same for one run on all its ranks ``[runs]``."""
    pipeline: IntArray
    """Which pipeline it is a run of ``[runs]``."""
    start_ns: IntArray
    """``[runs]``"""
    end_ns: IntArray
    """``[runs]``"""


@dataclass(slots=True)
class Placed(ColumnTable):
    """Spans of pipelines, each with its run."""

    row: IntArray
    """In the spans ``[rows]``."""
    run: IntArray
    """In the table of runs ``[rows]``."""


def place_in_runs(spans: Spans, rows: IntArray, defining: BoolArray) -> tuple[RunTable, Placed]:
    """The runs of a recording, and the run of each of some spans; those that belong to none are left out.

    Args:
        spans: all spans.
        rows: those of pipelines.
        defining: which of them make up a run where none was recorded: the others go with these ``[rows]``.
    """
    recorded = _recorded(spans)
    process = spans.process[rows]
    run = containing(recorded, process, spans.table.start_ns[rows])
    alone = run < 0
    made, run_of_alone = _made(spans, rows[alone], defining[alone], _next_pipeline(recorded))
    run[alone] = np.where(run_of_alone >= 0, run_of_alone + len(recorded), -1)
    names = RunTable.__dataclass_fields__
    both = RunTable(*(np.concatenate((getattr(recorded, name), getattr(made, name))) for name in names))
    return both, Placed(rows[run >= 0], run[run >= 0])


def containing(runs: RunTable, process: IntArray, time_ns: IntArray) -> IntArray:
    """The recorded run of a process in which a moment lies, -1 for none ``[moments]``."""
    found = latest(runs.process, runs.start_ns, process, time_ns)
    return np.where((found >= 0) & (runs.end_ns[found] >= time_ns), found, -1) if len(runs) else found


def _next_pipeline(runs: RunTable) -> int:
    return int(runs.pipeline.max(initial=-1)) + 1


def _recorded(spans: Spans) -> RunTable:
    rows = spans.rows("action", "RUN")
    group = np.column_stack((spans.texts("ranks")[rows], spans.integers("pipeline")[rows])).reshape(-1, 2)
    pipeline = np.unique(group, axis=0, return_inverse=True)[1].reshape(-1) if len(rows) else rows
    return RunTable(
        rows,
        spans.process[rows],
        spans.rank[rows],
        spans.integers("number")[rows],
        pipeline.astype(np.int64),
        spans.table.start_ns[rows],
        spans.table.end_ns[rows],
    )


def _made(spans: Spans, rows: IntArray, defining: BoolArray, first: int) -> tuple[RunTable, IntArray]:
    """Runs that are told by their actions alone: a marked step each, or each repetition of the same actions.

    Returns them, and the run of each row, -1 for none.
    """
    process, step = spans.process[rows], spans.table.step[rows].astype(np.int64)
    if (step[defining] >= 0).any():
        number = step
    else:
        number = _occurrence(process, *(c[rows] for c in _what(spans)))
    run = np.full(len(rows), -1, np.int64)
    known = number >= 0
    told = np.column_stack((process, number))
    pairs = np.unique(told[known & defining], axis=0).reshape(-1, 2)
    every, place = np.unique(np.concatenate((pairs, told)), axis=0, return_inverse=True)
    index = np.full(len(every), -1, np.int64)
    place = place.reshape(-1)
    index[place[: len(pairs)]] = np.arange(len(pairs))
    run[known] = index[place[len(pairs) :]][known]
    rank = np.full(len(pairs), -1, np.int64)
    rank[run[run >= 0]] = spans.rank[rows[run >= 0]]
    start, end = np.full(len(pairs), np.iinfo(np.int64).max), np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(start, run[run >= 0], spans.table.start_ns[rows[run >= 0]])
    np.maximum.at(end, run[run >= 0], spans.table.end_ns[rows[run >= 0]])
    pipeline = _replica(spans, rows[run >= 0], run[run >= 0], rank) + first
    nothing = np.full(len(pairs), -1, np.int64)
    return RunTable(nothing, pairs[:, 0], rank, pairs[:, 1], pipeline, start, end), run


def _what(spans: Spans) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """What tells actions of one step from each other ``[spans]`` each."""
    table = spans.table
    columns = table.type, table.name, spans.integers("stage") + 1, spans.integers("microbatch") + 1
    kind, name, stage, microbatch = (column.astype(np.int64) for column in columns)
    return kind, name, stage, microbatch


def _occurrence(*columns: IntArray) -> IntArray:
    """How many rows before each have the same values in all columns ``[rows]``."""
    key = numbered_keys(*columns)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(key) else np.zeros(0, bool))
    size = np.diff(np.append(starts, len(key)))
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - np.repeat(starts, size)
    return number


def _replica(spans: Spans, rows: IntArray, run: IntArray, rank_of_run: IntArray) -> IntArray:
    """Which of several pipelines that work alike each run belongs to: as its actions tell, or by order of ranks: the
    n-th rank that holds a stage belongs to the n-th pipeline ``[runs]``."""
    told = np.full(len(rank_of_run), -1, np.int64)
    np.maximum.at(told, run, spans.integers("pipeline")[rows])
    stage = spans.integers("stage")[rows]
    held = np.unique(np.column_stack((stage, rank_of_run[run]))[stage >= 0], axis=0).reshape(-1, 2)
    place = _occurrence(held[:, 0] + 1)
    of_rank = np.zeros(int(rank_of_run.max(initial=-1)) + 2, np.int64)
    # A rank holds several stages: of each it is the n-th, or the pipelines are not alike.
    np.maximum.at(of_rank, held[:, 1], place)
    return np.where(told >= 0, told, of_rank[rank_of_run])
