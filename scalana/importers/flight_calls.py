"""What the flight recorders of several ranks saw, as calls on one axis of time: which are one operation, when each
began and ended, and which were never complete.

A dump has the moment at which the host called an operation, and little of when the device worked on it: how long it
took, if the job measured that. Kernels of one collective end together, so whose was the shortest came last. A library
of the host (gloo) has a rank wait in the call itself, until the last one has called.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from scalana.importers.collectives import operation_of
from scalana.importers.errors import TraceError
from scalana.importers.flight_arrivals import Arrivals, settle
from scalana.importers.flight_call import AFTER_S, MESSAGES, ON_HOST, TOGETHER, FlightCall
from scalana.importers.flight_dump import Dump
from scalana.runtime.operations import OPERATIONS

_BLOCKS = 1 << 8
"""Collectives that may share a number, as those of a coalesced call do."""
_CHANNEL = 1 << 30
"""Number of the first message of a channel that was not complete: those before it are counted from there."""


@dataclass(slots=True)
class Flight:
    """All dumps."""

    world_size: int
    end_ns: int
    """When the dumps were written, as far as that is known."""
    calls: list[list[FlightCall]] = field(default_factory=list)
    """Those that were complete, of each dump in the order in which they began."""
    open: list[FlightCall | None] = field(default_factory=list)
    """The first that was not complete, of each dump."""
    notes: list[str] = field(default_factory=list)


def flight_of(dumps: Sequence[Dump]) -> Flight:
    """Put the dumps of several ranks together; their ranks are known.

    Raises:
        TraceError: no rank recorded an operation.
    """
    if not any(dump.entries for dump in dumps):
        raise TraceError(_no_operation(dumps))
    world = max([dump.world_size for dump in dumps] + [dump.rank + 1 for dump in dumps])
    groups = _groups(dumps, world)
    calls = [_calls(dump, groups) for dump in dumps]
    arrivals = Arrivals(dumps, calls)
    done = [_complete(dump.rank, own, arrivals) for dump, own in zip(dumps, calls, strict=True)]
    shared = [Counter((call.entry.group, call.seq) for call in own if not call.entry.is_message) for own in calls]
    several = {group for own in shared for (group, _), count in own.items() if count > 1}
    for own, complete in zip(calls, done, strict=True):
        _number(own, complete, several)
    flight = Flight(world, 0)
    pending = [
        next((call for call, complete in zip(own, finished, strict=True) if not complete), None)
        for own, finished in zip(calls, done, strict=True)
    ]
    settled = settle(dumps, pending, calls, arrivals)
    flight.open = pending
    flight.end_ns = _written_ns(dumps, pending)
    known = _known_to_all(calls, dumps)
    whole = [
        [call for call, complete in zip(own, finished, strict=True) if complete and known(call)]
        for own, finished in zip(calls, done, strict=True)
    ]
    _set_times(whole)
    flight.calls = whole
    flight.notes = _notes(dumps, whole, pending, world) + settled
    return flight


def _no_operation(dumps: Sequence[Dump]) -> str:
    """What is wrong with dumps that hold no operation, and how far ranks were as far as they say."""
    least: dict[str, tuple[int, int]] = {}
    most: dict[str, int] = {}
    for dump in dumps:
        for group, (called, _) in dump.reached.items():
            least[group] = min(least.get(group, (called, dump.rank)), (called, dump.rank))
            most[group] = max(most.get(group, called), called)
    behind = [
        f"; rank {rank} had called {called} collectives of group {group}, another rank {most[group]}"
        for group, (called, rank) in least.items()
        if called < most[group]
    ]
    return "the dumps hold no operation: set TORCH_FR_BUFFER_SIZE in the job" + "".join(behind[:1])


def _groups(dumps: Sequence[Dump], world: int) -> dict[str, tuple[int, ...]]:
    """World ranks of every group: as the dumps say, else those that are seen in it; in the default group all."""
    groups: dict[str, tuple[int, ...]] = {}
    seen: dict[str, set[int]] = defaultdict(set)
    for dump in dumps:
        groups.update(dump.groups)
        for entry in dump.entries:
            seen[entry.group].add(dump.rank)
    for name, ranks in seen.items():
        groups.setdefault(name, tuple(range(world)) if name == "0" else tuple(sorted(ranks)))
    return groups


def _calls(dump: Dump, groups: dict[str, tuple[int, ...]]) -> list[FlightCall]:
    found = []
    for entry in dump.entries:
        operation = operation_of(entry.name)
        ranks = groups[entry.group]
        if operation == 0 or dump.rank not in ranks:
            continue
        peer = ranks[entry.peer] if 0 <= entry.peer < len(ranks) else entry.peer
        found.append(FlightCall(entry, operation, ranks, entry.seq, peer, entry.created_ns, entry.created_ns))
    return found


def _complete(rank: int, calls: list[FlightCall], arrivals: Arrivals) -> list[bool]:
    """Which calls were complete: operations of one group are carried out in their order, so all before one that was."""
    following = {(call.entry.group, call.entry.is_message): place for place, call in enumerate(calls)}
    done = [
        call.entry.done
        and (
            call.operation not in TOGETHER
            or arrivals.complete(rank, call, following[call.entry.group, call.entry.is_message] == place)
        )
        for place, call in enumerate(calls)
    ]
    latest: dict[tuple[str, bool], int] = {}
    for place, call in enumerate(calls):
        if done[place]:
            latest[call.entry.group, call.entry.is_message] = place
    return [
        done[place] or place < latest.get((call.entry.group, call.entry.is_message), -1)
        for place, call in enumerate(calls)
    ]


def _number(calls: list[FlightCall], done: list[bool], several: set[str]) -> None:
    """Give every call a number that is the same on all ranks of it; in some groups several collectives share one."""
    place: Counter[tuple[str, int]] = Counter()
    channels: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for row, call in enumerate(calls):
        if call.operation in MESSAGES:
            channels[call.entry.group, call.operation, call.peer].append(row)
        elif call.entry.group in several:
            of = call.entry.group, call.seq
            call.seq, place[of] = call.seq * _BLOCKS + place[of], place[of] + 1
    for rows in channels.values():
        complete = sum(done[row] for row in rows)
        for number, row in enumerate(rows):
            calls[row].seq = _CHANNEL + number - complete


def _written_ns(dumps: Sequence[Dump], pending: Sequence[FlightCall | None]) -> int:
    """When the dumps were written: what a file says, if that can be; else when the first call timed out."""
    latest = max((max(one.created_ns, one.completed_ns) for dump in dumps for one in dump.entries), default=0)
    stuck = [call for call in pending if call is not None]
    if not stuck:
        return latest
    gives_up = min(call.start_ns + (call.entry.timeout_ns or AFTER_S * 10**9) for call in stuck)
    written = max((dump.written_ns for dump in dumps), default=0)
    if latest <= written <= gives_up + AFTER_S * 10**9:
        return written
    return max(latest, gives_up)


def _known_to_all(calls: Sequence[list[FlightCall]], dumps: Sequence[Dump]) -> Callable[[FlightCall], bool]:
    """Whether a call is one that the dumps of all its members reach back to: the recorder keeps the last ones alone."""
    have = {dump.rank for dump in dumps}
    first: dict[str, int] = {}
    for own in calls:
        least: dict[str, int] = {}
        for call in own:
            if call.operation not in MESSAGES:
                least[call.entry.group] = min(call.seq, least.get(call.entry.group, call.seq))
        for group, seq in least.items():
            first[group] = max(seq, first.get(group, seq))

    def known(call: FlightCall) -> bool:
        if call.operation in MESSAGES:
            return call.peer in have
        return call.seq >= first[call.entry.group]

    return known


def _set_times(calls: Sequence[list[FlightCall]]) -> None:
    """Say of all complete calls when ranks were in them."""
    instances: dict[tuple[str, tuple[int, ...], int], list[FlightCall]] = defaultdict(list)
    following: dict[int, int] = {}
    for own in calls:
        for call, later in zip_longest(own, own[1:]):
            following[id(call)] = later.entry.created_ns if later is not None else 1 << 62
            if call.operation in TOGETHER:
                instances[call.entry.group, call.ranks, call.seq].append(call)
    for members in instances.values():
        if all(call.entry.duration_ns >= 0 for call in members):
            # All end together, no earlier than the last was called, and before anybody noticed it.
            noticed = [call.entry.completed_ns for call in members if call.entry.completed_ns]
            least = max(call.entry.created_ns for call in members) + min(call.entry.duration_ns for call in members)
            end = max(min(noticed, default=least), least)
            for call in members:
                call.start_ns, call.end_ns, call.blocks = end - call.entry.duration_ns, end, True
        elif all(call.entry.library in ON_HOST for call in members):
            last = max(call.entry.created_ns for call in members)
            for call in members:
                # Whoever called something else before the last came did not wait in this call.
                if following[id(call)] >= last:
                    call.end_ns, call.blocks = last, True
    for own in calls:
        own.sort(key=lambda call: (call.start_ns, call.entry.record))
        until = 0
        for call in own:  # the one thread that a dump tells of is in one call at a time
            call.start_ns = max(call.start_ns, until)
            call.end_ns = max(call.end_ns, call.start_ns)
            until = call.end_ns


def _notes(
    dumps: Sequence[Dump], calls: Sequence[list[FlightCall]], pending: Sequence[FlightCall | None], world: int
) -> list[str]:
    notes = []
    for dump in dumps:
        name = dump.file.rpartition("/")[2]
        if dump.damage:
            notes.append(f"{name}: {dump.damage}; using the {len(dump.entries)} complete operations")
        if dump.odd:
            notes.append(f"{name}: {dump.odd} invalid operations are left out")
    every = [call for own in calls for call in own if call.operation in TOGETHER]
    if every and not any(call.blocks for call in every):
        notes.append(
            "these dumps lack the durations of collectives: late ranks of complete ones are unknown "
            "(TORCH_NCCL_ENABLE_TIMING=1 records durations)"
        )
    notes += _in_all(pending, world)
    return notes


def _in_all(pending: Sequence[FlightCall | None], world: int) -> list[str]:
    """Operations that all their ranks have called and that are not complete: nobody is missing."""
    there: dict[tuple[str, tuple[int, ...], int, int], int] = Counter(
        (call.entry.group, call.ranks, call.seq, call.operation)
        for call in pending
        if call is not None and call.operation in TOGETHER
    )
    names = {row.code: row.name for row in OPERATIONS}
    return [
        f"all {count} ranks of group {group} have called {names[operation]} number {seq}, and it was incomplete when "
        "the dumps were written: it was still running, or the network or a device is stuck"
        for (group, ranks, seq, operation), count in there.items()
        if count == len(ranks)
    ]
