"""Processes that take calls of one that waits for them, and what more of them would bring.

Whichever is free takes the next call: the recorded calls are done again by list scheduling (R. L. Graham, 1969) on
more processes. A call stays whole, and more processes get no more cores: what calls compute takes at least as long as
on all cores that there are. Actors, and ranks that are called, have calls of their own: it is not known which of these
could be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.whatif.call_pools import CallPool, Round, Tasks, find_tasks, rounds_of
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.shards import rows_of_ranges
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.worlds import POOL_WORKER, WORKER
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import TAKING


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Processes that take the calls which one process hands over at one line."""

    giver: int
    """Rank of the process that does."""
    ranks: tuple[int, ...]
    """Of those that work."""
    rounds: tuple[Round, ...]
    """Calls that were under way together."""

    def busy_s(self) -> FloatArray:
        """Seconds of each worker in calls ``[workers]``."""
        worker, seconds = (
            np.concatenate([getattr(one.tasks, name) for one in self.rounds]) for name in ("worker", "task_s")
        )
        _, number = np.unique(worker, return_inverse=True)
        return weighted_count(number, seconds, int(number.max(initial=-1)) + 1)

    def bursts(self) -> IntArray:
        """What workers do in calls, as bursts of the timeline ``[bursts]``."""
        return np.concatenate([_bursts(one.tasks) for one in self.rounds])

    def waited_s(self, timeline: Timeline) -> float:
        """Seconds that the process that hands over waits while calls are under way."""
        calls, rank = timeline.calls, timeline.locations.rank
        edges = np.array([(one.begin_s, one.end_s) for one in self.rounds])
        mine = np.flatnonzero((rank[calls.location] == self.giver) & np.isin(calls.operation, TAKING))
        mine = mine[timeline.locations.is_main[calls.location[mine]]]
        waited_s = 0.0
        for begin_s, end_s in edges.tolist():
            inside = np.minimum(calls.exit_s[mine], end_s) - np.maximum(calls.enter_s[mine], begin_s)
            waited_s += float(np.maximum(inside, 0.0).sum())
        return waited_s

    def with_more(self, times: int, timeline: Timeline, cores: int) -> Change:
        """The run with so many times as many workers, which ``cores`` cores (0: not known) run."""
        own = timeline.own
        bursts = len(timeline.calls) + len(timeline.locations)
        wanted_s = own.cpu_s + own.core_wait_s  # who waits for a core would compute
        own_s, core_s = (weighted_count(own.burst, column, bursts) for column in (own.seconds, wanted_s))
        removed_s = np.zeros(bursts)
        for one in self.rounds:
            at = _bursts(one.tasks)
            least_s = float(core_s[at].sum()) / cores if cores else 0.0
            whole_s = max(one.again_s(True) - one.begin_s, 1e-300)
            took_s = max(self._more(one, times).again_s(True) - one.begin_s, least_s)
            removed_s[at] = own_s[at] * (1.0 - min(took_s / whole_s, 1.0))
        return Change.of(removed_s)

    def _more(self, one: Round, times: int) -> Round:
        """A round with so many times as many workers, free from its begin on."""
        more = {-1 - number: one.begin_s for number in range((times - 1) * len(self.ranks))}
        return replace(one, free_s={**one.free_s, **more})


def worker_groups(timeline: Timeline, names: ProcessNames, pools: Sequence[CallPool]) -> list[WorkerGroup]:
    """All of a run: processes that are there for whatever is called, and actors of which whichever is free takes the
    next call, as in ``pools``. O(calls log calls)."""
    tasks = find_tasks(timeline)
    rank = timeline.locations.rank
    shared = {frozenset(rank[list(pool.workers)].tolist()) for pool in pools}
    found = []
    for giver, site in np.unique(np.stack((tasks.giver, tasks.site), axis=1), axis=0).tolist():
        mine = tasks.some(np.flatnonzero((tasks.giver == giver) & (tasks.site == site)))
        ranks = tuple(np.unique(rank[mine.worker]).tolist())
        if {names.role_of(one) for one in ranks} <= {WORKER, POOL_WORKER} or frozenset(ranks) in shared:
            if len(mine) >= SEVERAL and int(rank[giver]) not in ranks:
                found.append(WorkerGroup(int(rank[giver]), ranks, tuple(rounds_of(mine, timeline))))
    return found


def _bursts(tasks: Tasks) -> IntArray:
    """The bursts of some calls ``[bursts]``."""
    return rows_of_ranges(tasks.take + 1, tasks.reply - tasks.take)
