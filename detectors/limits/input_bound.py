"""Waiting for data that all ranks share, with what more workers of their loaders would bring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, InputBound, Loading
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import advise
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.data.loading_work import loading_work
from scalana.detectors.limits.shared_cause import SharedCause, all_spend_alike, place_of_work
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.sources.data_waits import DataWaits
from scalana.detectors.thresholds.differences import DEAD_BAND
from scalana.detectors.thresholds.factors import COMPARABLE
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, WORTH_IF_ONCE
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations, own_by_rank
from scalana.graphs.steps.window import gap_edges

KIND = "input-bound"
WORKERS = (1, 2, 4, 8)
"""Numbers of workers that are predicted for."""


Savings = Callable[[DataWaits, list[FloatArray], Facts], list[float]]
"""Gives by how much earlier a run ends if some part of each rank's waiting is left, for several such parts, each
``[ranks]``."""


def input_bound(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: ranks that all wait for data."""
    return input_bound_by(saved_s, profile, facts)


def input_bound_by(savings: Savings, profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """The same with another replay."""
    waits = facts.data_waits if profile.has_steps else None
    if waits is None:
        return []
    waiting = waits.wait_s >= MINOR * waits.step_s
    if not waiting.any() or int(waits.workers[waiting].min()) < 0:
        return []
    activities, seconds = loading_work(waits, facts)
    made_s = _made_s(activities, facts, waits)
    # Who waits for the others' data, and whose own workers need most of a step, would wait for these instead.
    if not (waiting | (made_s >= MAJORITY * waits.step_s)).all():
        return []
    helped_s = float(seconds[facts.timeline.activities.helper[activities]].sum())
    if int(waits.workers.max()) > 0 and helped_s < MAJORITY * float(seconds.sum()):
        return []  # not for batches that are made, but for their way here, or for a core
    finding = _finding(waits, (activities, seconds), savings, facts)
    extent = Extent(tuple(finding.ranks), activities, np.zeros(0, np.int64))
    alike = float(waits.wait_s.max()) <= COMPARABLE * float(np.median(waits.wait_s))
    return [SharedCause(finding, extent, alike or (all_spend_alike(made_s) and bool((made_s > 0.0).all())))]


def _made_s(activities: IntArray, facts: Facts, waits: DataWaits) -> FloatArray:
    """What the workers of each rank need for the batch of a step, also where nobody waits for it; 0 without workers
    ``[ranks]``. They are there for all steps."""
    table = facts.timeline.activities
    vertices = np.unique(table.vertex[activities[table.helper[activities]]])
    vertices = vertices[(vertices >= 0) & (vertices < len(facts.psg))]
    busy_s = facts.ppg.metrics["helper_s"][vertices, : facts.timeline.ranks].sum(axis=0)
    steps = len(facts.steps) if facts.steps is not None else 1
    return np.asarray(busy_s / steps / max(int(waits.workers.max()), 1))


def _finding(waits: DataWaits, spent: tuple[IntArray, FloatArray], savings: Savings, facts: Facts) -> Finding:
    """The finding. ``spent`` are the activities that make up the waiting, and the seconds of each."""
    psg, (activities, seconds) = facts.psg, spent
    place, work = loading_place(activities, seconds, waits, facts)
    here = psg[place.vertex].place
    line, end_line = place.lines(here)
    loading = loading_at(waits.rows, facts)
    core_s = _core_s(activities, facts, waits)
    busiest = int(np.argmax(core_s)) if core_s.any() else None
    cores = 0 if busiest is None else facts.run.cores.count([busiest])
    unused = 0 if busiest is None else facts.run.cores.unused(busiest)
    step_s = float(np.median(waits.step_s))
    more = [workers for workers in WORKERS if workers > int(waits.workers.max())]
    saved_s = savings(waits, [waits.left(workers, core_s) for workers in more], facts)
    most_s = max(step_s - float(core_s.max(initial=0.0)), 0.0)
    saved = zip(more, (min(seconds / waits.steps, most_s) for seconds in saved_s), strict=True)
    worth = {workers: saving_s for workers, saving_s in saved if saving_s >= WORTH_IF_ONCE * step_s}
    best_s = max(worth.values(), default=0.0)
    enough = [workers for workers, saving_s in worth.items() if saving_s >= (1.0 - DEAD_BAND) * best_s]
    told = {workers: step_s - saving_s for workers, saving_s in worth.items() if workers <= enough[0]} if worth else {}
    waited_s = np.where(waits.wait_s >= MINOR * waits.step_s, waits.wait_s, waits.wait_s.max())  # for others' data
    bound = InputBound(step_s, float(np.median(waited_s)), list(told), list(told.values()))
    return Finding(
        kind=KIND,
        vertex=place.vertex,
        file=here.file,
        line=line,
        end_line=max(line, end_line),
        function=psg.function_of(place.vertex),
        vertex_kind=psg[place.vertex].kind.value,
        ranks=list(range(facts.timeline.ranks)),
        lost_s=float(waits.wait_s.sum()) * waits.steps,
        lost_share=0.0,
        saving_s=best_s * waits.steps,
        evidence=Evidence(
            loading=loading,
            input_bound=bound,
            leaf=leaf_below(place, work, facts.timeline, psg),
            callers=callers(place.vertex, psg),
        ),
        advice=advise(bound, cores, unused),
    )


def loading_at(rows: IntArray, facts: Facts) -> Loading:
    """The loader in which was waited longest, of some spans of waiting for data."""
    spans = facts.ppg.spans
    longest = rows[int(np.argmax(spans.end_s(rows) - spans.start_s(rows)))]
    workers, data_set = int(spans.integers("workers")[longest]), int(spans.texts("dataset")[longest])
    return Loading(workers if workers >= 0 else None, spans.names[data_set] if data_set >= 0 else None)


def loading_place(
    activities: IntArray, seconds: FloatArray, waits: DataWaits, facts: Facts
) -> tuple[CodeLocation, list[tuple[int, float]]]:
    """The place that holds most of the work, else where the data are asked for; and the work that is named by it."""
    if not len(activities):
        row, spans = waits.rows[0], facts.ppg.spans
        return CodeLocation(TargetKind.OWN, int(spans.vertex[row]), int(spans.line[row])), []
    return place_of_work(activities, seconds, facts)


def _core_s(activities: IntArray, facts: Facts, waits: DataWaits) -> FloatArray:
    """What the cores of each rank take at least for a step of all that share them ``[ranks]``; 0 where it is not
    known."""
    run, own = facts.run, facts.timeline.own
    vertices = np.unique(facts.timeline.activities.vertex[activities])
    vertices = vertices[(vertices >= 0) & (vertices < len(facts.psg))]
    itself_s = own_by_rank(facts.timeline, np.where(np.isin(own.activity, activities), own.cpu_s, 0.0))
    helpers_s = np.asarray(facts.ppg.metrics["helper_cpu_s"][vertices].sum(axis=0))
    steps = len(facts.steps) if facts.steps is not None else 1
    need_s = (itself_s + helpers_s) / max(steps, 1) + (waits.step_s - waits.wait_s)
    # Without workers a rank loads below these activities: what it computes in its steps is needed in any case.
    need_s = np.maximum(need_s, _main_cpu_s(facts) + helpers_s / max(steps, 1))
    return run.cores.least_s(need_s)


def _main_cpu_s(facts: Facts) -> FloatArray:
    """CPU seconds of the main thread of each rank in a step of the steady state ``[ranks]``."""
    stretch, timeline = facts.stretch, facts.timeline
    if stretch is None:
        return np.zeros(timeline.ranks)
    return own_by_rank(timeline, stretch.of_main(timeline.own.cpu_s, timeline))


def saved_s(waits: DataWaits, left: list[FloatArray], facts: Facts) -> list[float]:
    """By how much earlier the run ends if only some part of each rank's waiting is left, for several such parts, each
    ``[ranks]``."""
    spans, timeline = facts.ppg.spans, facts.timeline
    if timeline.ranks == 1:
        return [float((waits.wait_s * (1.0 - part)).sum()) * waits.steps for part in left]
    if not left:
        return []
    begin_s, end_s = gap_edges(timeline)
    waited_s = np.zeros(len(begin_s))
    calls = timeline.calls
    for rank in range(timeline.ranks):
        location = int(np.flatnonzero(timeline.locations.rank == rank)[0])
        first, last = int(calls.first[location]), int(calls.first[location + 1])
        bursts = np.append(np.arange(first, last), len(calls) + location)
        rows = waits.rows[waits.rank == rank]
        start, end = spans.start_s(rows), spans.end_s(rows)
        at = np.clip(np.searchsorted(end_s[bursts], (start + end) / 2), 0, len(bursts) - 1)
        inside = np.minimum(end, end_s[bursts[at]]) - np.maximum(start, begin_s[bursts[at]])
        np.add.at(waited_s, bursts[at], np.maximum(inside, 0.0))
    rank_of = timeline.locations.rank[burst_locations(timeline)]
    changes = [Change.of(waited_s * (1.0 - part[rank_of])) for part in left]
    measured_s, changed_s = facts.replay.run_ends_s(changes)
    return [max(measured_s - ends_s, 0.0) for ends_s in changed_s]
