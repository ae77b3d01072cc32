"""The way from the symptom to a root cause: the waits that its seconds passed through, merged."""

from __future__ import annotations

import numpy as np

from scalana.detectors.blame import BlameTable
from scalana.detectors.candidates import Candidate, shares_of
from scalana.detectors.findings import Hop
from scalana.detectors.segments import sum_by_key, weighted_count
from scalana.graphs.psg import PSG
from scalana.graphs.timeline import FloatArray, IntArray, Timeline
from scalana.runtime.operations import BY_CODE

LONGEST_PATH = 12
"""Hops shown; a longer way is cut before its end."""


def path_to(candidate: Candidate, table: BlameTable, timeline: Timeline, psg: PSG, root: Hop) -> list[Hop]:
    """Follow the largest flow of a candidate's seconds from the wait where most of them are seen to ``root``.

    Waits of several ranks in one place are one hop; the rank named is the one that waited longest there.
    """
    groups, shares = table.groups, table.shares
    if not len(groups.group_wait_s):
        return [root]
    reaching = _reaching(candidate, table)
    if reaching.max(initial=0.0) <= 0.0:
        return [root]
    hops: list[Hop] = []
    flow = groups.group_wait_s * reaching
    operation_of = _operations(table, timeline)
    arriving = flow
    seen: set[int] = set()
    while len(hops) < LONGEST_PATH:
        vertices, seconds = sum_by_key(groups.group_vertex, arriving)
        vertex = int(vertices[np.argmax(seconds)])
        here = np.where(groups.group_vertex == vertex, arriving, 0.0)
        group = int(np.argmax(here))
        if here[group] <= 0.0:
            break
        hops.append(
            _hop(
                psg,
                timeline,
                vertex,
                int(groups.group_waiter[group]),
                _name(int(operation_of[group])),
                float(here.sum()),
            )
        )
        seen.add(group)
        # Of what waited here, that which is handed on rather than blamed at once.
        rows = here[shares.handed_from] > 0.0
        onward = weighted_count(
            shares.handed_to[rows],
            (here / np.maximum(reaching, 1e-300))[shares.handed_from[rows]]
            * shares.handed_share[rows]
            * reaching[shares.handed_to[rows]],
            len(reaching),
        )
        if onward.sum() < 0.5 * here.sum() or int(np.argmax(onward)) in seen:
            break
        arriving = onward
    return [*hops, root]


def _reaching(candidate: Candidate, table: BlameTable) -> FloatArray:
    """Part of each wait group's seconds that comes to rest on the candidate ``[wait groups]``."""
    groups, shares = table.groups, table.shares
    hit = shares_of(candidate, table)
    count = len(groups.group_wait_s)
    direct = weighted_count(shares.group[hit], shares.share[hit], count)
    reaching = direct.copy()
    for _ in range(1000):
        carried = weighted_count(shares.handed_from, shares.handed_share * reaching[shares.handed_to], count)
        following = direct + carried
        if np.abs(following - reaching).max(initial=0.0) < 1e-9:
            break
        reaching = following
    return np.asarray(np.minimum(reaching, 1.0))


def _operations(table: BlameTable, timeline: Timeline) -> IntArray:
    """Code of the operation that each wait group waited in: of a completion, that of what it completed."""
    waited = np.nonzero(table.groups.wait_group >= 0)[0][::-1]
    codes = np.full(len(table.groups.group_wait_s), -1, dtype=np.int64)
    codes[table.groups.wait_group[waited]] = timeline.instances.operation[table.stretches.instance[waited]]
    return codes


def _name(code: int) -> str:
    name = BY_CODE[code].name if code in BY_CODE else ""
    return "recv" if name == "send" else name


def _hop(psg: PSG, timeline: Timeline, vertex: int, location: int, operation: str, wait_s: float) -> Hop:
    place = psg[vertex].place
    return Hop(
        rank=int(timeline.locations.rank[location]),
        file=place.file,
        line=place.line,
        function=psg.function_of(vertex),
        vertex_kind=psg[vertex].kind.value,
        operation=operation,
        wait_s=wait_s,
    )
