"""What is known about a finding besides its seconds: how much slower, how often, on a CPU or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.choices import with_alternatives
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Alternative, CodePlace, CpuSplit, Evidence, LargeTasks, LibraryPlace, PlaceTime
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.leaf import leaf_of
from scalana.detectors.rollup.library_calls import library_place
from scalana.detectors.rollup.peers import are_alike, peers_of
from scalana.detectors.rollup.place_time import PlaceSeconds, place_time, times_run
from scalana.detectors.thresholds.certainty import MORE_SAMPLES
from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, NEXT_TO_NOTHING
from scalana.detectors.whatif.changes import IntervalExcess, comparisons_blamed, interval_excess
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline


def computes_more(candidate: Candidate) -> bool:
    """Whether the candidate's ranks use far more CPU at its place than the others.

    Where ranks share cores, who computes more waits more for a core too: that wait is then not the cause.
    """
    timeline = candidate.blamed.timeline
    cpu = place_time(candidate).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    return bool((~here).any()) and float(cpu[here].mean()) > FAR_MORE * float(cpu[~here].mean())


def may_compute_more(candidate: Candidate) -> bool:
    """Whether samples tell that the candidate's ranks use more CPU at its place over the run than the others, each of
    them worth a period; their numbers vary by their roots. Samples in single stretches, chosen for being long, do not
    tell that."""
    timeline = candidate.blamed.timeline
    cpu = place_time(candidate).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    if here.all():
        return True
    variance = timeline.period_s * (cpu[here].mean() / here.sum() + cpu[~here].mean() / (~here).sum())
    return float(cpu[here].mean() - cpu[~here].mean()) >= MORE_SAMPLES * float(np.sqrt(variance))


def occurrences(candidate: Candidate) -> int:
    """Instances in which the candidate was blamed."""
    run = candidate.blamed
    table = run.table
    groups = table.groups
    blamed = comparisons_blamed(np.unique(table.target[candidate.entries]), table)
    blamed &= np.isin(groups.comparison_culprit, table.location[candidate.entries])
    return len(np.unique(table.intervals.instance[blamed[groups.comparison]]))


def describe(candidate: Candidate, excess: IntervalExcess | None) -> Evidence:
    """Evidence for the report. Seconds are means over the finding's ranks, and over the others.

    ``excess`` is the candidate's, of one on own work.
    """
    run = candidate.blamed
    timeline, psg = run.timeline, run.psg
    evidence = Evidence(occurrences=occurrences(candidate))
    if candidate.code_location.kind != TargetKind.OWN or excess is None:
        return evidence
    time = place_time(candidate)
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    wall = float(time.wall_s[here].mean())
    shares, leaf, place = excess.shares(), leaf_of(candidate), _place_time(candidate, time, here)
    return replace(
        evidence,
        place=replace(place, others_elsewhere=True) if leaf is not None and _elsewhere(candidate, place) else place,
        whole_role=are_alike(here, time.wall_s, timeline),
        caused_s=_caused_s(candidate) if here.all() else None,
        cpu=CpuSplit(*shares, excess.asleep) if shares is not None else None,
        large_tasks=LargeTasks(len(excess.over_s), float(excess.over_s.sum())) if excess.of_pieces else None,
        helper_share=float(time.helper_s[here].mean()) / wall if wall > 0.0 else None,
        waits_at=waits_at(candidate),
        instead=alternative(candidate),
        leaf=leaf,
        callers=callers(candidate.code_location.vertex, psg),
        library=_library(candidate.code_location.vertex, psg),
    )


def _caused_s(candidate: Candidate) -> list[float]:
    """What each rank of a candidate makes others wait for at its place, in rank-seconds."""
    run = candidate.blamed
    table, timeline = run.table, run.timeline
    rank = timeline.locations.rank[table.location[candidate.entries]]
    caused_s = weighted_count(rank, table.seconds[candidate.entries], timeline.ranks)
    return [float(seconds) for seconds in caused_s[candidate.ranks]]


def _place_time(candidate: Candidate, time: PlaceSeconds, here: BoolArray) -> PlaceTime:
    """What the candidate's ranks spend at its place, and the others that they are compared with."""
    run = candidate.blamed
    timeline, psg = run.timeline, run.psg
    wall = float(time.wall_s[here].mean())
    if here.all():
        return PlaceTime(wall)
    peers = peers_of(here, time.wall_s, timeline)
    others = float(time.wall_s[peers].mean())
    runs_here, runs_others = times_run(candidate.code_location.vertex, here, timeline, psg) or (None, None)
    return PlaceTime(
        seconds_here=wall,
        seconds_others=others,
        ratio=wall / others if others > 0.0 else float("nan"),
        cpu_here=float(time.cpu_s[here].mean()),
        cpu_others=float(time.cpu_s[peers].mean()),
        runs_here=runs_here,
        runs_others=runs_others,
    )


