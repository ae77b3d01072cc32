"""The steady state of a run, apart from start-up and end: where its rank-seconds went, and what lies outside of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.limits import RANKS_AT_ONCE
from scalana.graphs.arrays.shards import chunks, each
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import add_to, idle_takes, no_metrics
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.window import gap_edges, row_parts
from scalana.graphs.timeline import Timeline

_OUTSIDE = ("time_s", "stall_s", "core_wait_s", "comm_s", "wait_s")


@dataclass(frozen=True, slots=True)
class Steady:
    """What the ranks did in the steps of the steady state, and what they did besides."""

    time: TimeSplit
    """Rank-seconds of the steady state; the parts add up to the seconds of all ranks in these steps."""
    outside: dict[str, FloatArray]
    """What of some metrics lies outside the steady state, each ``[vertices, ranks]``."""


def steady_state(timeline: Timeline, waits: WaitStates, periods: Periods, vertices: int) -> Steady:
    """Divide the time of every rank by whether it lies in ``periods``.

    Work between calls that reaches over an edge is divided by when it was seen, and where that is not known in
    proportion to time. Waiting is at the beginning of a call. Cost: linear in calls and rows of own work.
    """
    metrics = no_metrics(vertices, timeline.ranks)
    outside = {name: metrics[name] for name in _OUTSIDE}
    edges, wait_s = gap_edges(timeline), waits.all_s(timeline)
    parts = each(
        lambda ranks: _of_ranks(timeline, wait_s, edges, periods, outside, ranks),
        chunks(timeline.ranks, RANKS_AT_ONCE),
    )
    work, own, wait, inside = np.sum(parts, axis=0).tolist() if parts else (0.0,) * 4
    recorded = np.zeros(timeline.ranks, np.bool_)
    recorded[timeline.locations.rank] = True
    total = float(periods.rank_s()[recorded].sum())
    wait = min(wait, inside)
    time = TimeSplit(work, own - work, wait, inside - wait, max(total - own - inside, 0.0))
    return Steady(time, outside)


def _of_ranks(
    timeline: Timeline,
    wait_s: FloatArray,
    edges: tuple[FloatArray, FloatArray],
    periods: Periods,
    outside: dict[str, FloatArray],
    ranks: slice,
) -> tuple[float, float, float, float]:
    """Add what some ranks did outside the periods; returns their seconds of work, between calls, of waiting and in
    calls inside, those of main threads."""
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    at = np.searchsorted(locations.rank, [ranks.start, ranks.stop])
    made = slice(*calls.first[at].tolist())
    # Calls: the part of each, and of its waiting, that lies inside.
    location = calls.location[made]
    rank, main = locations.rank[location], locations.is_main[location]
    enter, leave, wait = calls.enter_s[made], calls.exit_s[made], wait_s[made]
    scale = timeline.unwritten.stands_for[made] if timeline.unwritten is not None else 1.0
    inside_s = periods.inside_s(rank, enter, leave)
    written_wait = np.minimum(wait / scale, leave - enter)
    wait_inside = periods.inside_s(rank, enter, enter + written_wait) * scale
    beyond = np.flatnonzero((leave - enter) - inside_s > 0.0)
    vertex = calls.vertex[made][beyond]
    out_s = np.where(idle_takes(timeline, made), 0.0, (leave - enter) - inside_s)[beyond]
    add_to(outside["comm_s"], vertex, rank[beyond], out_s)
    add_to(outside["time_s"], vertex, rank[beyond], np.where(main[beyond], out_s, 0.0))
    add_to(outside["wait_s"], vertex, rank[beyond], np.maximum(wait - wait_inside, 0.0)[beyond])
    in_calls, waiting = float(inside_s[main].sum()), float(wait_inside[main].sum())
    work = between = 0.0
    behind = slice(len(calls) + int(at[0]), len(calls) + int(at[1]))
    for bursts, of in ((made, location), (behind, np.arange(*at))):
        rows = slice(*np.searchsorted(own.burst, [bursts.start, bursts.stop]).tolist())
        since, until = edges[0][bursts], edges[1][bursts]
        burst_s = periods.inside_s(locations.rank[of], since, until)
        part = np.clip(burst_s / np.maximum(until - since, 1e-300), 0.0, 1.0)
        worked, held = _add_own(
            timeline,
            rows,
            of[own.burst[rows] - bursts.start],
            _parts(timeline, rows, part, bursts.start, periods),
            outside,
        )
        work, between = work + worked, between + held
        if timeline.unwritten is not None:
            in_calls += float((timeline.unwritten.burst_s[bursts] * part)[locations.is_main[of]].sum())
    return work, between, waiting, in_calls


def _parts(timeline: Timeline, rows: slice, of_burst: FloatArray, first_gap: int, periods: Periods) -> FloatArray:
    """Which part of some rows of own work lies inside, by the parts of the bursts from ``first_gap`` on ``[rows]``."""
    own = timeline.own
    seen = slice(*np.searchsorted(own.seen_row, [rows.start, rows.stop]).tolist())
    burst, since, until = own.burst[own.seen_row[seen]], own.seen_s[seen, 0], own.seen_s[seen, 1]
    calls = len(timeline.calls)
    location = np.where(burst < calls, 0, burst - calls)
    location[burst < calls] = timeline.calls.location[burst[burst < calls]]
    inside = periods.inside_s(timeline.locations.rank[location], since, until) / (until - since)
    return row_parts(own, rows, of_burst[own.burst[rows] - first_gap], inside)


def _add_own(
    timeline: Timeline, rows: slice, location: IntArray, inside: FloatArray, outside: dict[str, FloatArray]
) -> tuple[float, float]:
    """Add what of some rows of own work lies outside; returns the seconds on a CPU, and all, that lie inside. Location
    and the part that lies ``inside`` are those of the rows ``[rows]``."""
    own, locations = timeline.own, timeline.locations
    main = locations.is_main[location]
    seconds, cpu_s, core_wait_s = own.seconds[rows], own.cpu_s[rows], own.core_wait_s[rows]
    worked = float((np.minimum(cpu_s, seconds) * inside)[main].sum())
    held = float((seconds * inside)[main].sum())
    beyond = np.flatnonzero(main & (inside < 1.0))
    out = 1.0 - inside[beyond]
    vertex = timeline.activities.vertex[own.activity[rows][beyond]]
    rank = locations.rank[location[beyond]]
    seconds, cpu_s, core_wait_s = seconds[beyond] * out, cpu_s[beyond] * out, core_wait_s[beyond] * out
    add_to(outside["time_s"], vertex, rank, seconds)
    add_to(outside["core_wait_s"], vertex, rank, core_wait_s)
    add_to(outside["stall_s"], vertex, rank, np.maximum(seconds - cpu_s - core_wait_s, 0.0))
    return worked, held


STEADY: SectionName[Steady] = SectionName("steady")
"""Where the run shows steps."""
