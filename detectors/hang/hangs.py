"""Hangs: calls that never returned, and what the rank that did not come was doing instead."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scalana.detectors.evidence import CodePlace, Deadlock, Evidence, OpenOperation, PlaceTime
from scalana.detectors.finding import Finding, Hop
from scalana.detectors.hang.advice import UNENDED, advise, advise_host
from scalana.detectors.thresholds.seconds import HANG_S, SAME_TIME_S
from scalana.graphs.samples.last_places import LastPlace
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_CODE, BY_NAME, TAKING, Waits

if TYPE_CHECKING:
    from scalana.graphs.dependences.unmatched import OpenCall
    from scalana.graphs.run_info import RunInfo

KIND = "hang"
_OF_TWO = (Waits.SENDER, Waits.RECEIVER, Waits.NAMED)


Left = dict[tuple[int, int], dict[int, float]]
"""By communicator and operation, the ranks whose call of it ended without all others, and when."""


def detect(timeline: Timeline, psg: PSG, run: RunInfo) -> list[Finding]:
    """Return one finding for each rank that others were still waiting for when their records stopped."""
    waiting = [call for call in run.open_calls if call.seconds >= HANG_S and not _all_came(call, timeline, run)]
    by_rank = {call.rank: call for call in waiting}
    left = _left(timeline, waiting) if waiting else {}
    awaited: dict[int, list[OpenCall]] = defaultdict(list)
    for call in waiting:
        for rank in _absent(call, waiting, left, run):
            last = _last_awaited(rank, by_rank, waiting, left, run)
            awaited[min(_circle(last, by_rank), default=last)].append(call)
        if call.awaited.is_untaken:
            awaited[call.rank].append(call)
    asking = {
        rank
        for rank in awaited
        if rank not in by_rank and _asks(_last_place(rank, timeline, by_rank, run.last_places).vertex, psg)
    }
    if len(asking) < len(awaited):  # who asks for something waits for one of the others
        for rank in asking:
            del awaited[rank]
    total = sum(call.seconds for call in waiting)
    by_host = _together(awaited, run)
    findings = [_finding(rank, calls, total, timeline, psg, by_rank, run) for rank, calls in by_host.items()]
    known = [_at_lost_host(finding, awaited, run) for finding in findings if finding is not None]
    return _without_circles(sorted(known, key=lambda finding: -finding.lost_s))


def _together(awaited: dict[int, list[OpenCall]], run: RunInfo) -> dict[int, list[OpenCall]]:
    """Calls by the rank that they wait for; all that wait for a host that died, by that of its ranks most wait for."""
    together = dict(awaited)
    for host in run.lost_hosts:
        of_host = {rank: together.pop(rank) for rank in host.ranks if rank in together}
        if of_host:
            most = max(of_host, key=lambda rank: sum(call.seconds for call in of_host[rank]))
            together[most] = [call for calls in of_host.values() for call in calls]
    return together


def _at_lost_host(finding: Finding, awaited: dict[int, list[OpenCall]], run: RunInfo) -> Finding:
    """What to say of a rank that others wait for, if its host died: no rank of it did anything else."""
    host = next((host for host in run.lost_hosts if set(finding.ranks) <= set(host.ranks)), None)
    if host is None:
        return finding
    ranks = sorted(set(host.ranks) & set(awaited))
    return replace(finding, ranks=ranks, evidence=replace(finding.evidence, deadlock=None), advice=advise_host(host))


def _all_came(call: OpenCall, timeline: Timeline, run: RunInfo) -> bool:
    """Whether all came in the end to what an open call is of: the record of one rank stopped before, as that of a rank
    may that has come to the end of MPI long before the others. Not known where one of them has no record."""
    if call.awaited.is_unended:
        return False
    if call.communicator >= 0 and set(run.communicators[call.communicator].ranks) & set(run.missing_ranks):
        return False
    calls, instances = timeline.calls, timeline.instances
    same = np.abs(calls.enter_s - call.since_s) <= SAME_TIME_S
    same &= (timeline.locations.rank[calls.location] == call.rank) & (calls.operation == call.operation)
    posts = calls.posts[same]
    return bool(len(posts)) and bool((np.append(instances.complete, False)[posts]).all())


def _asks(vertex: int, psg: PSG) -> bool:
    """Whether a place lies in a loop whose only communication is to ask whether something has come."""
    loop = psg.enclosing(vertex, VertexKind.LOOP) if 0 <= vertex < len(psg) else -1
    operations = {v.operation for v in psg.walk(loop) if v.kind is VertexKind.COMM} if loop >= 0 else set()
    return operations == {BY_NAME["test"].code}


def _without_circles(findings: list[Finding]) -> list[Finding]:
    """Of ranks that wait for each other (they disagree on what comes next), keep those that most wait for."""
    kept: list[Finding] = []
    blamed: set[int] = set()
    for finding in findings:
        hang = finding.evidence.hang
        if hang is None or not blamed.issuperset(hang.waiting_ranks):
            kept.append(finding)
            blamed.update(finding.ranks)
    return kept


def _left(timeline: Timeline, waiting: list[OpenCall]) -> Left:
    """When ranks left operations that not all came to: their calls failed. Those that wait to the end did not leave."""
    calls, instances = timeline.calls, timeline.instances
    open_ = {(call.rank, call.operation): call.since_s for call in waiting}
    left: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    incomplete = ~instances.complete & (instances.communicator >= 0)
    for call in np.flatnonzero((calls.posts >= 0) & np.append(incomplete, False)[calls.posts]).tolist():
        instance, rank = calls.posts[call], int(timeline.locations.rank[calls.location[call]])
        since_s = open_.get((rank, int(calls.operation[call])), np.inf)
        if calls.enter_s[call] < since_s - SAME_TIME_S:
            operation = int(instances.communicator[instance]), int(instances.operation[instance])
            left[operation][rank] = float(calls.exit_s[call])
    return left


def _absent(call: OpenCall, waiting: list[OpenCall], left: Left, run: RunInfo) -> list[int]:
    """Ranks that an open call waits for: those of its communicator that are not in it, nor were, or its partner."""
    operation = BY_CODE[call.operation]
    if call.operation in TAKING:  # where a pool or queue of its own is asked, its child says more
        place = run.last_places.get(call.rank) if not call.awaited.is_unended else None
        return [] if place is not None and place.child is not None else list(call.awaited.ranks)
    partner = _partner(call)
    if partner >= 0 or (call.peer >= 0 and operation.name in ("broadcast", "scatter")):
        return [call.peer] if call.peer not in (call.rank, *run.missing_ranks) else []
    if call.communicator < 0 or operation.name in ("win_lock", "win_unlock", "win_flush"):
        return []
    key = (call.communicator, call.seq, call.operation)
    there = {c.rank for c in waiting if (c.communicator, c.seq, c.operation) == key}
    failed = left.get((call.communicator, call.operation), {})
    there |= {rank for rank, exit_s in failed.items() if exit_s > call.since_s}
    absent = [rank for rank in run.communicators[call.communicator].ranks if rank not in there]
    # Of several without a record any may have come; of one alone it is plain that it has not.
    return absent if len(absent) == 1 else [rank for rank in absent if rank not in run.missing_ranks]


def _partner(call: OpenCall) -> int:
    """The one rank that an open call of a message, a window or a result waits for; -1 where it is of another kind."""
    operation = BY_CODE[call.operation]
    if call.awaited.ranks:
        return call.awaited.ranks[0] if len(call.awaited.ranks) == 1 else -1
    return call.peer if operation.waits in _OF_TWO or operation.name == "send" else -1


def _circle(rank: int, by_rank: dict[int, OpenCall]) -> list[int]:
    """Ranks to which a rank leads, each of which waits for the next alone, and the last for the first; [] if none."""
    seen: list[int] = []
    while rank in by_rank and rank not in seen:
        seen.append(rank)
        rank = _partner(by_rank[rank])
    return seen[seen.index(rank) :] if rank in seen else []


def _last_awaited(rank: int, by_rank: dict[int, OpenCall], waiting: list[OpenCall], left: Left, run: RunInfo) -> int:
    """Follow ranks that wait themselves to one that does not; where they wait in a circle, the rank to begin with."""
    seen = [rank]
    while seen[-1] in by_rank:
        following = [r for r in _absent(by_rank[seen[-1]], waiting, left, run) if r not in seen]
        if not following:
            return rank
        seen.append(following[0])
    return seen[-1]


def _finding(
    rank: int,
    calls: list[OpenCall],
    total_s: float,
    timeline: Timeline,
    psg: PSG,
    by_rank: dict[int, OpenCall],
    run: RunInfo,
) -> Finding | None:
    calls = list({id(call): call for call in calls}.values())
    last = _last_place(rank, timeline, by_rank, run.last_places)
    at = last.child or last
    vertex, line, seconds = at.vertex, at.line, at.seconds
    known = 0 <= vertex < len(psg)
    place = psg[vertex if known else 0].place
    line, end_line = (line, line) if line > 0 else (place.line, place.end_line)
    lost = sum(call.seconds for call in calls)
    longest = max(calls, key=lambda call: call.seconds)
    operation = BY_CODE[longest.operation].name
    root = Hop(rank, place.file, line, psg.function_of(vertex) if known else "", psg[vertex].kind.value, "", 0.0)
    circle = _circle(rank, by_rank)
    also_in = BY_CODE[by_rank[rank].operation].name if rank in by_rank else None
    evidence = Evidence(
        hang=OpenOperation(
            sorted({call.rank for call in calls}),
            operation,
            longest.seq,
            unreturned=bool(longest.awaited.ranks),
            unbegun=rank in by_rank and by_rank[rank].awaited.is_untaken,
            unended=longest.awaited.is_unended,
        ),
        place=PlaceTime(seconds),
        waits_at=_code_place(last, psg) if last.child is not None else None,
        deadlock=Deadlock(also_in, circle or None) if (rank in by_rank or circle) and last.child is None else None,
    )
    return Finding(
        kind=KIND,
        vertex=vertex if known else -1,
        file=place.file,
        line=line,
        end_line=end_line,
        function=root.function,
        vertex_kind=root.vertex_kind,
        ranks=sorted(circle) or [rank],
        lost_s=lost,
        lost_share=lost / max(total_s, 1e-300),
        saving_s=longest.seconds,
        path=[_symptom(longest, psg, lost, len({call.rank for call in calls})), root],
        evidence=evidence,
        advice=UNENDED
        if longest.awaited.is_unended
        else advise(rank, operation, by_rank, circle, _asks(vertex, psg), run.names, last.child is not None),
    )


def _symptom(call: OpenCall, psg: PSG, lost_s: float, ranks: int) -> Hop:
    """Where a call waits, for others too."""
    vertex = psg[call.vertex]
    operation = BY_CODE[call.operation].name
    function = psg.function_of(call.vertex)
    return Hop(call.rank, vertex.place.file, vertex.place.line, function, vertex.kind.value, operation, lost_s, ranks)


def _code_place(last: LastPlace, psg: PSG) -> CodePlace | None:
    """Where a rank waits for its child."""
    if not 0 <= last.vertex < len(psg):
        return None
    place = psg[last.vertex].place
    return CodePlace(place.file, last.line if last.line > 0 else place.line, psg.function_of(last.vertex))


def _last_place(rank: int, timeline: Timeline, by_rank: dict[int, OpenCall], places: dict[int, LastPlace]) -> LastPlace:
    """What a rank did last: the call that it is in; where its main thread was; most of its time after its last call."""
    if rank in by_rank:
        # A call that its own pool or queue is asked in is recorded as one that never returned; the child says why.
        place = places.get(rank)
        asks = by_rank[rank].operation in TAKING
        if asks and place is not None and place.child is not None:
            return place
        return LastPlace(by_rank[rank].vertex, -1, by_rank[rank].seconds)
    if rank in places:
        return places[rank]
    locations = np.nonzero((timeline.locations.rank == rank) & timeline.locations.is_main)[0]
    if not len(locations):
        return LastPlace(-1, -1, 0.0)
    burst = len(timeline.calls) + int(locations[0])
    rows = np.nonzero(timeline.own.burst == burst)[0]
    if not len(rows):
        return LastPlace(-1, -1, 0.0)
    seconds = np.bincount(timeline.own.activity[rows], weights=timeline.own.seconds[rows])
    activity = int(np.argmax(seconds))
    vertex, line = int(timeline.activities.vertex[activity]), int(timeline.activities.line[activity])
    return LastPlace(vertex, line, float(seconds[activity]))
