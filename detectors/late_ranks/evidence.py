"""What is known about a finding besides its seconds: how much slower, how often, on a CPU or not."""

from __future__ import annotations

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.leaf import leaf_of
from scalana.detectors.rollup.library_calls import library_place
from scalana.detectors.rollup.place_time import place_time, times_run
from scalana.detectors.whatif.changes import IntervalExcess, comparisons_blamed
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline

FAR_MORE = 2.0
"""So many times the CPU seconds of other ranks are another amount of work, not another share of a core."""
MOSTLY = 0.5
"""Part of a cause that helpers of ranks do, from which it is these that ranks wait for."""
CERTAIN = 2.0
"""Standard deviations of the number of samples that an excess of CPU time must have, to be more computing."""


def computes_more(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> bool:
    """Whether the candidate's ranks use far more CPU at its place than the others.

    Where ranks share cores, who computes more waits more for a core too: that wait is then not the cause.
    """
    cpu = place_time(candidate, table, timeline, psg).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    return bool((~here).any()) and float(cpu[here].mean()) > FAR_MORE * float(cpu[~here].mean())


def may_compute_more(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> bool:
    """Whether samples tell that the candidate's ranks use more CPU at its place over the run than the others, each of
    them worth a period; their numbers vary by their roots. Samples in single stretches, chosen for being long, do not
    tell that."""
    cpu = place_time(candidate, table, timeline, psg).cpu_s
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    if here.all():
        return True
    variance = timeline.period_s * (cpu[here].mean() / here.sum() + cpu[~here].mean() / (~here).sum())
    return float(cpu[here].mean() - cpu[~here].mean()) >= CERTAIN * float(np.sqrt(variance))


def occurrences(candidate: Candidate, table: BlameTable) -> int:
    """Instances in which the candidate was blamed."""
    groups = table.groups
    blamed = comparisons_blamed(np.unique(table.target[candidate.entries]), table)
    blamed &= np.isin(groups.comparison_culprit, table.location[candidate.entries])
    return len(np.unique(table.intervals.instance[blamed[groups.comparison]]))


def describe(
    candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG, excess: IntervalExcess | None
) -> dict[str, object]:
    """Evidence for the report. Seconds are means over the finding's ranks, and over the others.

    ``excess`` is the candidate's, of one on own work.
    """
    evidence: dict[str, object] = {"occurrences": occurrences(candidate, table)}
    if candidate.code_location.kind != TargetKind.OWN or excess is None:
        return evidence
    time = place_time(candidate, table, timeline, psg)
    here = np.isin(np.arange(timeline.ranks), candidate.ranks)
    wall = float(time.wall_s[here].mean())
    others = float(time.wall_s[~here].mean()) if (~here).any() else None
    evidence["seconds_here"] = wall
    if others is not None:
        evidence["seconds_others"] = others
        evidence["ratio"] = wall / others if others > 0.0 else None
        evidence["cpu_here"], evidence["cpu_others"] = float(time.cpu_s[here].mean()), float(time.cpu_s[~here].mean())
        runs = times_run(candidate.code_location.vertex, here, timeline, psg)
        if runs is not None:
            evidence["runs_here"], evidence["runs_others"] = runs
    shares = excess.shares()
    if shares is not None:
        evidence["cpu_share"], evidence["core_wait_share"] = shares
        evidence["sleeps"] = excess.asleep
    if excess.of_pieces:
        evidence["large_tasks"], evidence["large_tasks_over_s"] = len(excess.over_s), float(excess.over_s.sum())
    if wall > 0.0:
        evidence["helper_share"] = float(time.helper_s[here].mean()) / wall
    held_up_at = waits_at(candidate, table, timeline, psg)
    if held_up_at is not None:
        evidence["waits_at"] = held_up_at
    leaf = leaf_of(candidate, table, timeline, psg)
    if leaf is not None:
        evidence["leaf"] = leaf
    evidence["callers"] = callers(candidate.code_location.vertex, psg)
    inside = library_place(candidate.code_location.vertex, psg)
    if inside is not None:
        called = psg[candidate.code_location.vertex].place.name  # of a line of a model's, it is not known what
        told = called if called != inside.name else ""
        evidence["library"] = {"file": inside.file, "line": inside.line, "function": inside.name, "calls": told}
    return evidence


def waits_at(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG) -> dict[str, object] | None:
    """Where ranks wait while a thread or child of theirs does what a candidate is about, as for a lock that it holds;
    None where it is not about that."""
    activities = timeline.activities
    target, seconds = table.target[candidate.entries], table.seconds[candidate.entries]
    helped = activities.helper[target]
    if not len(activities.waits_vertex) or float(seconds[helped].sum()) <= MOSTLY * float(seconds.sum()):
        return None
    most = int(np.bincount(target[helped].astype(np.int64), seconds[helped]).argmax())
    vertex, line = int(activities.waits_vertex[most]), int(activities.waits_line[most])
    if vertex <= 0 or vertex == candidate.code_location.vertex:
        return None
    place = psg[vertex].place
    return {"file": place.file, "line": line or place.line, "function": psg.function_of(vertex)}
