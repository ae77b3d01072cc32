"""What of an excess is the machine's doing: where ranks share cores, they wait for their turns on them.

Who computes more than the others waits more for a core as well, and that belongs to what it computes: as many seconds
as a second on a CPU costs on the average of the run. What is waited beyond that came by chance, and on another line the
next time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.served import all_recorded_s
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.finding import Finding
from scalana.detectors.rollup.candidates import Candidate, join_entries
from scalana.detectors.thresholds.counts import SHOWS_THE_USUAL
from scalana.detectors.thresholds.factors import COMPARABLE
from scalana.detectors.thresholds.shares import (
    CORES_SHARED,
    IN_PART,
    MAJORITY,
    SUBSTANTIAL,
    VANISHING,
    WORTH_A_FINDING,
    WORTH_IF_ONCE,
    WORTH_IF_UNSTEADY,
)
from scalana.detectors.whatif.changes import IntervalExcess, excess_of, interval_excess
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.run_info import RunInfo
from scalana.graphs.timeline import Timeline

LATENCY_S, BYTES_PER_S = 1e-3, 2e6
"""What a call takes at most to move its payload, on any network, where every rank has a core: so long, and so fast."""


NOT_OF_WORK = ("slow-transfer", "unresolved")
"""Kinds of findings that blame calls, and no work between them."""


@dataclass(slots=True)
class CoreContention:
    """How ranks got on with the cores."""

    oversubscribed: bool
    per_cpu: float
    """Seconds that ranks waited for a core, for each second of own work on one; 0 where they did not share any."""

    @classmethod
    def of(cls, timeline: Timeline) -> CoreContention:
        """Add up a run's own work."""
        own = timeline.own
        wait_s, cpu_s = float(own.core_wait_s.sum()), float(own.cpu_s.sum())
        oversubscribed = wait_s > CORES_SHARED * float(own.seconds.sum())
        return cls(oversubscribed, wait_s / cpu_s if oversubscribed and cpu_s > 0.0 else 0.0)

    def programs_part(self, excess: IntervalExcess, computing: bool = True) -> float:
        """Part of an excess that is due to the program, by its time on a CPU, waiting for one, and off it; of its time
        on a CPU nothing if it is known to be no more ``computing`` than others do.

        What came by chance cancels: who computes more in one stretch, and less in the next, does not compute more.
        Sleep does not come by chance: ranks that take turns at a lock, or hand on a token, all sleep alike in the end.
        """
        late = excess.over_s > 0.0
        late_s = float(excess.over_s[late].sum())
        if not self.oversubscribed or late_s <= 0.0:
            return 1.0
        cpu_s, of_sleep = float(excess.over_cpu_s.sum()), excess.over_s - excess.over_cpu_s - excess.over_core_wait_s
        cpu_s = cpu_s if computing else 0.0
        asleep_s = float(np.maximum(of_sleep[late], 0.0).sum() if excess.asleep else of_sleep.sum())
        return min(1.0, (max(cpu_s, 0.0) * (1.0 + self.per_cpu) + max(asleep_s, 0.0)) / late_s)


def computes_in_turn(excess: IntervalExcess) -> bool:
    """Whether what is late from time to time does more work then: not if it lacks a core for most of what it takes
    longer, and computes but a little longer than is usual, as one does on a slow core.

    It is the stretches on slow cores that are late, so that what they compute longer does not cancel.
    """
    shares = excess.shares()
    if excess.of_pieces or shares is None:
        return True
    cpu, core_wait = shares
    return core_wait <= cpu or excess.times_usual() >= COMPARABLE


def _whole(finding: Finding) -> float:
    del finding
    return 1.0


def without_turns(
    findings: list[Finding], timeline: Timeline, run: RunInfo, part_of: Callable[[Finding], float] = _whole
) -> list[Finding]:
    """The findings, but for those that turns on shared cores explain (a warning of the report speaks of these).
    ``part_of`` gives the part of the run that a finding is compared with."""
    contention, outnumbered, whole_s = CoreContention.of(timeline), set(run.cores.sharing()), all_recorded_s(timeline)
    return [one for one in findings if not _is_turns(one, contention, outnumbered, run.ranks, part_of(one) * whole_s)]


