"""Wait states: for every call, when the last thing it waits for was there, and whose arrival that was.

The release of a call, its wait and its culprit are those of Böhme et al. (ICPP 2010), with what an operation waits for
read from the table of operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.columns import concatenate
from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.shards import chunks, each, portions_of, rows_of_ranges
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations, idle_takes
from scalana.graphs.timeline import ROW, Calls, Timeline
from scalana.runtime.operations import BY_CODE, BY_NAME, GIVING, Waits


@dataclass(slots=True)
class WaitStates:
    """One row per call of the timeline."""

    wait_s: FloatArray
    """Seconds of the call spent waiting for another rank ``[calls]``."""
    culprit: IntArray
    """Call whose arrival released this one, -1 where nothing was waited for ``[calls]``."""
    instance: IntArray
    """Instance that was released last, -1 likewise ``[calls]``."""

    def all_s(self, timeline: Timeline) -> FloatArray:
        """Seconds of waiting in every call and in those, not written, that it stands for ``[calls]``."""
        return self.wait_s if timeline.unwritten is None else self.wait_s * timeline.unwritten.stands_for

    def transfer_s(self, timeline: Timeline) -> FloatArray:
        """Seconds of every call of the timeline alone that are no waiting ``[calls]``."""
        calls = timeline.calls
        return np.asarray(np.maximum(calls.exit_s - calls.enter_s - self.wait_s, 0.0))

    @property
    def total_s(self) -> float:
        """Rank-seconds of waiting in the calls of the timeline alone."""
        return float(self.wait_s.sum())


class Rule(IntEnum):
    """How the release of one (call, instance) pair follows from the arrivals at the instance."""

    NONE = 0
    LAST = 1
    """The latest arrival of any member."""
    ONE = 2
    """The arrival of one call: a root's, a sender's, a receiver's."""
    LOWER = 3
    """The latest arrival of a lower rank."""


_ROOTED = np.isin(range(max(Waits) + 1), (Waits.ROOT, Waits.AT_ROOT, Waits.NEIGHBOURS, Waits.NAMED))
_MESSAGE = np.isin(range(max(Waits) + 1), (Waits.NOBODY, Waits.RECEIVER, Waits.SENDER))
_RESULT, _SUBMIT = (BY_NAME[name].code for name in ("result", "submit"))
_RULES = np.full(max(Waits) + 1, Rule.NONE, dtype=np.int8)
_RULES[[Waits.ALL, Waits.LOWER]] = Rule.LAST, Rule.LOWER


@dataclass(slots=True)
class Dependencies:
    """One row per (call, instance it waits for), in the order of ``Calls.waits``: who releases it."""

    rule: IntArray
    """See :class:`Rule` ``[pairs]``."""
    on: IntArray
    """The call that it depends on where the rule is ONE, -1 otherwise ``[pairs]``."""
    earliest: np.ndarray
    """Whether the call returns with the earliest of its instances rather than the latest ``[calls]``."""


def waits_table() -> npt.NDArray[Any]:
    """Return what each operation code waits for, as an array indexed by code."""
    table = np.zeros(max(BY_CODE) + 1, dtype=np.int8)
    for code, operation in BY_CODE.items():
        table[code] = int(operation.waits)
    return table


def find_waits(timeline: Timeline, dependencies: Dependencies | None = None) -> WaitStates:
    """Compute the wait of every call.

    Only instances whose members are all recorded are used: of the others the last arrival is not known. Cost is linear
    in the members of all instances.
    """
    pairs = dependencies or find_dependencies(timeline)
    last = last_member(timeline)
    parts = each(lambda at: _waits_of(timeline, pairs, last, at), chunks(len(timeline.calls)))
    return concatenate(parts, WaitStates) if parts else WaitStates(np.zeros(0), *(np.zeros((2, 0), dtype=np.int32)))


def unwritten_waits(timeline: Timeline, waits: WaitStates) -> FloatArray | None:
    """Estimated seconds of waiting in the calls that were not written, by burst; None where all were ``[bursts]``.

    Of every location as large a part of these calls as the written ones say of all its calls.
    """
    unwritten, calls = timeline.unwritten, timeline.calls
    if unwritten is None:
        return None
    count = len(timeline.locations)
    extra = np.bincount(calls.location, waits.all_s(timeline) - waits.wait_s, count)
    location = burst_locations(timeline)
    between = np.bincount(location, unwritten.burst_s, count)
    part = np.divide(extra, between, out=np.zeros(count), where=between > 0.0)
    return np.asarray(unwritten.burst_s * np.clip(part, 0.0, 1.0)[location])


