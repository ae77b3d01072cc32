"""The main detector: who made everybody wait, in which line, and what mending it would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.served import all_recorded_s
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.evidence import HiddenDelay
from scalana.detectors.finding import Finding, Hop
from scalana.detectors.late_ranks.advice import advise
from scalana.detectors.late_ranks.calls import Measured, measure
from scalana.detectors.late_ranks.description import balanced_saving_s, computes_more, describe, may_compute_more
from scalana.detectors.late_ranks.lines import is_made_up_for
from scalana.detectors.late_ranks.masked import next_cause
from scalana.detectors.late_ranks.pools import describe_pool
from scalana.detectors.late_ranks.similar_ranks import with_alike
from scalana.detectors.late_ranks.starting import is_started, with_started_together
from scalana.detectors.late_ranks.uneven_tasks import UnevenTasks
from scalana.detectors.noise.contention import CoreContention, alone, computes_in_turn, sync_intervals_of
from scalana.detectors.noise.lasting import Lasting
from scalana.detectors.noise.roles import is_ordinary, takes_its_share
from scalana.detectors.noise.significance import Significance, significance
from scalana.detectors.noise.task_farms import TaskFarm
from scalana.detectors.rollup.alone import join_alternatives, join_done_alone
from scalana.detectors.rollup.candidates import Candidate, join_entries, shares_of
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.rollup.paths import path_to
from scalana.detectors.rollup.peers import among_peers
from scalana.detectors.thresholds.differences import DEAD_BAND
from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.limits import MOST_FINDINGS
from scalana.detectors.thresholds.seconds import START_S
from scalana.detectors.thresholds.shares import (
    LARGELY,
    MAJORITY,
    SLIGHT,
    WORTH_A_FINDING,
    WORTH_IF_DRIFTING,
    WORTH_IF_ONCE,
    WORTH_IF_UNSTEADY,
)
from scalana.detectors.whatif.call_pools import CallPool
from scalana.detectors.whatif.changes import IntervalExcess, change_of
from scalana.detectors.whatif.joins import with_join_waits
from scalana.detectors.whatif.replay import Change, Replay
from scalana.graphs.arrays.shards import each
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.attribution.launchers import BETWEEN_CALLS
from scalana.graphs.readers.processes.starts import Start
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_CODE, Waits

_NOT_SAMPLED = (TargetKind.CARRIED_IN, TargetKind.UNRESOLVED, TargetKind.TRANSFER)
"""What is known, or not known, without samples."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What candidates are judged by."""

    blamed: BlamedRun
    before: Mapping[CodeLocation, float]
    """What each place costs, of those that are blamed."""
    replay: Replay
    total_s: float
    """All waiting, in rank-seconds."""
    recorded_s: float
    """Of all locations together."""
    lasting: Lasting | None
    """See :class:`Waiting`."""
    sampled: bool
    """Whether anybody looked at what ranks did between their calls."""
    pools: Sequence[CallPool]
    looks_behind: bool
    """See :class:`Waiting`."""
    part: float = 1.0
    """Of what is worth a finding, that candidates must cost."""

    def measured_by(self, candidate: Candidate, steady: float) -> float:
        """Part of the run that a candidate is compared with, which is late on average with a part of its waiting."""
        return self.lasting.measured_by(candidate.entries, steady) if self.lasting is not None else 1.0


@dataclass(frozen=True, slots=True)
class _Case:
    """A candidate that is worth a finding, if mending it brings enough."""

    candidate: Candidate
    finding: Finding
    excess: IntervalExcess | None
    once: bool
    """Whether it happened too rarely for its noise to be known."""
    measured_by: float
    """Part of the run that it is compared with."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is known of the waiting of a run."""

    states: WaitStates
    table: BlameTable
    replay: Replay
    farms: Sequence[TaskFarm]
    pools: Sequence[CallPool] = ()
    starts: Mapping[int, Start] = field(default_factory=dict)
    """Ranks that other ranks start, by rank."""
    looks_behind: bool = True
    """Whether it is wanted what hides behind a cause: that takes as long as all else."""
    lasting: Lasting | None = None
    """The steady state; None where the run shows none."""


