"""Wait states: for every call, when the last thing it waits for was there, and whose arrival that was.

The release of a call, its wait and its culprit are those of Böhme et al. (ICPP 2010), with what an operation waits for
read from the table of operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.timeline import FloatArray, IntArray, Timeline
from scalana.runtime.operations import BY_CODE, Waits


@dataclass(slots=True)
class WaitStates:
    """One row per call of the timeline."""

    wait_s: FloatArray
    """Seconds of the call spent waiting for another rank ``[calls]``."""
    culprit: IntArray
    """Call whose arrival released this one, -1 where nothing was waited for ``[calls]``."""
    instance: IntArray
    """Instance that was released last, -1 likewise ``[calls]``."""

    @property
    def total_s(self) -> float:
        """Rank-seconds of all waiting."""
        return float(self.wait_s.sum())


def waits_table() -> IntArray:
    """Return what each operation code waits for, as an array indexed by code."""
    table = np.zeros(max(BY_CODE) + 1, dtype=np.int64)
    for code, operation in BY_CODE.items():
        table[code] = int(operation.waits)
    return table


def find_waits(timeline: Timeline) -> WaitStates:
    """Compute the wait of every call.

    Only instances whose members are all recorded are used: of the others the last arrival is not known. Cost is linear
    in the members of all instances.
    """
    calls = timeline.calls
    count = len(calls)
    release = np.full(count, -np.inf)
    culprit = np.full(count, -1, dtype=np.int64)
    instance_of = np.full(count, -1, dtype=np.int64)
    wait_call, wait_instance = _expand(calls.wait_first), calls.waits
    if not len(wait_instance):
        return WaitStates(np.zeros(count), culprit, instance_of)
    kind = waits_table()[np.clip(calls.operation, 0, max(BY_CODE))]
    pair_release, pair_culprit = _pair_releases(timeline, wait_call, wait_instance)
    # Of several requests the latest decides, or the earliest where the call returns with any of them.
    any_request = kind[wait_call] == Waits.ANY_REQUEST
    known = pair_culprit >= 0
    key = np.where(any_request, -pair_release, pair_release)
    order = np.lexsort((key, wait_call))
    order = order[known[order]]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = wait_call[order][1:] != wait_call[order][:-1]
    chosen = order[last]
    release[wait_call[chosen]] = pair_release[chosen]
    culprit[wait_call[chosen]] = pair_culprit[chosen]
    instance_of[wait_call[chosen]] = wait_instance[chosen]
    wait = np.maximum(0.0, np.minimum(release, calls.exit_s) - calls.enter_s)
    own = culprit >= 0
    own[own] = calls.location[culprit[own]] == calls.location[np.nonzero(own)[0]]
    wait[own | (culprit < 0)] = 0.0
    culprit[wait <= 0.0] = -1
    instance_of[wait <= 0.0] = -1
    return WaitStates(wait, culprit, instance_of)


def _expand(first: IntArray) -> IntArray:
    """Row number of every entry of a compressed row structure."""
    return np.repeat(np.arange(len(first) - 1, dtype=np.int64), np.diff(first))


def _pair_releases(timeline: Timeline, wait_call: IntArray, wait_instance: IntArray) -> tuple[FloatArray, IntArray]:
    """Release and culprit call of each (call, instance) pair, -inf and -1 where it waits for nobody."""
    calls, instances = timeline.calls, timeline.instances
    rank_of_call = timeline.locations.rank[calls.location]
    kind = waits_table()[np.clip(instances.operation, 0, max(BY_CODE))]
    enter = calls.enter_s[instances.members]
    last = _last_member(enter, instances.first)
    root = _root_member(rank_of_call[instances.members], instances.root, instances.first)
    release = np.full(len(wait_call), -np.inf)
    culprit = np.full(len(wait_call), -1, dtype=np.int64)

    usable = instances.complete[wait_instance]
    pair_kind = kind[wait_instance]
    caller_rank = rank_of_call[wait_call]
    is_root = caller_rank == instances.root[wait_instance]

    def take(rows: np.ndarray, member: IntArray) -> None:
        rows = rows & (member >= 0)
        release[rows] = enter[member[rows]]
        culprit[rows] = instances.members[member[rows]]

    take(usable & (pair_kind == Waits.ALL), last[wait_instance])
    take(usable & (pair_kind == Waits.AT_ROOT) & is_root, last[wait_instance])
    take(usable & (pair_kind == Waits.ROOT) & ~is_root, root[wait_instance])
    lower = np.nonzero(usable & (pair_kind == Waits.LOWER))[0]
    for row in lower:  # scans are rare and their members few: a plain loop
        i = wait_instance[row]
        members = np.arange(instances.first[i], instances.first[i + 1])
        below = members[rank_of_call[instances.members[members]] < caller_rank[row]]
        if len(below):
            member = below[np.argmax(enter[below])]
            release[row], culprit[row] = enter[member], instances.members[member]

    # A message: its instance carries the operation of the send, and its members are the send and the receive.
    message = usable & np.isin(pair_kind, (Waits.NOBODY, Waits.RECEIVER, Waits.SENDER))
    message &= (instances.first[wait_instance + 1] - instances.first[wait_instance]) == 2
    send_member = np.where(message, instances.first[wait_instance], -1)
    receive_member = np.where(message, instances.first[wait_instance] + 1, -1)
    posts_send = np.zeros(len(wait_call), dtype=bool)
    rows = np.nonzero(message)[0]
    send_calls = instances.members[send_member[rows]]
    posts_send[rows] = calls.location[send_calls] == calls.location[wait_call[rows]]
    take(message & ~posts_send, send_member)
    # A send that lasted until its receiver was there has waited for it (late receiver); one that returned before was
    # buffered, and waited for nobody.
    late = message & posts_send
    rows = np.nonzero(late)[0]
    late[rows] = calls.exit_s[wait_call[rows]] >= enter[receive_member[rows]]
    take(late, receive_member)
    return release, culprit


def _last_member(enter: FloatArray, first: IntArray) -> IntArray:
    """Index into the member table of the latest arrival of each instance (-1 without members)."""
    if not len(enter):
        return np.full(len(first) - 1, -1, dtype=np.int64)
    order = np.lexsort((enter, _expand(first)))
    last = np.full(len(first) - 1, -1, dtype=np.int64)
    filled = np.diff(first) > 0
    last[filled] = order[first[1:][filled] - 1]
    return last


def _root_member(rank: IntArray, root: IntArray, first: IntArray) -> IntArray:
    """Index into the member table of the root of each instance (-1 where it has none)."""
    result = np.full(len(first) - 1, -1, dtype=np.int64)
    instance = _expand(first)
    hits = np.nonzero(rank == root[instance])[0]
    result[instance[hits]] = hits
    return result
