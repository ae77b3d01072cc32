"""Threads of ranks that hold what their main threads wait for: the interpreter's lock, or a lock of the program.

Python code of one process runs in one thread at a time. A thread that logs, decodes or counts next to the training loop
takes its turns from it, at whatever line the loop has come to: no line of the loop is slow. The time in which a main
thread waits for a thread that runs belongs to what that thread does (:mod:`scalana.graphs.bursts.helper_waits`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.evidence import CodePlace, Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import HALF, NOTHING, CausalProfile
from scalana.detectors.limits.data.loader_pace import Removal
from scalana.detectors.limits.shared_cause import (
    SharedCause,
    all_spend_alike,
    is_worth,
    is_worth_alike,
    place_of_work,
    step_limit,
)
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.source_calls import source_call, source_line
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import burst_locations, own_by_activity, own_by_rank
from scalana.graphs.timeline import Timeline

INTERPRETER, LOCK = "gil-bound", "lock-bound"
_ENTERS = re.compile(r"^\s*(async\s+)?with\b")
"""A line in which a thread waits for one that runs may take a lock of any name."""
_ASKS = re.compile(r"\.(get\(\s*((timeout|block)\s*=.*|True.*)?\)|(result|wait|join|recv|poll)\()")
"""Calls that wait for what another thread hands over."""


def held_locks(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause for the interpreter's lock, and one for locks of the program."""
    stretch, waits, own = facts.stretch, facts.timeline.activities.waits, facts.timeline.own
    if stretch is None or not len(waits.activity):
        return []
    inside = (waits.at_s >= stretch.begin_s) & (waits.at_s <= stretch.end_s)
    of_all = _by_activity(np.where(inside, waits.seconds, 0.0), facts)
    found = []
    for kind, seconds in waiting_s(facts).items():
        waited_s = np.where(inside, seconds, 0.0)
        part = _by_activity(waited_s, facts) / np.maximum(of_all, 1e-300)
        held_s = own.seconds * part[own.activity]
        holders = _Holders(kind, waited_s, part, held_s, stretch.of_main(held_s, facts.timeline))
        if is_worth_alike(own_by_rank(facts.timeline, holders.spent_s), profile):
            found += _cause(holders, stretch, profile, facts)
    return found


@dataclass(frozen=True, slots=True)
class _Holders:
    """What threads do while main threads wait for a lock that they hold."""

    kind: str
    waited_s: FloatArray
    """What is waited for it ``[waits]``."""
    part: FloatArray
    """Which part of what main threads wait for each kind of work is for the lock ``[activities]``."""
    held_s: FloatArray
    """What of own work is such waiting ``[rows of work]``."""
    spent_s: FloatArray
    """What of it main threads do in a step ``[rows of work]``."""


def waiting_s(facts: Facts) -> dict[str, FloatArray]:
    """What main threads wait for the interpreter, and for locks of the program, by the kind of finding: seconds of each
    of their waits for other threads ``[waits]``."""
    waits = facts.timeline.activities.waits
    locks, asks = _lines(facts)
    return {
        INTERPRETER: np.where(locks | asks, 0.0, waits.interpreter_s),
        LOCK: np.where(locks, waits.seconds, 0.0),
    }


def _by_activity(seconds: FloatArray, facts: Facts) -> FloatArray:
    """Seconds of waits for threads, by what these do ``[activities]``."""
    activities = facts.timeline.activities
    return weighted_count(activities.waits.activity, seconds, len(activities))


def _lines(facts: Facts) -> tuple[BoolArray, BoolArray]:
    """Whether main threads take a lock where they wait, by the line, and whether they ask for what another thread hands
    over ``[waits]``."""
    waits, psg = facts.timeline.activities.waits, facts.psg
    lines = [
        source_line(psg[vertex].place.file, line) if 0 <= vertex < len(psg) else ""
        for vertex, line in zip(waits.vertex.tolist(), waits.line.tolist(), strict=True)
    ]
    calls = [source_call(line, rests=True) for line in lines]
    locks = [
        bool(_ENTERS.search(line)) or (call is not None and call.nature == "locking")
        for line, call in zip(lines, calls, strict=True)
    ]
    return np.array(locks, np.bool_), np.array([bool(_ASKS.search(line)) for line in lines], np.bool_)


