"""The way from the symptom to a root cause: the waits that its seconds passed through, merged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.finding import Hop
from scalana.detectors.rollup.candidates import Candidate, shares_of_entries
from scalana.detectors.thresholds.limits import LONGEST_PATH
from scalana.detectors.thresholds.shares import WORTH_FOLLOWING
from scalana.graphs.arrays.segments import sum_by_key, weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_CODE, GIVING


def path_to(candidate: Candidate, root: Hop) -> list[Hop]:
    """Follow the largest flow of a candidate's seconds from the wait where most of them are seen to ``root``.

    Waits of several ranks in one place are one hop; the ranks named are those of one chain: each waits for the next,
    and the last for the rank of the root.
    """
    run = candidate.blamed
    table, timeline, psg = run.table, run.timeline, run.psg
    groups, shares = table.groups, table.shares
    if not len(groups.group_wait_s):
        return [root]
    direct, reaching = reaching_entries(candidate.entries, table)
    if reaching.max(initial=0.0) <= 0.0:
        return [root]
    culprit = groups.comparison_culprit[groups.group_comparison]
    arriving = groups.group_wait_s * reaching
    next_ = arriving  # of this the next hop is the largest
    hops: list[Hop] = []
    seen: set[int] = set()
    late = -1
    while len(hops) < LONGEST_PATH:
        vertices, seconds = sum_by_key(groups.group_vertex, next_)
        vertex = int(vertices[np.argmax(seconds)])
        here = np.where(groups.group_vertex == vertex, arriving, 0.0)
        chain = np.where(groups.group_waiter == late, here, 0.0) if late >= 0 else here
        if chain.max() <= 0.0:
            break
        # Of what waited here, that which is handed on, and that which is blamed at once.
        flow = here / np.maximum(reaching, 1e-300)
        handed = flow[shares.handed_from] * shares.handed_share * reaching[shares.handed_to]
        leaving = np.where(chain > 0.0, weighted_count(shares.handed_from, handed, len(reaching)), 0.0)
        goes_on = leaving.sum() >= 0.5 * chain.sum()
        amount = leaving if goes_on else np.where(chain > 0.0, flow * direct, 0.0)
        if late < 0:  # the symptom is where nobody else waits for
            handed_in = weighted_count(shares.handed_to, handed, len(reaching))
            amount = amount * arriving / np.maximum(arriving + handed_in, 1e-300)
        group = int(np.argmax(amount))
        if group in seen:
            break
        seen.add(group)
        name = _name(int(groups.group_operation[group]), psg[vertex], _sends(group, run))
        ranks = _ranks(here, run)
        hops.append(_hop(psg, timeline, vertex, int(groups.group_waiter[group]), name, float(here.sum()), ranks))
        late = int(culprit[group])
        if not goes_on:
            break
        arriving = weighted_count(shares.handed_to, handed, len(reaching))
        of_chain = shares.handed_from == group
        next_ = weighted_count(shares.handed_to[of_chain], handed[of_chain], len(reaching))
    if late >= 0:
        last = int(timeline.locations.rank[late])
        if last not in candidate.ranks:  # a thread that only rests while one of these does it
            seconds = table.seconds[candidate.entries]
            last = int(timeline.locations.rank[table.location[candidate.entries[seconds.argmax()]]])
        root = replace(root, rank=last)
    return [*hops, root]


def reaching_entries(entries: IntArray, table: BlameTable) -> tuple[FloatArray, FloatArray]:
    """Part of each wait group's seconds that comes to rest on some entries of a blame table, at once and in all
    ``[wait groups]``."""
    key = entries.tobytes()
    if key not in table.reaching:
        table.reaching[key] = _reaching_entries(entries, table)
    return table.reaching[key]


def _reaching_entries(entries: IntArray, table: BlameTable) -> tuple[FloatArray, FloatArray]:
    groups, shares = table.groups, table.shares
    hit = shares_of_entries(entries, table)
    count = len(groups.group_wait_s)
    direct = weighted_count(shares.group[hit], shares.share[hit], count)
    reaching = direct.copy()
    for _ in range(1000):
        carried = weighted_count(shares.handed_from, shares.handed_share * reaching[shares.handed_to], count)
        following = direct + carried
        if np.abs(following - reaching).max(initial=0.0) < 1e-9:
            break
        reaching = following
    return direct, np.asarray(np.minimum(reaching, 1.0))


def _sends(group: int, blamed: BlamedRun) -> bool:
    """Whether a wait group waited in messages that it sent."""
    table, timeline = blamed.table, blamed.timeline
    row = np.flatnonzero(table.groups.wait_group == group)[:1]
    sender = timeline.instances.root[table.intervals.instance_of(row)]
    return bool((sender == timeline.locations.rank[table.groups.group_waiter[group]]).all())


def _name(code: int, here: Vertex, sends: bool) -> str:
    """What is waited in: of a window, or where a partner has to come back to MPI, the call that was kept waiting; of a
    message, its sending or receiving."""
    name = BY_CODE[code].name if code in BY_CODE else ""
    own = BY_CODE[here.operation].name if here.kind is VertexKind.COMM and here.operation in BY_CODE else ""
    if code in GIVING:
        return own or name
    if name.startswith("win_") and own and not own.startswith("one_sided"):
        return own
    return "recv" if name in ("send", "blocking_send") and not sends else name


def _ranks(seconds: FloatArray, blamed: BlamedRun) -> int:
    """How many ranks wait in the groups that have seconds, but for those that have next to nothing of them
    ``[wait groups]``. Where many wait as one group, those of the largest such group and those that wait alone."""
    table, timeline = blamed.table, blamed.timeline
    groups = table.groups
    alone = groups.group_waiters == 1
    rank, of_rank = sum_by_key(timeline.locations.rank[groups.group_waiter[alone]], seconds[alone])
    pooled = int(np.where(~alone & (seconds > 0.0), groups.group_waiters, 0).max(initial=0))
    most = max(float(of_rank.max(initial=0.0)), 1e-300)
    return max(min(int((of_rank >= WORTH_FOLLOWING * most).sum()) + pooled, timeline.ranks - 1), 1)


def _hop(psg: PSG, timeline: Timeline, vertex: int, location: int, operation: str, wait_s: float, ranks: int) -> Hop:
    place = psg[vertex].place
    return Hop(
        rank=int(timeline.locations.rank[location]),
        file=place.file,
        line=place.line,
        function=psg.function_of(vertex),
        vertex_kind=psg[vertex].kind.value,
        operation=operation,
        wait_s=wait_s,
        ranks=ranks,
    )