def _is_turns(
    finding: Finding, contention: CoreContention, outnumbered: set[int], ranks: int, recorded_s: float
) -> bool:
    if finding.evidence.turns is not None:  # those that the program has its ranks take
        return False
    if finding.kind == "waiting-for-core":
        if len(finding.ranks) > ranks / 2 or set(finding.ranks) <= outnumbered:
            return True
        # Who shares a core with another program, or has one too few, lacks it on average, or in one long stretch.
        steady, spread = finding.evidence.steady_share, finding.evidence.sync_intervals
        return steady is not None and spread is not None and steady < MAJORITY and spread >= SHOWS_THE_USUAL
    # Ranks that hardly compute between their calls take turns on the cores inside of these: own work does not show it.
    if not contention.oversubscribed and not (finding.kind in NOT_OF_WORK and set(finding.ranks) <= outnumbered):
        return False
    if finding.kind == "slow-transfer":  # what moves data has no core either
        return True
    if finding.kind == "unresolved":  # in calls, too, ranks wait for their turns
        if finding.saving_s < WORTH_A_FINDING * recorded_s / ranks:
            return True  # it goes on with the next turn
        if len(finding.ranks) > ranks / 2 and set(finding.ranks) <= outnumbered:
            return True
        return finding.lost_s < WORTH_IF_ONCE * (1.0 + contention.per_cpu) * recorded_s
    intervals, (cpu, core_wait) = finding.evidence.sync_intervals, finding.evidence.cpu_split()
    if intervals is None or cpu is None or core_wait is None:
        return False
    asleep = cpu + core_wait < IN_PART
    explained = cpu * (1.0 + contention.per_cpu)
    if finding.evidence.sleeps:
        explained += 1.0 - cpu - core_wait
    if len(finding.ranks) > ranks / 2 and core_wait > max(IN_PART, 2.0 * cpu) and explained < 0.5:
        return True
    worth = (
        WORTH_A_FINDING
        if intervals >= SHOWS_THE_USUAL and (asleep or alone(finding) or does_more(finding))
        else WORTH_IF_UNSTEADY
    )
    programs = finding.evidence.programs_share
    return (programs if programs is not None else 1.0) * finding.lost_s < worth * recorded_s


def alone(finding: Finding) -> bool:
    """Whether only the ranks of a finding spend time at its place, beside which that of others is little."""
    place = finding.evidence.place
    return (
        place is not None
        and place.seconds_others is not None
        and place.seconds_others < SUBSTANTIAL * place.seconds_here
    )


def does_more(finding: Finding) -> bool:
    """Whether a finding's ranks are always late, and compute so much longer than others over the run, at its place or
    in the module that it lies in, that no core is slow enough to explain it: they have another amount of work."""
    evidence = finding.evidence
    if evidence.steady_share is None or evidence.steady_share < MAJORITY:
        return False
    for time in (evidence.place, evidence.module_time):
        if time is None or time.cpu_here is None or time.cpu_others is None:
            continue
        if time.cpu_here >= COMPARABLE * time.cpu_others > 0.0:
            return True
    return False


def turns_s(blamed: BlamedRun) -> FloatArray:
    """Of the waiting that comes from each target, what is due to turns on shared cores, in rank-seconds
    ``[targets]``: ranks were late there for want of a core, and not by what they do.

    Runs are compared by work without what was waited for a core; so is the waiting that this work causes, then.
    """
    table, timeline = blamed.table, blamed.timeline
    result = np.zeros(table.numbering.wait)
    contention = CoreContention.of(timeline)
    if not contention.oversubscribed:
        return result
    contention = replace(contention, per_cpu=0.0)
    recorded_s = all_recorded_s(timeline)
    for candidate in join_entries(blamed):
        if candidate.code_location.kind != TargetKind.OWN or candidate.lost_s < VANISHING * recorded_s:
            continue
        part = contention.programs_part(interval_excess(candidate))
        np.add.at(result, table.target[candidate.entries], table.seconds[candidate.entries] * (1.0 - part))
    return result


def calls_without_core_s(inside_s: FloatArray, timeline: Timeline) -> FloatArray:
    """Of the time in each call that is no waiting for others, what it took for want of a core ``[calls]``.

    Where ranks share cores, and so do the threads that move their data, a call that moves little takes as long as it
    takes to get a core, again for every step of its algorithm: that says nothing of the communication.
    """
    if not CoreContention.of(timeline).oversubscribed:
        return np.zeros(len(timeline.calls))
    calls, instances = timeline.calls, timeline.instances
    # The payload of a wait is that of what it waits for.
    number = np.repeat(np.arange(len(instances)), np.diff(instances.first))
    largest = np.zeros(len(instances))
    np.maximum.at(largest, number, calls.nbytes[instances.members])
    waited = np.concatenate([[0.0], np.cumsum(largest[calls.waits])])
    payload = np.maximum(calls.nbytes, waited[calls.wait_first[1:]] - waited[calls.wait_first[:-1]])
    return np.maximum(inside_s - (LATENCY_S + payload / BYTES_PER_S), 0.0)


def sync_intervals_of(candidate: Candidate, excess: IntervalExcess) -> float:
    """Number of stretches between calls over which a candidate's excess spreads; of uneven ones the large ones count.

    That is (sum x)^2 / sum x^2 of the excess x of every stretch.
    """
    removed = excess_of(candidate, excess)[0]
    squares = float((removed * removed).sum())
    return float(removed.sum()) ** 2 / squares if squares > 0.0 else 0.0
