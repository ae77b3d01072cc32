"""Task farms: ranks that are handed tasks by one other rank, or take them from a counter in a window; and processes of
a pool that take calls (:mod:`scalana.detectors.whatif.call_pools`).

Whoever is free takes the next piece. So one rank does more of them than another without being at fault, and a rank that
is slow does fewer: they are to be compared by piece. The pieces are known exactly: own time between the call that
brings one and the next call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scalana.detectors.noise.verdict import beyond_noise, means_of
from scalana.detectors.thresholds.certainty import BY_CHANCE
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE, SHOWS_THE_USUAL
from scalana.detectors.thresholds.differences import ORDINARY, SLOW_IN_A_POOL
from scalana.detectors.thresholds.factors import AS_LONG, FAR_MORE
from scalana.detectors.thresholds.limits import TASKS_REPLAYED, TRIED_AT_MOST
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, NEARLY_ALL, SUBSTANTIAL
from scalana.detectors.whatif.call_pools import CallPool, Tasks, pool_of, rounds_of
from scalana.graphs.arrays.hashing import distinct, number_columns
from scalana.graphs.arrays.segments import median_by_key, weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME, MESSAGES

COUNTER = -2
"""Stands for the rank that hands out, where ranks take pieces from a window."""
NOBODY = -1
_WINDOW = [BY_NAME[name].code for name in ("one_sided", "win_lock", "win_unlock", "win_flush")]
_COMPLETING = [BY_NAME[name].code for name in ("wait", "waitany", "test")]


@dataclass(slots=True)
class TaskFarm:
    """The tasks that end in one call of the program."""

    vertex: int
    """Vertex of that call, before which none but these ranks work."""
    handing: frozenset[int]
    """It, and the call that then hands in what was computed, if that one but asks for earlier messages."""
    giver: int
    """Rank that hands out the pieces, or :data:`COUNTER`."""
    burst: IntArray
    """``[pieces]``"""
    rank: IntArray
    """Who does it ``[pieces]``."""
    seconds: FloatArray
    """Own time, less what was waited for a core ``[pieces]``."""
    ranks: list[int]
    """In order."""
    mean_s: FloatArray
    """Seconds of a piece ``[ranks of the pool]``."""
    error_s: FloatArray
    """Standard error of that ``[ranks of the pool]``."""
    last_s: FloatArray
    """When the last piece was done ``[ranks of the pool]``."""
    first_s: float
    """When the first was done."""
    pool: CallPool | None = None
    """The pool whose calls these tasks are, if they are any."""
    order: CallPool | None = None
    """What does its tasks again in the order in which they were handed out, with those of ranks that do few; None where
    that does not give what was recorded."""

    @property
    def usual_s(self) -> float:
        """Seconds of a piece on the rank that does the middle one: whoever is slow does fewer."""
        order = np.argsort(self.mean_s, kind="stable")
        done = np.cumsum(np.bincount(self.rank)[self.ranks][order])
        return float(self.mean_s[order][np.searchsorted(done, done[-1] / 2)])

    def slow(self, by: float = SLOW_IN_A_POOL) -> npt.NDArray[np.bool_]:
        """Which ranks take longer for a piece by some part, and do fewer as whoever is free takes the next
        ``[ranks of the pool]``."""
        count = np.bincount(self.rank)[self.ranks]
        slow = beyond_noise(self.mean_s - (1.0 + by) * self.usual_s, self.error_s, BY_CHANCE)
        if len(self.ranks) < SHOWS_THE_USUAL or slow.all():
            return np.zeros(len(slow), dtype=bool)
        return np.asarray(slow & (count <= AS_LONG * np.median(count[~slow])))

    def alike(self, ranks: list[int]) -> bool:
        """Whether none of some ranks takes longer for a piece than is usual, but for those that do fewer for that."""
        usual_s = self.usual_s
        own = np.isin(self.ranks, ranks) & ~self.slow(ORDINARY)
        return not beyond_noise(self.mean_s[own] - (1.0 + ORDINARY) * usual_s, self.error_s[own], BY_CHANCE).any()

    def end_together(self, ranks: list[int]) -> bool:
        """Whether none of some ranks is busy long after the others."""
        own = np.isin(self.ranks, ranks)
        late_s = float(self.last_s[own].max()) - float(np.median(self.last_s))
        return late_s <= MINOR * (float(self.last_s.max()) - self.first_s)

    def even(self, ranks: list[int]) -> bool:
        """Whether no pieces of some ranks are far larger than most of the same rank."""
        own = np.isin(self.rank, ranks)
        seconds, rank = self.seconds[own], self.rank[own]
        keys, median_s = median_by_key(rank, seconds)
        usual_s = median_s[np.searchsorted(keys, rank)]
        larger = seconds > FAR_MORE * usual_s
        return float((seconds - usual_s)[larger].sum()) <= SUBSTANTIAL * float(seconds.sum())


def find_task_farms(
    timeline: Timeline, pools: Sequence[CallPool] = (), names: ProcessNames | None = None
) -> list[TaskFarm]:
    """Find all pools, with those of calls that are known. O(calls), and O(pieces log pieces).

    By their ``names``, processes of several roles are no pool: what one is called for the other cannot do.
    """
    called = [farm for pool in pools if (farm := _of_calls(pool, timeline)) is not None]
    known = [(farm.giver, rank) for farm in called for rank in farm.ranks]
    found = _of_messages(timeline, names or ProcessNames())
    return called + [farm for farm in found if (farm.giver, farm.ranks[0]) not in known]


def _of_calls(pool: CallPool, timeline: Timeline) -> TaskFarm | None:
    """The tasks of a pool of calls that are one piece of work each; None where few are, or few processes do them."""
    calls, rank = timeline.calls, timeline.locations.rank
    take, reply = (np.concatenate([getattr(each.tasks, name) for each in pool.rounds]) for name in ("take", "reply"))
    if np.count_nonzero(reply == take + 1) < NEARLY_ALL * len(take):
        return None
    burst = reply[reply == take + 1]
    count = np.bincount(rank[calls.location[burst]], minlength=timeline.ranks)
    burst = np.sort(burst[count[rank[calls.location[burst]]] >= SHOWS_THE_NOISE])
    ranks = np.flatnonzero(count >= SHOWS_THE_NOISE)
    if len(ranks) < 2:
        return None
    own = timeline.own
    seconds = weighted_count(own.burst, own.seconds - own.core_wait_s, len(calls) + len(rank))[: len(calls)]
    giver = int(rank[pool.rounds[0].tasks.giver[0]])
    found = _pool(int(calls.vertex[burst[0]]), giver, burst, ranks.tolist(), seconds, timeline)
    return replace(found, handing=frozenset(calls.vertex[burst].tolist()), pool=pool, order=pool)


def _of_messages(timeline: Timeline, names: ProcessNames) -> list[TaskFarm]:
    calls, own, locations = timeline.calls, timeline.own, len(timeline.locations)
    handed_by = _handed_by(timeline)
    giver = np.where(handed_by >= 0, calls.location[handed_by], handed_by)
    burst = np.flatnonzero(giver != NOBODY)
    if not len(burst):
        return []
    seconds = weighted_count(own.burst, own.seconds - own.core_wait_s, len(calls) + locations)[: len(calls)]
    # What each thread does before each call of the program, and by whom most of it was handed out.
    caller, _, number = distinct(calls.vertex.astype(np.int64) * locations + calls.location)
    before_s = weighted_count(number, seconds, len(caller))
    piece_of = number[burst]
    handed, one = number_columns(piece_of, giver[burst])
    pieces = np.bincount(handed)
    most = pieces >= NEARLY_ALL * np.bincount(piece_of)[piece_of[one]]
    often = np.zeros(len(caller), np.bool_)
    often[piece_of[one]] = pieces >= SHOWS_THE_NOISE
    members: dict[tuple[int, int], dict[str, list[int]]] = {}
    for who, by in zip(piece_of[one][most].tolist(), giver[burst[one]][most].tolist(), strict=True):
        role = names.role_of(int(timeline.locations.rank[caller[who] % locations]))
        members.setdefault((int(caller[who]) // locations, by), {}).setdefault(role, []).append(who)
    order = np.argsort(piece_of, kind="stable")
    first = np.searchsorted(piece_of[order], np.arange(len(caller) + 1))
    rank = timeline.locations.rank
    of_rank = np.argsort(rank, kind="stable")
    working = _Working(caller // locations, before_s)
    farms = []
    for vertex, by, role in ((*key, role) for key, roles in members.items() for role in roles):
        every = members[vertex, by][role]
        farm = [who for who in every if often[who]]
        ranks = np.unique(rank[caller[farm] % locations])
        if len(ranks) < 2:
            continue
        beside = np.concatenate(list(members[vertex, by].values()))
        if by != COUNTER:  # what the giver's other threads do meanwhile, or wait for, is beside the pool
            threads = of_rank[slice(*np.searchsorted(rank[of_rank], (rank[by], rank[by] + 1)))]
            key = vertex * locations + threads
            at = np.minimum(np.searchsorted(caller, key), len(caller) - 1)
            own = at[caller[at] == key]
            too_busy = (caller[own] % locations == by) & (before_s[own] > MAJORITY * before_s[farm].mean())
            beside = np.union1d(beside, own[~too_busy])
        if working.only(vertex, beside, MINOR * float(before_s[farm].mean())):
            tasks, all_tasks = (
                burst[np.concatenate([order[first[who] : first[who + 1]] for who in sorted(some)])]
                for some in (farm, every)
            )
            giver_rank = int(rank[by]) if by != COUNTER else COUNTER
            found = _pool(vertex, giver_rank, tasks, ranks.tolist(), seconds, timeline)
            farms.append(replace(found, order=_in_order(all_tasks, handed_by[all_tasks], timeline)))
    return farms


class _Working:
    """Who works before each call of the program. Built once, since every rank of a halo exchange hands out to others.

    Args:
        vertex: of the call, ascending ``[callers]``.
        before_s: what this caller does before it ``[callers]``.
    """

    def __init__(self, vertex: IntArray, before_s: FloatArray) -> None:
        order = np.lexsort((before_s, vertex))
        self._vertex, self._before_s, self._ascending_s = vertex, before_s, before_s[order]

    def only(self, vertex: int, callers: IntArray, least_s: float) -> bool:
        """Whether none but some callers do more than so much before a call. O(callers named), and O(log callers)."""
        low, high = np.searchsorted(self._vertex, (vertex, vertex + 1))
        more = high - low - np.searchsorted(self._ascending_s[low:high], least_s, side="right")
        return bool(more == np.count_nonzero(self._before_s[callers] > least_s))


def _pool(
    vertex: int, giver: int, burst: IntArray, ranks: list[int], seconds: FloatArray, timeline: Timeline
) -> TaskFarm:
    calls = timeline.calls
    rank, seconds, done_s = timeline.locations.rank[calls.location[burst]], seconds[burst], calls.enter_s[burst]
    number = np.searchsorted(ranks, rank)
    means = means_of(number, seconds)
    last_s = np.full(len(ranks), -np.inf)
    np.maximum.at(last_s, number, done_s)
    handing = frozenset((vertex, *_handing(burst, timeline)))
    return TaskFarm(
        vertex, handing, giver, burst, rank, seconds, ranks, means.mean, means.error, last_s, float(done_s.min())
    )


def _handing(burst: IntArray, timeline: Timeline) -> list[int]:
    """Vertices of the messages that are sent next after some calls which but complete others."""
    calls, found = timeline.calls, np.zeros(0, np.int64)
    call = burst
    for _ in range(TRIED_AT_MOST):
        call = call[np.isin(calls.operation[call], _COMPLETING) & (call + 1 < len(calls))]
        call = call[calls.location[call + 1] == calls.location[call]] + 1
        found = np.append(found, call[np.isin(calls.operation[call], MESSAGES)])
    return np.unique(calls.vertex[found]).tolist()


def _handed_by(timeline: Timeline) -> IntArray:
    """The call that handed out what is done before each call: that which sent the message which the call before it
    received, by another thread; or a counter that this asked ``[calls]``."""
    calls, instances = timeline.calls, timeline.instances
    count = len(calls)
    last = calls.wait_first[1:] - 1
    waited = calls.waits[np.maximum(last, 0)] if len(calls.waits) else np.zeros(count, np.int32)
    handed_by = np.full(count, NOBODY)
    if len(instances):
        message = (np.diff(instances.first) == 2) & np.isin(instances.operation, MESSAGES)
        rows = np.flatnonzero((last >= calls.wait_first[:-1]) & message[waited])
        send = instances.members[instances.first[waited[rows]]]
        apart = calls.location[send] != calls.location[rows]
        handed_by[rows[apart]] = send[apart]
    handed_by[np.isin(calls.operation, _WINDOW)] = COUNTER
    result = np.full(count, NOBODY)
    same = np.flatnonzero(np.diff(calls.location) == 0)
    result[same + 1] = handed_by[same]
    return result


def _in_order(burst: IntArray, handed_by: IntArray, timeline: Timeline) -> CallPool | None:
    """What does tasks again that end in some calls, and that others handed out, as if all were known from the begin of
    their round on: who hands out but answers whoever is free. All are one round where that gives what was recorded."""
    calls = timeline.calls
    if timeline.unwritten is not None or len(burst) > TASKS_REPLAYED:
        return None
    take, sent = burst - 1, handed_by >= 0
    given_s = np.where(sent, calls.enter_s[handed_by], calls.exit_s[take])
    giver = np.where(sent, calls.location[handed_by], NOBODY)
    worker = calls.location[take].astype(np.int64)
    tasks = Tasks(giver, calls.vertex[take], worker, take, burst, given_s, calls.exit_s[take], calls.enter_s[burst])
    tasks = tasks.some(np.lexsort((tasks.begin_s, given_s)))
    for apart in (False, True):
        rounds = [one.known_ahead() for one in rounds_of(tasks, timeline, apart)]
        # Who is free for as long as tasks take waits for others of them.
        pool = pool_of([one for one in rounds if one.lag_s <= MAJORITY * float(np.median(one.tasks.task_s))])
        if pool is not None and pool.tasks > MAJORITY * len(tasks):
            return pool
    return None