def detect(timeline: Timeline, psg: PSG, waiting: Waiting) -> list[Finding]:
    """Return the root causes of waiting, most expensive first."""
    return detect_halves(timeline, psg, waiting)[0]


def detect_halves(
    timeline: Timeline, psg: PSG, waiting: Waiting, wanted: bool = False
) -> tuple[list[Finding], list[Finding]]:
    """The same, and those that cost too little by themselves, but may be one half of a cause, where they are
    ``wanted``: to be told only where the other half is."""
    blamed = BlamedRun(timeline, psg, waiting.table)
    total = float(waiting.states.all_s(timeline).sum())
    recorded = all_recorded_s(timeline)
    if total <= 0.0 or recorded <= 0.0:
        return [], []
    candidates = join_entries(blamed)
    before = {candidate.code_location: candidate.lost_s for candidate in candidates}
    sampled = bool(timeline.own.samples.any())
    lasting = waiting.lasting
    run = _Run(blamed, before, waiting.replay, total, recorded, lasting, sampled, waiting.pools, waiting.looks_behind)
    candidates = join_done_alone(candidates, blamed)
    candidates = among_peers(candidates, [farm.ranks for farm in waiting.farms], blamed)
    candidates = with_started_together(candidates, waiting.starts)
    candidates = join_alternatives(candidates)
    candidates = [candidate for candidate in candidates if not _is_between_calls(candidate)]
    # Whether a candidate is late on average is known later.
    least_s = [WORTH_A_FINDING * recorded * run.measured_by(candidate, 1.0) for candidate in candidates]
    large = [candidate for candidate, worth_s in zip(candidates, least_s, strict=True) if candidate.lost_s >= worth_s]
    small = [candidate for candidate, worth_s in zip(candidates, least_s, strict=True) if candidate.lost_s < worth_s]
    half = [candidate for candidate in small if wanted and candidate.lost_s >= MAJORITY * WORTH_A_FINDING * recorded]
    half = [candidate for candidate in half if candidate.code_location.kind == TargetKind.OWN]
    judged = _judged(large + half, run)
    started = [is_started(candidate, waiting.starts) for candidate in large]
    others = [one for one, known in zip(large, started, strict=True) if not known and _starts_apart(one)]
    late = _late(others, small, judged, run)
    late += [(candidate, None) for candidate in compress(large, started)]  # it is known why: this is no noise
    halves = measure([candidate for candidate in half if _stands_out(candidate, judged, run)])
    contention = CoreContention.of(timeline)

    def findings_of(measured: list[Measured], run: _Run) -> list[Finding]:
        cases = [
            case
            for candidate, excess in sorted(measured, key=lambda measured: -measured[0].lost_s)
            if not takes_its_share(candidate, excess, waiting.farms)
            and (case := _case(candidate, excess, judged, contention, run)) is not None
        ]
        return _complete(cases, run) if cases else []

    return findings_of(late, run), findings_of(halves, replace(run, part=MAJORITY))


def _judged(large: list[Candidate], run: _Run) -> Significance:
    """What stands above noise of the wait groups that some candidates have a share in."""
    hit = np.zeros(len(run.blamed.table.shares.group), dtype=bool)
    for candidate in large:
        hit |= shares_of(candidate)
    return significance(run.blamed, run.replay, run.blamed.table.shares.group[hit])


def _late(large: list[Candidate], small: list[Candidate], judged: Significance, run: _Run) -> list[Measured]:
    """The candidates that are late by themselves, and what of the others lies in tasks that are far larger
    than their like (with ``small`` ones beside these)."""
    tasks = UnevenTasks.of(run.blamed, WORTH_A_FINDING * run.recorded_s)
    loud = [_stands_out(candidate, judged, run) for candidate in large]
    late: list[Measured] = []
    others = [candidate for candidate, signal in zip(large, loud, strict=True) if not signal]
    for candidate, excess in measure(list(compress(large, loud))):
        in_turn = _signal(candidate, judged.steady) < MAJORITY
        if excess is not None and (
            (in_turn and tasks.excess(candidate) is not None)
            or is_ordinary(candidate, excess)
            or is_made_up_for(candidate, excess)
        ):
            others.append(candidate)
        else:
            late.append((candidate, excess))
    return late + list[Measured](tasks.causes(others, small, run.replay))