def _waits_of(timeline: Timeline, pairs: Dependencies, last: IntArray, at: slice) -> WaitStates:
    """The waits of some calls. ``last`` is the entry of the latest arrival in the table of members ``[instances]``."""
    calls = timeline.calls
    count = at.stop - at.start
    release = np.full(count, -np.inf)
    culprit, instance_of = np.full(count, -1, dtype=ROW), np.full(count, -1, dtype=ROW)
    rows = slice(int(calls.wait_first[at.start]), int(calls.wait_first[at.stop]))
    call, instance = _expand(calls.wait_first[at.start : at.stop + 1]), calls.waits[rows]
    enter, leave = calls.enter_s[at], calls.exit_s[at]
    pair_release, pair_culprit = _pair_releases(timeline, call + at.start, instance, pairs, last, rows)
    # Of several requests the latest decides, or the earliest where the call returns with any of them.
    order = np.flatnonzero(pair_culprit >= 0)
    if (np.diff(call[order]) <= 0).any():  # some calls wait for several
        key = np.where(pairs.earliest[at][call], -pair_release, pair_release)
        order = order[np.lexsort((key[order], call[order]))]
        order = order[np.append(np.diff(call[order]) != 0, True)]
    chosen = call[order]
    release[chosen] = pair_release[order]
    culprit[chosen] = pair_culprit[order]
    instance_of[chosen] = instance[order]
    wait = np.maximum(0.0, np.minimum(release, leave) - enter)
    own = culprit >= 0
    own[own] = calls.location[culprit[own]] == calls.location[at][own]
    wait[own | (culprit < 0)] = 0.0
    wait[idle_takes(timeline, at)] = 0.0
    culprit[wait <= 0.0] = -1
    instance_of[wait <= 0.0] = -1
    return WaitStates(wait, culprit, instance_of)


def find_dependencies(timeline: Timeline) -> Dependencies:
    """Tell for every (call, instance) pair whose arrival releases it, by the table of operations."""
    calls, instances = timeline.calls, timeline.instances
    table = waits_table()
    kind = table[np.clip(instances.operation, 0, len(table) - 1)]
    known = _Members(
        kind=kind,
        root=_root_member(timeline, _ROOTED[kind]),
        last=last_member(timeline),
        arrivals=_Arrivals.of(timeline, table),
        giver=givers(timeline),
    )

    def find(at: slice) -> tuple[IntArray, IntArray]:
        first, end = np.searchsorted(calls.wait_first, [at.start, at.stop - 1], side="right") - 1
        pairs_first = np.clip(calls.wait_first[first : end + 2], at.start, at.stop)
        return _dependencies_of(timeline, known, first + _expand(pairs_first), calls.waits[at])

    parts = each(find, chunks(len(calls.waits)))
    none = np.zeros(0, dtype=np.int8), np.zeros(0, dtype=ROW)
    rule, on = (np.concatenate(columns) for columns in zip(none, *parts, strict=True))
    _let_go(timeline, rule, on)
    earliest = table[np.clip(calls.operation, 0, len(table) - 1)] == Waits.ANY_REQUEST
    return Dependencies(rule, on, earliest)


@dataclass(slots=True)
class _Members:
    """What is known of the instances of a run. Entries are rows of the table of members, -1 for none."""

    kind: IntArray
    """What they wait for ``[instances]``."""
    root: IntArray
    """Entry of the root ``[instances]``."""
    last: IntArray
    """Entry of the latest arrival ``[instances]``."""
    arrivals: _Arrivals
    giver: IntArray
    """Call that gives what the others take, -1 where there is none ``[instances]``."""


def givers(timeline: Timeline) -> IntArray:
    """The call that gives what all others of an instance take, -1 in other instances ``[instances]``."""
    calls = timeline.calls
    given = np.flatnonzero(np.isin(calls.operation, GIVING) & (calls.posts >= 0))
    result = np.full(len(timeline.instances), -1, dtype=ROW)
    result[calls.posts[given]] = given
    return result


