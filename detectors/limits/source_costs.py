"""Places that limit a step, and whose source or record says what they do: collect garbage, write, wait for locks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import CausalProfile, PlaceProfile
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_even, is_shared, is_worth
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.source_calls import source_call, source_line
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.samples.collected import collector_vertex

KIND_OF = {
    "collecting": "collection-bound",
    "writing": "write-bound",
    "locking": "lock-bound",
    "pickling": "pickle-bound",
    "starting programs": "program-bound",
    "reading": "read-bound",
}
"""Kinds of findings, by what a line does (:mod:`scalana.detectors.source_calls`). A line that sleeps is none: that is
how programs stand in for hardware which they lack."""


def source_costs(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """The places at which all ranks spend what a step could do without."""
    timeline, found = facts.timeline, []
    of_activity = weighted_count(timeline.own.activity, timeline.own.seconds, len(timeline.activities))
    for place in profile.places:
        if place.is_transfer or not is_shared(place) or not is_worth(place.without_s, profile):
            continue
        kind = _kind(place, of_activity, facts)
        if kind and not _in_turn(place, profile, facts):
            finding = finding_of_place(kind, place, profile, facts)
            work = zip(place.activities.tolist(), of_activity[place.activities].tolist(), strict=True)
            evidence = replace(finding.evidence, leaf=leaf_below(place.location, work, timeline, facts.psg))
            extent = Extent(tuple(finding.ranks), place.activities, np.zeros(0, np.int64))
            found.append(SharedCause(replace(finding, evidence=evidence, advice=ADVICE[kind]), extent, is_even(place)))
    return found


def _in_turn(place: PlaceProfile, profile: CausalProfile, facts: Facts) -> bool:
    """Whether ranks collect garbage in turn, or some more than others, so that they wait for each other: that is
    another finding."""
    saved_s = profile.step_s - place.without_s
    collects = place.location.vertex == collector_vertex(facts.psg)
    return collects and (saved_s > (1.0 + ORDINARY) * float(place.seconds.max()) or not is_even(place))


def _kind(place: PlaceProfile, of_activity: FloatArray, facts: Facts) -> str:
    """What a place does, as a kind of finding; "" where that is the work of the program, or not known. ``of_activity``
    are the seconds of each kind of own work ``[activities]``."""
    if place.location.vertex == collector_vertex(facts.psg):
        return KIND_OF["collecting"]
    rests = place.mean_s - place.cpu_s - place.core_wait_s >= MAJORITY * place.mean_s
    call = source_call(_source(place, of_activity, facts), rests)
    return KIND_OF.get(call.nature, "") if call is not None else ""


def _source(place: PlaceProfile, of_activity: FloatArray, facts: Facts) -> str:
    """The line of a place, that at which most of its time is spent, which may be in a function that it calls, and the
    name of its own function as a call: it may say what it does."""
    psg, table = facts.psg, facts.timeline.activities
    here = psg[place.location.vertex].place
    first, last = place.location.lines(here)
    inner = int(place.activities[int(np.argmax(of_activity[place.activities]))])
    vertex, line = int(table.vertex[inner]), int(table.line[inner])
    within = source_line(psg[vertex].place.file, line) if 0 <= vertex < len(psg) else ""
    name = psg.function_of(place.location.vertex)
    return (source_line(here.file, first) if first == last else "") + within + f"{name}()"