def _cause(holders: _Holders, stretch: Stretch, profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """The cause, if a step without this waiting is so much shorter."""
    timeline, taken_s = facts.timeline, holders.held_s
    if holders.kind == INTERPRETER:
        taken_s = np.minimum(taken_s + turns_s(stretch, timeline), timeline.own.seconds)
    removal = Removal.of(stretch, facts)
    changes = [removal.of_work(taken_s > 0.0, part * taken_s) for part in (HALF, NOTHING)]
    half_s, without_s = stretch.left_s(changes, facts.replay)
    if not is_worth(without_s, profile):
        return []
    spent_s = own_by_rank(timeline, stretch.of_main(taken_s, timeline))
    of_activity = own_by_activity(timeline, holders.spent_s)
    activities = np.flatnonzero(of_activity > 0.0)
    place, work = place_of_work(activities, of_activity[activities], facts)
    ranks = list(range(timeline.ranks))
    finding = replace(
        finding_at(place, ranks, float(spent_s.sum()) * stretch.steps, facts.psg, holders.kind),
        saving_s=(profile.step_s - without_s) * stretch.steps,
        evidence=Evidence(
            step_limit=step_limit(float(spent_s.mean()), half_s, without_s, profile),
            waits_at=_waits_at(holders.waited_s, facts),
            leaf=leaf_below(place, work, timeline, facts.psg),
            callers=callers(place.vertex, facts.psg),
        ),
        advice=ADVICE[holders.kind],
    )
    mostly = activities[holders.part[activities] >= MAJORITY]
    extent = Extent(tuple(ranks), mostly, np.zeros(0, np.int64))
    return [SharedCause(finding, extent, all_spend_alike(own_by_rank(timeline, holders.spent_s)))]


def turns_s(stretch: Stretch, timeline: Timeline) -> FloatArray:
    """What main threads wait for a core because they wait for the interpreter ``[rows of work]``. A thread that gets
    the interpreter's lock has to get a core as well, again each time: main threads then wait longer for cores, for each
    second that they compute, than in the rest of the run."""
    own, locations = timeline.own, timeline.locations
    location = burst_locations(timeline)[own.burst]
    is_main = locations.is_main[location] & ~timeline.activities.helper[own.activity]
    rank, ranks = locations.rank[location], timeline.ranks

    def of_rank(seconds: FloatArray, part: FloatArray) -> FloatArray:
        return weighted_count(rank, np.where(is_main, seconds * part, 0.0), ranks)

    inside, outside = stretch.row_part, 1.0 - stretch.row_part
    usual_s = of_rank(own.core_wait_s, outside) * of_rank(own.cpu_s, inside)
    waited_s = of_rank(own.core_wait_s, inside) * of_rank(own.cpu_s, outside)
    more = 1.0 - np.divide(usual_s, waited_s, out=np.ones(ranks), where=waited_s > usual_s)
    return np.where(is_main, own.core_wait_s * more[rank], 0.0)


def _waits_at(waited_s: FloatArray, facts: Facts) -> CodePlace | None:
    """Where main threads wait most; ``waited_s`` are the seconds of each wait ``[waits]``."""
    waits, psg = facts.timeline.activities.waits, facts.psg
    rows = np.flatnonzero((waited_s > 0.0) & (waits.vertex > 0))
    if not len(rows):
        return None
    number, first = number_columns(waits.vertex[rows], waits.line[rows])
    most = rows[first[int(np.argmax(weighted_count(number, waited_s[rows], len(first))))]]
    vertex, line = int(waits.vertex[most]), int(waits.line[most])
    return CodePlace(psg[vertex].place.file, line or psg[vertex].place.line, psg.function_of(vertex))
