"""The tail of generation on few replicas: one with few trajectories left hands them to another, and is free.

As in Laminar (arXiv:2510.12633, section 5): replicas of the same weights that have nothing left to begin are bins, and
trajectories go to the fullest one that has room for all of a replica. Laminar looks every five seconds, and bounds the
memory of the cache as well; here this is done whenever a trajectory ends.
"""

from __future__ import annotations

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.workload.replica_state import Costs, Course, State, hand_over


@compiled
def _fullest(r: int, few: int, is_last: bool, state: State) -> int:
    """The replica with most trajectories that one place has room for together with those of a replica; -1 for none."""
    best, most = -1, 0
    for other in range(len(state.taken)):
        there = state.taken[other]
        if other == r or there <= most or there + state.taken[r] > few:
            continue
        if state.version[other] == state.version[r] and (is_last or state.quota[other] == 0):
            best, most = other, there
    return best


@compiled
def repack(r: int, few: int, is_last: bool, now: float, state: State, costs: Costs, course: Course) -> None:
    """Have a replica on which a trajectory ended hand over the others, or get those of another one: the fewer move.

    Args:
        r: the replica.
        few: trajectories that a replica may have of its own and of others.
        is_last: whether nothing is left to begin anywhere.
        now: when.
        state: of all replicas.
        costs: of generation.
        course: what happened so far, which changes.
    """
    if state.taken[r] == 0 or state.taken[r] >= few or (state.quota[r] > 0 and not is_last):
        return
    other = _fullest(r, few, is_last, state)
    if other < 0:
        return
    source, to = (r, other) if state.taken[r] <= state.taken[other] else (other, r)
    for place in range(state.taken[source]):
        course.replica[state.owner[source, place]] = to
    hand_over(source, to, now, state, costs, course.busy_s)
