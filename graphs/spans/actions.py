"""What the pipelines of a run did: forwards and backwards of stages as columns, a set for each pipeline.

``runtime/pipeline/spans.py`` has the table of the spans that this reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable, to_seconds
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.layer_costs import LayerCosts, TimedLayers, layer_costs, timed_layers
from scalana.graphs.spans.nearest import latest, matching
from scalana.graphs.spans.pipeline_runs import Placed, RunTable, containing, place_in_runs
from scalana.graphs.spans.span_columns import Spans

KINDS = ("F", "B", "I", "W")
"""Forward; whole backward; gradients of the input, of the weights. Their places here are the codes of actions."""


@dataclass(frozen=True, slots=True)
class Actions(ColumnTable):
    """Actions of one pipeline, sorted by rank and begin; seconds on the axis of the run, ``[actions]`` all."""

    step: IntArray
    """Number of the run of the schedule, the same on all ranks."""
    rank: IntArray
    """Place in :attr:`Pipeline.ranks`."""
    kind: IntArray
    """Place in :data:`KINDS`."""
    stage: IntArray
    microbatch: IntArray
    chunk: IntArray
    """Place of the stage among those of its rank."""
    begin_s: FloatArray
    """When computing began, after the wait for input and for data."""
    end_s: FloatArray
    """The end; of a forward of the last stage that of the loss."""
    cpu_s: FloatArray
    """CPU time of its thread, NaN where it is not known; without the loss."""
    wait_begin_s: FloatArray
    """When the rank began to wait for the input; NaN where no wait was seen."""
    wait_end_s: FloatArray
    """NaN where no wait was seen."""
    joined: BoolArray
    """Whether the next action of the rank belongs to this one."""
    send_wait_s: FloatArray
    """Seconds before the action, since the one before, in which the rank waited for its own messages alone."""
    load_s: FloatArray
    """Seconds before the action, since the one before, in which its run loaded data. What is loaded within an action
    (Megatron-core: by the program's forward step) is taken to be loaded before it computes."""
    span: IntArray
    """Row in the spans of the run."""


@dataclass(frozen=True, slots=True)
class ScheduleRuns(ColumnTable):
    """The runs of a pipeline's schedule, in order."""

    number: IntArray
    """As :attr:`Actions.step` has it ``[runs]``."""
    trains: BoolArray
    """Whether it has backward passes ``[runs]``."""
    infers: BoolArray
    """Whether shapes were found out in it, which is no work of training ``[runs]``."""
    enter_s: FloatArray
    """When a rank entered it; NaN where that is not known ``[runs, ranks]``."""
    leave_s: FloatArray
    """NaN where that is not known ``[runs, ranks]``."""
    data_s: FloatArray
    """Loading of data between the run before and this one ``[runs, ranks]``."""
    gradients_s: FloatArray
    """Reducing and scaling gradients after the last action ``[runs, ranks]``."""
    optimizer_s: FloatArray
    """Steps of optimizers after it, before the next run ``[runs, ranks]``."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline: one schedule on one set of ranks."""

    engine: str
    """What runs it: ``torch``; empty where only its actions are known."""
    schedule: str
    """As the engine calls it, empty where it does not tell."""
    ranks: tuple[int, ...]
    """World ranks, in the order of the pipeline."""
    stages: int
    microbatches: int
    actions: Actions
    runs: ScheduleRuns
    layers: LayerCosts | None
    """Seconds of single layers, where some were timed."""
    device_layers: LayerCosts | None = None
    """The same on devices, where some were marked there."""

    def training(self) -> tuple[Actions, ScheduleRuns]:
        """What is worth a look: runs that train (all, if none does), without those that find out shapes."""
        chosen = self.runs.trains & ~self.runs.infers
        chosen = chosen if chosen.any() else ~self.runs.infers
        return self.actions.take(np.isin(self.actions.step, self.runs.number[chosen])), self.runs.take(chosen)


def find_pipelines(spans: Spans) -> list[Pipeline]:
    """All pipelines of a run, by their first ranks. Actions that tell no stage or microbatch are left out."""
    code = _codes(spans)
    rows = np.flatnonzero(code >= 0)
    if not (code[rows] < len(KINDS)).any():
        return []
    stage, microbatch = spans.integers("stage"), spans.integers("microbatch")
    rows = rows[(stage[rows] >= 0) & ((microbatch[rows] >= 0) | (code[rows] == _REDUCE_GRAD))]
    runs, placed = place_in_runs(spans, rows, code[rows] < len(KINDS))
    columns = _Columns(spans, runs, placed, code[placed.row], stage[placed.row], microbatch[placed.row])
    everything = columns.actions()
    beside = columns.data(), columns.gradients(), columns.optimizer()
    of_action = runs.pipeline[columns.run_of(everything)]
    numbers = np.unique(of_action)
    timed = [timed_layers(spans, runs, on_devices) for on_devices in (False, True)]
    layers = [[one.take(own) for own in _split(runs.pipeline[one.run], numbers)] for one in timed]
    parts = zip(numbers.tolist(), _split(of_action, numbers), *layers, strict=True)
    found = [columns.pipeline(number, everything.take(own), beside, both) for number, own, *both in parts]
    return sorted(found, key=lambda one: one.ranks)


def _split(group: IntArray, groups: IntArray) -> list[IntArray]:
    """The rows of each of some groups, ascending."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.append(groups, groups[-1] + 1))
    return [order[begin:end] for begin, end in pairwise(bounds.tolist())]


_OTHERS = ("LOSS", "REDUCE_GRAD")
_LOSS, _REDUCE_GRAD = range(len(KINDS), len(KINDS) + 2)
_WAITS = ("RECV_F", "RECV_B", "SEND_F", "SEND_B")
_FIRST_WAIT, _FIRST_SEND = _REDUCE_GRAD + 1, _REDUCE_GRAD + 3


def _codes(spans: Spans) -> IntArray:
    """What each span is of a pipeline: a place in KINDS, _OTHERS and _WAITS together, -1 nothing ``[spans]``."""
    code = np.full(len(spans), -1, np.int64)
    for place, name in enumerate((*KINDS, *_OTHERS, *_WAITS)):
        code[spans.rows("wait" if name in _WAITS else "action", name)] = place
    return code


def _before(run: IntArray, start: IntArray, end: IntArray, others: tuple[IntArray, IntArray, IntArray]) -> FloatArray:
    """Seconds of other spans of a run that lie between two actions, at the second of these ``[actions]``.

    Run, begin and end of the actions and of the others, ns; what lies within an action counts for none.
    """
    of_run, begins, ends = others
    following = latest(run, -start, of_run, -begins)
    under_way = latest(run, start, of_run, begins)
    counts = following >= 0
    counts &= (under_way < 0) | (end[under_way] <= begins) if len(end) else counts
    seconds = np.zeros(len(run))
    np.add.at(seconds, following[counts], to_seconds(ends - begins)[counts])
    return seconds


def _within(run: IntArray, start: IntArray, end: IntArray, others: tuple[IntArray, IntArray, IntArray]) -> IntArray:
    """Nanoseconds of other spans of a run that lie within each action; as :func:`_before`."""
    of_run, begins, ends = others
    inside = np.zeros(len(run), np.int64)
    around = latest(run, start, of_run, begins)
    known = around >= 0
    held = around[known]
    np.add.at(inside, held, np.maximum(np.minimum(ends[known], end[held]) - begins[known], 0))
    return inside


Beside = tuple[tuple[FloatArray, IntArray], ...]
"""Seconds beside the actions, and their rows in the table of runs: data, gradients, optimizer."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """The spans of all pipelines."""

    spans: Spans
    runs: RunTable
    placed: Placed
    code: IntArray
    """``[rows]``, as the following"""
    stage: IntArray
    microbatch: IntArray

    def start_ns(self) -> IntArray:
        return self.spans.table.start_ns[self.placed.row].astype(np.int64)

    def end_ns(self) -> IntArray:
        return self.spans.table.end_ns[self.placed.row].astype(np.int64)

    def run_of(self, actions: Actions) -> IntArray:
        """The row in the table of runs of each action."""
        run = np.full(len(self.spans), -1, np.int64)
        run[self.placed.row] = self.placed.run
        return run[actions.span]

    def actions(self) -> Actions:
        """All actions; ranks and steps are those of the job and of its runs."""
        spans, run, start, end = self.spans, self.placed.run, self.start_ns(), self.end_ns()
        chosen = np.flatnonzero(self.code < len(KINDS))
        chosen = chosen[np.lexsort((start[chosen], run[chosen], self.runs.rank[run[chosen]]))]
        row, kind = self.placed.row[chosen], self.code[chosen]
        stops = end[chosen].copy()
        backward = (kind != 0).astype(np.int64)
        key = (run[chosen], backward, self.stage[chosen], self.microbatch[chosen])

        losses = np.flatnonzero(self.code == _LOSS)
        loss = matching(
            (run[losses], np.zeros(len(losses), np.int64), self.stage[losses], self.microbatch[losses]), key
        )
        stops = np.where(loss >= 0, np.maximum(stops, end[losses[loss]] if len(losses) else 0), stops)

        received = np.flatnonzero((self.code >= _FIRST_WAIT) & (self.code < _FIRST_SEND))
        of = (run[received], self.code[received] - _FIRST_WAIT, self.stage[received], self.microbatch[received])
        wait = np.where(kind == KINDS.index("W"), -1, matching(of, key))
        waits = [np.full(len(chosen), np.nan) for _ in range(2)]
        seen = wait >= 0
        for into, moments in zip(waits, (start, end), strict=True):
            into[seen] = to_seconds(moments[received[wait[seen]]])

        sends = np.flatnonzero(self.code >= _FIRST_SEND)
        sent = _before(run[chosen], start[chosen], end[chosen], (run[sends], start[sends], end[sends]))
        loading = self._loads()
        loads = _before(run[chosen], start[chosen], end[chosen], loading)
        inside = _within(run[chosen], start[chosen], end[chosen], loading)
        return Actions(
            step=self.runs.number[run[chosen]],
            rank=self.runs.rank[run[chosen]],
            kind=kind,
            stage=self.stage[chosen],
            microbatch=self.microbatch[chosen],
            chunk=np.maximum(spans.integers("chunk")[row], 0),
            begin_s=to_seconds(start[chosen] + inside),
            end_s=to_seconds(stops),
            cpu_s=spans.cpu_s(row),
            wait_begin_s=waits[0],
            wait_end_s=waits[1],
            joined=spans.integers("joined")[row] == 1,
            send_wait_s=sent,
            load_s=loads + to_seconds(inside),
            span=row,
        )

    def pipeline(self, number: int, actions: Actions, beside: Beside, layers: list[TimedLayers]) -> Pipeline:
        """One of the pipelines, whose actions still have ranks of the job."""
        spans = self.spans
        runs = np.flatnonzero(self.runs.pipeline == number)
        described = self.runs.span[runs[self.runs.span[runs] >= 0]][:1]
        ranks = self._ranks(runs, described)
        place = np.full(max(int(self.runs.rank.max(initial=-1)), *ranks) + 2, -1, np.int64)
        place[list(ranks)] = np.arange(len(ranks))
        actions = replace(actions, rank=place[actions.rank])
        actions = actions.take(np.lexsort((actions.begin_s, actions.rank)))

        def told(key: str) -> str:
            text = spans.texts(key)[described]
            return spans.names[int(text[0])] if len(text) and text[0] >= 0 else ""

        def count(key: str, seen: IntArray) -> int:
            value = spans.integers(key)[described]
            return int(value[0]) if len(value) and value[0] > 0 else int(seen.max()) + 1

        return Pipeline(
            told("engine"),
            told("schedule"),
            ranks,
            count("stages", actions.stage),
            count("microbatches", actions.microbatch),
            actions,
            self._schedule_runs(runs, place, len(ranks), actions, beside),
            *(layer_costs(spans, timed, int(actions.stage.max()) + 1) for timed in layers),
        )

    def _ranks(self, runs: IntArray, described: IntArray) -> tuple[int, ...]:
        """World ranks of a pipeline: those that it was made with, or those that were seen."""
        text = self.spans.texts("ranks")[described]
        if len(text) and text[0] >= 0:
            return tuple(int(rank) for rank in self.spans.names[int(text[0])].split(","))
        return tuple(np.unique(self.runs.rank[runs]).tolist())

    def _schedule_runs(
        self, runs: IntArray, place: IntArray, ranks: int, actions: Actions, beside: Beside
    ) -> ScheduleRuns:
        spans, table = self.spans, self.runs
        numbers, row = np.unique(table.number[runs], return_inverse=True)
        at = row.reshape(-1), place[table.rank[runs]]
        recorded = table.span[runs] >= 0
        shape = (len(numbers), ranks)
        enter, leave = np.full(shape, np.nan), np.full(shape, np.nan)
        inner = at[0][recorded], at[1][recorded]
        enter[inner], leave[inner] = (
            to_seconds(table.start_ns[runs[recorded]]),
            to_seconds(table.end_ns[runs[recorded]]),
        )
        trains, infers = np.zeros(len(numbers), bool), np.zeros(len(numbers), bool)
        of_span = table.span[runs[recorded]]
        np.logical_or.at(trains, inner[0], spans.integers("trains")[of_span] != 0)
        np.logical_or.at(infers, inner[0], spans.integers("infers")[of_span] == 1)
        if not recorded.any():
            np.logical_or.at(trains, np.searchsorted(numbers, actions.step), actions.kind > 0)
        seconds = [np.zeros(shape) for _ in beside]
        for into, (length, run) in zip(seconds, beside, strict=True):
            own = np.flatnonzero(np.isin(run, runs))
            of = np.searchsorted(runs, run[own])
            np.add.at(into, (at[0][of], at[1][of]), length[own])
        return ScheduleRuns(numbers, trains, infers, enter, leave, *seconds)

    def data(self) -> tuple[FloatArray, IntArray]:
        """Seconds of loading data, each time, and the run before which it was, -1 for none."""
        rows, process, start = self._outside("data")
        return self._seconds(rows), latest(self.runs.process, -self.runs.start_ns, process, -start)

    def optimizer(self) -> tuple[FloatArray, IntArray]:
        """Seconds of the steps of optimizers, and the run after which each was."""
        rows, process, start = self._outside("optimizer")
        return self._seconds(rows), latest(self.runs.process, self.runs.start_ns, process, start)

    def gradients(self) -> tuple[FloatArray, IntArray]:
        """Seconds of reductions of gradients after the last action of their run, and the run."""
        last = np.full(len(self.runs), np.iinfo(np.int64).min)
        compute = self.code < len(KINDS)
        np.maximum.at(last, self.placed.run[compute], self.end_ns()[compute])
        chosen = (self.code == _REDUCE_GRAD) & (self.start_ns() >= last[self.placed.run])
        return self._seconds(self.placed.row[chosen]), self.placed.run[chosen]

    def _loads(self) -> tuple[IntArray, IntArray, IntArray]:
        """Loadings of data within runs: run, begin and end. One within another (a loader in an engine) is none."""
        rows = self.spans.rows("data")
        start, end = (column[rows].astype(np.int64) for column in (self.spans.table.start_ns, self.spans.table.end_ns))
        run = containing(self.runs, self.spans.process[rows], start)
        around = latest(run, start, run, start, strictly=True)
        outer = (run >= 0) & ~((around >= 0) & (end[around] >= end)) if len(rows) else run >= 0
        return run[outer], start[outer], end[outer]

    def _outside(self, kind: str) -> tuple[IntArray, IntArray, IntArray]:
        rows = self.spans.rows(kind)
        process, start = self.spans.process[rows], self.spans.table.start_ns[rows].astype(np.int64)
        outside = containing(self.runs, process, start) < 0
        return rows[outside], process[outside], start[outside]

    def _seconds(self, rows: IntArray) -> FloatArray:
        return self.spans.end_s(rows) - self.spans.start_s(rows)