def _elsewhere(candidate: Candidate, place: PlaceTime) -> bool:
    """Whether other ranks are hardly ever at a candidate's place itself, but do the same in calls at other lines."""
    run = candidate.blamed
    timeline, own = run.timeline, run.timeline.own
    others = timeline.ranks - len(candidate.ranks)
    if not place.seconds_others or not others:
        return False
    rank = timeline.locations.rank[burst_locations(timeline)[own.burst]]
    there = np.isin(own.activity, run.table.target[candidate.entries]) & (own.samples > 0)
    there_s = float(own.seconds[there & ~np.isin(rank, candidate.ranks)].sum()) / others
    return there_s <= NEXT_TO_NOTHING * place.seconds_others


def _library(vertex: int, psg: PSG) -> LibraryPlace | None:
    """The place in a library that a vertex is a part of."""
    inside = library_place(vertex, psg)
    if inside is None:
        return None
    called = psg[vertex].place.name  # of a line of a model's, it is not known what
    return LibraryPlace(inside.file, inside.line, inside.name, called if called != inside.name else "")


def waits_at(candidate: Candidate) -> CodePlace | None:
    """Where ranks wait while a thread or child of theirs does what a candidate is about, as for a lock that it holds;
    None where it is not about that."""
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    activities = timeline.activities
    target, seconds = table.target[candidate.entries], table.seconds[candidate.entries]
    helped = activities.helper[target]
    if not len(activities.waits_vertex) or float(seconds[helped].sum()) <= MAJORITY * float(seconds.sum()):
        return None
    most = int(np.bincount(target[helped].astype(np.int64), seconds[helped]).argmax())
    vertex, line = int(activities.waits_vertex[most]), int(activities.waits_line[most])
    if vertex <= 0 or vertex == candidate.code_location.vertex:
        return None
    place = psg[vertex].place
    return CodePlace(place.file, line or place.line, psg.function_of(vertex))


def balanced_saving_s(finding: Finding, ranks: int) -> float | None:
    """By how much the run would be shorter if what a finding's ranks compute more were spread over all ranks, who do
    the same: they keep their part of it. None where that is next to all of the saving, or where it is no such work."""
    place, (cpu, core_wait) = finding.evidence.place, finding.evidence.cpu_split()
    if finding.kind != "late-ranks" or place is None or not place.seconds_others:
        return None
    kept = len(finding.ranks) / ranks
    computes = (cpu or 0.0) + (core_wait or 0.0) >= MAJORITY and finding.evidence.large_tasks is None
    more = place.seconds_others >= MINOR * place.seconds_here and place.seconds_here > place.seconds_others
    return (1.0 - kept) * finding.saving_s if computes and more and MINOR <= kept < 1.0 and finding.saving_s else None


def alternative(candidate: Candidate) -> Alternative | None:
    """What other ranks do instead of a candidate's, if they do so in the stretches in which that delays them: the
    largest place, and the seconds of all in the whole run; None where it is minor."""
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    targets = np.unique(table.target[candidate.entries])
    compared = with_alternatives(targets, candidate.ranks, table.choice, timeline)
    others = timeline.ranks - len(candidate.ranks)
    if len(compared) == len(targets) or not others:
        return None
    in_place_of = _not_done_by(candidate.ranks, np.setdiff1d(compared, targets), timeline)
    done = interval_excess(candidate, in_place_of)
    theirs = ~np.isin(timeline.locations.rank[done.location], candidate.ranks)
    if float(done.did_s[theirs].sum()) < MINOR * candidate.lost_s:
        return None
    own = timeline.own
    activity_s = weighted_count(own.activity, own.seconds, len(timeline.activities))[in_place_of]
    most, seconds = int(in_place_of[activity_s.argmax()]), float(activity_s.sum()) / others
    vertex, line = int(timeline.activities.vertex[most]), int(timeline.activities.line[most])
    place = psg[vertex].place
    return Alternative(place.file, line or place.line, psg.function_of(vertex), seconds)


def _not_done_by(ranks: list[int], activities: IntArray, timeline: Timeline) -> IntArray:
    """Those of some activities that some ranks hardly do."""
    own = timeline.own
    here = np.isin(timeline.locations.rank[burst_locations(timeline)[own.burst]], ranks)
    here_s, all_s = (weighted_count(own.activity, own.seconds * part, len(timeline.activities)) for part in (here, 1.0))
    return activities[here_s[activities] <= NEXT_TO_NOTHING * all_s[activities]]