def _case(
    candidate: Candidate, excess: IntervalExcess | None, judged: Significance, contention: CoreContention, run: _Run
) -> _Case | None:
    """A candidate that costs enough, for how sure one can be of it; None for any other."""
    timeline = run.blamed.timeline
    finding = _finding(candidate, excess, run)
    steady = _signal(candidate, judged.steady)
    drifts = steady < MAJORITY <= _signal(candidate, judged.drifting)
    programs = 1.0
    if excess is not None:
        # Who is late on average does more over the run, too; who is late in turn need not.
        in_turn = steady < MAJORITY or len(candidate.ranks) == timeline.ranks
        more = drifts or computes_in_turn(excess) if in_turn else may_compute_more(candidate)
        programs = contention.programs_part(excess, more)
    evidence = replace(finding.evidence, programs_share=programs, steady_share=steady, drifts=drifts)
    finding = _of_kind(candidate, replace(finding, evidence=evidence), run)
    part = run.measured_by(candidate, steady)
    if candidate.lost_s < run.part * part * run.recorded_s * _worth(candidate, finding, judged):
        return None
    if candidate.lost_s < run.part * DEAD_BAND * run.total_s and not (steady >= MAJORITY and alone(finding)):
        return None
    return _Case(candidate, finding, excess, _signal(candidate, judged.repeated) < 0.5, part)


def _complete(cases: list[_Case], run: _Run) -> list[Finding]:
    """The findings that are left when it is known what mending each would bring, complete."""
    timeline = run.blamed.timeline
    changes = each(lambda case: change_of(case.candidate, case.excess), cases)
    measured_end, ends = run.replay.run_ends_s(with_join_waits(changes, timeline, run.replay))
    cases, ends = _mended_together(cases, changes, measured_end, ends, run)
    findings: list[Finding] = []
    for case, end in zip(cases, ends, strict=True):
        candidate = case.candidate
        finding = replace(case.finding, saving_s=max(0.0, measured_end - end))
        measured_s, recorded_s = case.measured_by * measured_end, case.measured_by * run.recorded_s
        little = finding.saving_s < run.part * WORTH_A_FINDING * measured_s and not _is_long_alone(
            finding, measured_end, timeline
        )
        if little and candidate.lost_s < WORTH_IF_ONCE * recorded_s:
            continue
        behind, balanced_s = _hidden(finding, candidate, findings, run), balanced_saving_s(finding, timeline.ranks)
        evidence = replace(finding.evidence, behind=behind, balanced_saving_s=balanced_s)
        if little and case.once and _is_import(candidate):
            continue  # ranks that start one after the other, each with the same modules
        excess = case.excess
        evidence = replace(
            evidence,
            sync_intervals=sync_intervals_of(candidate, excess) if excess is not None else None,
            pool=describe_pool(candidate, finding.saving_s, run.pools),
        )
        path = path_to(candidate, finding_root(finding))
        finding = replace(finding, evidence=evidence, path=path)
        findings.append(replace(finding, advice=advise(finding)))
        if len(findings) == MOST_FINDINGS:
            break
    return findings


def _mended_together(
    cases: list[_Case], changes: list[Change], measured_end: float, ends: list[float], run: _Run
) -> tuple[list[_Case], list[float]]:
    """When the run ends with each case mended: where that brings little, with ranks that take as long at its place,
    which are ranks of the case then."""
    together = [
        (number, *found)
        for number, (case, change, end) in enumerate(zip(cases, changes, ends, strict=True))
        if measured_end - end < _hidden_s(case.candidate, run)
        and not (case.once and _is_import(case.candidate))  # all import, one after the other
        and (found := with_alike(case.candidate, change)) is not None
    ]
    if not together:
        return cases, ends
    both = with_join_waits([change for _, _, change in together], run.blamed.timeline, run.replay)
    joined_cases, joined_ends = list(cases), list(ends)
    for (number, joined, _), end in zip(together, run.replay.run_ends_s(both)[1], strict=True):
        case = cases[number]
        if measured_end - end >= max(_hidden_s(case.candidate, run), WORTH_A_FINDING * measured_end):
            more = describe(joined, case.excess)
            finding = replace(case.finding, ranks=joined.ranks, evidence=case.finding.evidence.updated(more))
            joined_cases[number] = replace(case, candidate=joined, finding=_of_kind(joined, finding, run))
            joined_ends[number] = end
    return joined_cases, joined_ends