def _dependencies_of(
    timeline: Timeline, known: _Members, call: IntArray, instance: IntArray
) -> tuple[IntArray, IntArray]:
    """Rule and call that it is about of some pairs ``[pairs]``."""
    instances = timeline.instances
    kind, usable = known.kind[instance], instances.complete[instance]
    rule = np.where(usable, _RULES[kind], np.int8(Rule.NONE))
    on = np.full(len(call), -1, dtype=ROW)
    rooted = np.flatnonzero(usable & _ROOTED[kind])
    if len(rooted):
        rule[rooted], on[rooted] = _of_rooted(timeline, known, call[rooted], instance[rooted])
    scan = np.flatnonzero(usable & (kind == Waits.LOWER))
    if len(scan):
        rule[scan], on[scan] = _of_scans(timeline, known, call[scan], instance[scan])
    handed = np.isin(instances.operation[instance], GIVING)
    given = np.flatnonzero(usable & handed)
    if len(given):
        rule[given], on[given] = _of_given(timeline, known.giver, call[given], instance[given])
    # A message: its instance carries the operation of the send, and its members are the send and the receive.
    message = np.flatnonzero(usable & _MESSAGE[kind] & ~handed)
    message = message[instances.first[instance[message] + 1] - instances.first[instance[message]] == 2]
    if len(message):
        rule[message], on[message] = _of_messages(timeline, call[message], instance[message])
    return rule, on


def _of_messages(timeline: Timeline, call: IntArray, instance: IntArray) -> tuple[IntArray, IntArray]:
    """The same of pairs that are messages."""
    calls, instances = timeline.calls, timeline.instances
    send, receive = (instances.members[instances.first[instance] + side] for side in (0, 1))
    is_sender = calls.location[send] == calls.location[call]
    # A send that lasted until its receiver was there has waited for it (late receiver); one that returned before was
    # buffered, and waited for nobody.
    waits = ~is_sender | (calls.exit_s[call] >= calls.enter_s[receive])
    on = np.where(is_sender, receive, send)
    return np.where(waits, np.int8(Rule.ONE), np.int8(Rule.NONE)), np.where(waits, on, -1)


def _of_given(timeline: Timeline, giver: IntArray, call: IntArray, instance: IntArray) -> tuple[IntArray, IntArray]:
    """The same of pairs that take what one call gives, as often as there are some that take it."""
    location, on = timeline.calls.location, giver[instance]
    waits = (on >= 0) & (location[np.maximum(on, 0)] != location[call])
    return np.where(waits, np.int8(Rule.ONE), np.int8(Rule.NONE)), np.where(waits, on, -1)


def _let_go(timeline: Timeline, rule: IntArray, on: IntArray) -> None:
    """Let results depend on the call that let an event loop reply, where they came at once behind that, and on the
    reply where not; in place. Only those of event loops depend on a call that was submitted."""
    calls, instances = timeline.calls, timeline.instances
    if not (instances.operation == _SUBMIT).any():
        return
    pair = np.flatnonzero((rule == Rule.ONE) & (instances.operation[calls.waits] == _SUBMIT))
    call = np.searchsorted(calls.wait_first, pair, side="right") - 1
    is_result = calls.operation[call] == _RESULT
    pair, call = pair[is_result], call[is_result]
    if not len(pair):
        return
    submitted_s = np.full(len(calls), -np.inf)
    np.maximum.at(submitted_s, call, calls.enter_s[on[pair]])
    since_s, until_s = submitted_s - calls.enter_s, calls.exit_s - submitted_s
    at_once = (since_s > 0.0) & (until_s <= MAJORITY * since_s)
    rule[pair[~at_once[call]]] = Rule.NONE
    call = np.unique(call[at_once[call]])
    size = calls.wait_first[call + 1] - calls.wait_first[call]
    others, of = rows_of_ranges(calls.wait_first[call], size), np.repeat(call, size)
    later = (rule[others] == Rule.ONE) & (calls.enter_s[np.maximum(on[others], 0)] > submitted_s[of])
    rule[others[later]] = Rule.NONE
    on[rule == Rule.NONE] = -1


def _of_rooted(timeline: Timeline, known: _Members, call: IntArray, instance: IntArray) -> tuple[IntArray, IntArray]:
    """The same of pairs whose operation has a root."""
    calls, instances = timeline.calls, timeline.instances
    rank = timeline.locations.rank[calls.location[call]]
    kind, root, last = known.kind[instance], known.root[instance], known.last[instance]
    is_root = rank == instances.root[instance]
    rule = np.where((kind == Waits.AT_ROOT) & is_root, np.int8(Rule.LAST), np.int8(Rule.NONE))
    on = np.full(len(call), -1, dtype=np.int64)

    def depend(rows: np.ndarray, member: IntArray) -> None:
        rows = rows & (member >= 0)
        rule[rows] = Rule.ONE
        on[rows] = instances.members[member[rows]]

    # Of an instance that is a signal (graphs/signals/) the root is who gives it.
    depend(np.isin(kind, (Waits.ROOT, Waits.NEIGHBOURS, Waits.NAMED)) & ~is_root, root)
    # Where messages are not buffered, who hands its part to a root waits until the root is there to take it: told, as
    # for a send below, by its leaving only then.
    handing = (kind == Waits.AT_ROOT) & ~is_root & (root >= 0)
    rows = np.nonzero(handing)[0]
    handing[rows] = calls.exit_s[call[rows]] >= calls.enter_s[instances.members[root[rows]]]
    depend(handing, root)
    # The root of a broadcast, likewise: where it stayed until a receiver came, it has waited for that one. Trees and
    # rings, in which some libraries do it, make members wait for others than the root.
    to_all = kind == Waits.ROOT
    to_neighbours = (kind == Waits.NEIGHBOURS) & is_root
    to_root = (kind == Waits.AT_ROOT) & ~is_root
    came = known.arrivals.latest_during(calls, call, instance, to_all | to_root | to_neighbours)
    depend((to_all & is_root) | to_neighbours, came)
    beside = _stays_for_others(timeline, call, np.where(is_root, -1, came), rule, on)
    depend(beside, came)
    # Who hands to a root but stays for the last of all is in a ring with all of them.
    rule[beside & to_root & (last == came) & (came != root)] = Rule.LAST
    return rule, on


def _of_scans(timeline: Timeline, known: _Members, call: IntArray, instance: IntArray) -> tuple[IntArray, IntArray]:
    """The same of pairs whose operation is a scan: lower ranks, or a higher one where the library has them exchange
    what they hold, told by the lower one's leaving only then."""
    calls, members = timeline.calls, timeline.instances.members
    came = known.arrivals.latest_during(calls, call, instance, np.ones(len(call), dtype=bool))
    rank = timeline.locations.rank
    came[(came >= 0) & (rank[calls.location[members[came]]] < rank[calls.location[call]])] = -1
    higher = came >= 0
    lower = np.full(len(call), -1, dtype=np.int64)
    lower[higher] = _latest_lower(timeline, call[higher], instance[higher])
    beside = _stays_for_others(timeline, call, came, np.where(lower >= 0, np.int8(Rule.ONE), np.int8(Rule.NONE)), lower)
    rule = np.where(beside, np.int8(Rule.ONE), np.int8(Rule.LOWER))
    rule[beside & (known.last[instance] == came)] = Rule.LAST
    return rule, np.where(rule == Rule.ONE, members[came], -1)


def _latest_lower(timeline: Timeline, call: IntArray, instance: IntArray) -> IntArray:
    """The last call to come of the lower ranks of some pairs, -1 where there is none ``[pairs]``."""
    calls, instances, rank = timeline.calls, timeline.instances, timeline.locations.rank
    latest = np.full(len(call), -1, dtype=np.int64)
    for row, (i, own) in enumerate(zip(instance.tolist(), rank[calls.location[call]].tolist(), strict=True)):
        # Scans are rare and their members few: a plain loop.
        members = instances.members[instances.first[i] : instances.first[i + 1]]
        below = members[rank[calls.location[members]] < own]
        if len(below):
            latest[row] = below[np.argmax(calls.enter_s[below])]
    return latest


def _stays_for_others(
    timeline: Timeline, call: IntArray, came: IntArray, rule: IntArray, on: IntArray
) -> npt.NDArray[np.bool_]:
    """Whether a member left only when another one had come, and soon after: within half of what it stayed for it.

    ``came`` is that one's entry in the table of members, -1 for none ``[pairs]``; ``rule`` and ``on`` are what the
    members waited for before that, as far as it is known.
    """
    calls = timeline.calls
    rows = np.nonzero(came >= 0)[0]
    enter = calls.enter_s[timeline.instances.members[came[rows]]]
    since = calls.enter_s[call[rows]]
    known = np.nonzero(rule[rows] == Rule.ONE)[0]
    since[known] = np.maximum(since[known], calls.enter_s[on[rows[known]]])
    result = np.zeros(len(call), dtype=bool)
    result[rows] = (enter > since) & (calls.exit_s[call[rows]] - enter <= MAJORITY * (enter - since))
    return result