def _hidden_s(candidate: Candidate, run: _Run) -> float:
    """Seconds that a candidate saves at least, if nothing is hidden behind it."""
    return LARGELY * candidate.lost_s / max(run.blamed.timeline.ranks - len(candidate.ranks), 1)


def _is_long_alone(finding: Finding, run_s: float, timeline: Timeline) -> bool:
    """Whether a place that only one rank goes to, and steadily, takes it a part of the run that is worth to be told
    even if other ranks would be waiting for something else instead. A thread beside others may but look again and again
    whether these have something for it to do."""
    place, steady = finding.evidence.place, finding.evidence.steady_share
    if place is None or steady is None:
        return False
    if len(finding.ranks) != 1 or np.count_nonzero(timeline.locations.rank == finding.ranks[0]) > 1:
        return False
    return alone(finding) and steady >= MAJORITY and place.seconds_here > SLIGHT * run_s


def _is_import(candidate: Candidate) -> bool:
    """Whether a candidate is the import of a module."""
    psg = candidate.blamed.psg
    vertex = candidate.code_location.vertex if candidate.code_location.kind == TargetKind.OWN else -1
    return 0 <= vertex < len(psg) and psg[vertex].kind is VertexKind.CALL and psg[vertex].place.name == "import"


def _is_between_calls(candidate: Candidate) -> bool:
    """Whether a candidate is what a library's worker does before and after the calls that it gets: nobody can change
    that, and no line of the program is behind it."""
    psg = candidate.blamed.psg
    vertex = candidate.code_location.vertex if candidate.code_location.kind == TargetKind.OWN else -1
    return 0 <= vertex < len(psg) and psg[vertex].place.file == BETWEEN_CALLS


def _starts_apart(candidate: Candidate) -> bool:
    """Whether what is late from before its record starts later than the others by far more than those lie apart:
    a launcher starts ranks one after the other, the later the fewer cores they have."""
    timeline = candidate.blamed.timeline
    if candidate.code_location.kind != TargetKind.CARRIED_IN:
        return True
    locations = timeline.locations
    late, main = np.isin(locations.rank, candidate.ranks), locations.is_main
    if late.all():
        return True
    first, usual, last = np.quantile(locations.start_s[~late & main], (0.1, 0.5, 0.9))
    return bool(locations.start_s[late & main].max(initial=-np.inf) - usual > max(FAR_MORE * (last - first), START_S))


def _hidden(finding: Finding, candidate: Candidate, larger: list[Finding], run: _Run) -> HiddenDelay | None:
    """What hides behind a finding, where mending that brings much less than it costs each waiting rank; None for what
    is at the same line, or one of those that are told before it."""
    psg = run.blamed.psg
    if not run.looks_behind or finding.saving_s >= _hidden_s(candidate, run):
        return None
    behind = next_cause(candidate, run.before, run.replay)
    if behind is None:
        return None
    place = psg[max(behind.code_location.vertex, 0)].place
    line, _ = behind.code_location.lines(place)
    if any((told.file, told.line) == (place.file, line) for told in (finding, *larger)):
        return None
    function = psg.function_of(max(behind.code_location.vertex, 0))
    return HiddenDelay(place.file, line, function, behind.ranks, behind.lost_s)


def finding_root(finding: Finding) -> Hop:
    """The last hop of a finding's path: the place itself, on its first rank."""
    rank = finding.ranks[0] if finding.ranks else -1
    return Hop(rank, finding.file, finding.line, finding.function, finding.vertex_kind, "", 0.0)