@dataclass(slots=True)
class _Arrivals:
    """Members in the order in which they came, of instances for which that matters: those with a root, and scans."""

    first: IntArray
    """``[instances + 1]``"""
    entry: IntArray
    """In the table of members ``[arrivals]``."""
    enter_s: FloatArray
    """``[arrivals]``"""

    @classmethod
    def of(cls, timeline: Timeline, table: IntArray) -> _Arrivals:
        """Sort them."""
        instances = timeline.instances
        kind = table[np.clip(instances.operation, 0, len(table) - 1)]
        wanted = np.isin(kind, (Waits.ROOT, Waits.AT_ROOT, Waits.LOWER, Waits.NEIGHBOURS))
        if not wanted.any():
            return cls(np.zeros(len(instances) + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
        of_member = _expand(instances.first)
        entries = np.nonzero(wanted[of_member])[0]
        enter = timeline.calls.enter_s[instances.members[entries]]
        order = np.lexsort((enter, of_member[entries]))
        entries, enter = entries[order], enter[order]
        first = np.searchsorted(of_member[entries], np.arange(len(instances) + 1)).astype(np.int64)
        return cls(first, entries, enter)

    def latest_during(self, calls: Calls, call: IntArray, instance: IntArray, rows: np.ndarray) -> IntArray:
        """Of the members that came during the call of a pair in ``rows`` the last, -1 where there is none
        ``[pairs]``."""
        result = np.full(len(call), -1, dtype=np.int64)
        asked = np.nonzero(rows)[0]
        if len(asked):
            low, high = self.first[instance[asked]], self.first[instance[asked] + 1]
            since_s, until_s = calls.enter_s[call[asked]], calls.exit_s[call[asked]]
            result[asked] = _latest_before(low, high, since_s, until_s, self.enter_s, self.entry)
        return result


@compiled
def _latest_before(low, high, since_s, until_s, enter, entries):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Of the ``entries`` from each ``low`` to ``high``, in order of ``enter``, the last in a stretch of time."""
    result = np.full(len(low), -1, dtype=np.int64)
    for row in range(len(low)):
        begin, end = low[row], high[row]
        while begin < end:
            middle = (begin + end) // 2
            if enter[middle] <= until_s[row]:
                begin = middle + 1
            else:
                end = middle
        if begin > low[row] and enter[begin - 1] > since_s[row]:
            result[row] = entries[begin - 1]
    return result


def _expand(first: IntArray) -> IntArray:
    """Row number of every entry of a compressed row structure."""
    return np.repeat(np.arange(len(first) - 1, dtype=np.int64), np.diff(first))


def _pair_releases(
    timeline: Timeline, call: IntArray, instance: IntArray, pairs: Dependencies, last: IntArray, at: slice
) -> tuple[FloatArray, IntArray]:
    """Release and culprit call of some (call, instance) pairs, -inf and -1 where they wait for nobody."""
    calls, instances = timeline.calls, timeline.instances
    rule = pairs.rule[at]
    release = np.full(len(call), -np.inf)
    culprit = pairs.on[at].copy()
    rows = np.flatnonzero(rule == Rule.LAST)
    culprit[rows] = instances.members[last[instance[rows]]]
    rows = np.flatnonzero(rule == Rule.LOWER)
    culprit[rows] = _latest_lower(timeline, call[rows], instance[rows])
    release[culprit >= 0] = calls.enter_s[culprit[culprit >= 0]]
    return release, culprit


def last_member(timeline: Timeline) -> IntArray:
    """Index into the member table of the latest arrival of each instance (-1 without members)."""
    first = timeline.instances.first
    if not len(timeline.instances.members):
        return np.full(len(first) - 1, -1, dtype=np.int64)
    last = np.empty(len(first) - 1, dtype=ROW)
    each(
        lambda at: _latest(timeline.calls.enter_s, timeline.instances.members, first, at.start, at.stop, last),
        portions_of(first),
    )
    return last


@compiled
def _latest(enter_s, members, first, low, high, last):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Of several that are equally late the last; of the instances from ``low`` to ``high``."""
    for instance in range(low, high):
        last[instance] = -1
        latest_s = -np.inf
        for member in range(first[instance], first[instance + 1]):
            if enter_s[members[member]] >= latest_s:
                last[instance], latest_s = member, enter_s[members[member]]


def last_arrivals_s(timeline: Timeline) -> FloatArray:
    """When the last member of every instance came, -inf where there is none ``[instances]``."""
    entry, members = last_member(timeline), timeline.instances.members
    last_s = np.full(len(entry), -np.inf)
    last_s[entry >= 0] = timeline.calls.enter_s[members[entry[entry >= 0]]]
    return last_s


def _root_member(timeline: Timeline, rooted: npt.NDArray[np.bool_]) -> IntArray:
    """Index into the member table of the root of each instance that is ``rooted`` (-1 where it has none)."""
    instances = timeline.instances
    result = np.full(len(instances), -1, dtype=ROW)
    which = np.flatnonzero(rooted)
    size = instances.first[which + 1] - instances.first[which]
    entry = rows_of_ranges(instances.first[which], size)
    instance = np.repeat(which, size)
    hits = timeline.locations.rank[timeline.calls.location[instances.members[entry]]] == instances.root[instance]
    result[instance[hits]] = entry[hits]
    return result