def _worth(candidate: Candidate, finding: Finding, judged: Significance) -> float:
    """Part of the recorded rank-seconds that a candidate must cost, by how sure one can be of it."""
    if candidate.code_location.kind in (TargetKind.TRANSFER, TargetKind.UNRESOLVED):
        return WORTH_IF_ONCE  # these vary by themselves and name no line
    if _signal(candidate, judged.repeated) < 0.5:
        return WORTH_IF_ONCE
    if finding.evidence.drifts and _signal(candidate, judged.part) < 0.5:
        return WORTH_IF_DRIFTING
    one = len(candidate.ranks) == 1 and alone(finding)  # from time to time, but always the same
    return WORTH_A_FINDING if one or _signal(candidate, judged.steady) >= MAJORITY else WORTH_IF_UNSTEADY


def _stands_out(candidate: Candidate, judged: Significance, run: _Run) -> bool:
    """Whether what a candidate costs stands above noise: each time, or for a part of the run."""
    if _signal(candidate, judged.part) >= 0.5:
        return True
    if candidate.lost_s < WORTH_IF_DRIFTING * run.recorded_s or 2 * len(candidate.ranks) <= run.blamed.timeline.ranks:
        return False  # where it is always the same few ranks, they are late on average over the run as well
    return _signal(candidate, judged.drifting) >= MAJORITY


def _signal(candidate: Candidate, part: FloatArray) -> float:
    """Mean over the candidate's seconds of a part that is known by wait group."""
    table = candidate.blamed.table
    shares = table.shares
    hit = shares_of(candidate)
    group = shares.group[hit]
    seconds = table.flow_s[group] * shares.share[hit]
    return float((seconds * part[group]).sum()) / max(float(seconds.sum()), 1e-300)


def _finding(candidate: Candidate, excess: IntervalExcess | None, run: _Run) -> Finding:
    finding = finding_at(candidate.code_location, candidate.ranks, candidate.lost_s, run.blamed.psg)
    return replace(
        finding,
        lost_share=candidate.lost_s / run.total_s,
        entries=candidate.entries,
        evidence=describe(candidate, excess),
    )


def _of_kind(candidate: Candidate, finding: Finding, run: _Run) -> Finding:
    """A finding of the kind that its evidence speaks for."""
    unsampled = not run.sampled and candidate.code_location.kind not in _NOT_SAMPLED
    if unsampled:
        finding = replace(finding, evidence=replace(finding.evidence, unsampled=True))
    return replace(finding, kind="unresolved" if unsampled else _kind(candidate, finding, run))


def _kind(candidate: Candidate, finding: Finding, run: _Run) -> str:
    kind = candidate.code_location.kind
    if kind == TargetKind.CARRIED_IN:
        return "carried-in"
    if kind == TargetKind.UNRESOLVED:
        return "unresolved"
    if kind == TargetKind.TRANSFER:
        return "slow-transfer"
    cpu, core_wait = finding.evidence.cpu_split()
    # Who rests more often waits more often for a core, too, until it goes on: that is not why it is late.
    if cpu is not None and core_wait is not None and core_wait > max(0.5, 2 * cpu, 2 * (1.0 - cpu - core_wait)):
        programs = finding.evidence.programs_share
        if programs is not None and programs < 0.5 and not computes_more(candidate):
            return "waiting-for-core"
    place = finding.evidence.place
    others = place.seconds_others if place is not None else None
    by_itself = place is not None and others is not None and others < 0.02 * place.seconds_here
    if by_itself and len(candidate.ranks) == 1 and (candidate.ranks[0] == 0 or _is_root(candidate, run)):
        return "serial"
    return "late-ranks"


def _is_root(candidate: Candidate, run: _Run) -> bool:
    """Whether most of what waited did so in rooted operations, for their root."""
    table, timeline = run.blamed.table, run.blamed.timeline
    shares, groups = table.shares, table.groups
    targets = np.unique(table.target[candidate.entries])
    hit = np.zeros(len(groups.group_wait_s) + 1, dtype=bool)  # the last for no group
    hit[shares.group[np.isin(shares.target, targets)]] = True
    rows = np.flatnonzero(hit[groups.wait_group])
    operation = timeline.instances.operation[table.intervals.instance_of(rows)]
    rooted = [code for code, row in BY_CODE.items() if row.waits == Waits.ROOT]
    return len(rows) > 0 and float(np.isin(operation, rooted).mean()) > 0.5
