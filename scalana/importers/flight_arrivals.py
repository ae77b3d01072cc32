"""Which ranks came to an operation that is not complete, by what their dumps hold.

A rank that came has an entry of the operation or a later one of its group, or ``pg_status`` says that it called so
many. A rank that has no entry at all had completed all that it called: that is how a rank looks that did not come.
Nothing is known of a rank without a dump, and little of one whose dump is torn: these are named only where no other
rank is known not to have come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from scalana.importers.flight_call import AFTER_S, MESSAGES, ON_HOST, TOGETHER, FlightCall
from scalana.importers.flight_dump import Dump
from scalana.runtime.operations import BY_CODE, BY_NAME

_UNEVEN = frozenset({BY_NAME["alltoall"].code, BY_NAME["gather"].code, BY_NAME["scatter"].code})
"""Operations to which ranks may bring different sizes."""
_ODD = 1 << 29
"""What is added to the number of a call that does not fit those of the other ranks."""
_NEARLY = 0.9
"""A call that was there for this part of its timeout when the dump was written may have ended by it."""

Pending = list[FlightCall | None]
"""The first call of each dump that is not complete."""


class Came(Enum):
    """Whether a rank came to an operation."""

    YES = 1
    NO = 2
    TORN = 3
    """Its dump ends before."""
    MISSING = 4
    """It has no dump."""


class Arrivals:
    """Answers for all ranks whether they came to an operation."""

    def __init__(self, dumps: Sequence[Dump], calls: Sequence[list[FlightCall]]) -> None:
        self.dumps = {dump.rank: dump for dump in dumps}
        self.called: dict[tuple[int, str], dict[int, list[FlightCall]]] = defaultdict(lambda: defaultdict(list))
        for dump, own in zip(dumps, calls, strict=True):
            for call in own:
                if call.operation not in MESSAGES:
                    self.called[dump.rank, call.entry.group][call.entry.seq].append(call)

    def came(self, rank: int, call: FlightCall) -> Came:
        """Whether a rank came to the collective that a call is of."""
        dump = self.dumps.get(rank)
        if dump is None:
            return Came.MISSING
        group, seq = call.entry.group, call.entry.seq
        numbers = self.called.get((rank, group), {})
        reached = dump.reached.get(group)
        if seq in numbers:
            return Came.YES if any(other.operation == call.operation for other in numbers[seq]) else Came.NO
        if seq < 0 or max(numbers, default=-1) > seq:
            return Came.YES
        if reached is not None:
            return Came.YES if reached[0] >= seq else Came.NO
        return Came.TORN if dump.damage or dump.odd else Came.NO

    def complete(self, rank: int, call: FlightCall, is_last: bool) -> bool:
        """Whether a collective is complete that its rank recorded as done: what timed out is recorded so, too."""
        states = [self.came(member, call) for member in call.ranks]
        if Came.NO in states:
            return False
        if call.entry.noticed:
            return True
        if self.misfits(call):
            return False
        if not is_last or not {Came.TORN, Came.MISSING} & set(states):
            return True
        waited = self.dumps[rank].written_ns - call.entry.created_ns
        timeout = call.entry.timeout_ns
        return not timeout or not _NEARLY * timeout <= waited <= timeout + AFTER_S * 10**9

    def shapes(self, call: FlightCall) -> dict[int, str]:
        """The tensors that ranks bring to a collective, where each has called it once."""
        shapes: dict[int, str] = {}
        for rank in call.ranks:
            own = self.called.get((rank, call.entry.group), {}).get(call.entry.seq, [])
            same = [other for other in own if other.operation == call.operation]
            if len(same) == 1:
                shapes[rank] = same[0].entry.shape
        return shapes

    def misfits(self, call: FlightCall) -> dict[int, str]:
        """Ranks whose tensors do not fit those of most ranks, and what they are; empty where all fit."""
        shapes = {} if call.operation in _UNEVEN else self.shapes(call)
        usual = _most(shapes.values())
        return {rank: shape for rank, shape in shapes.items() if shape != usual}

    def calls_another(self, rank: int, call: FlightCall) -> int:
        """The operation that a rank called where most others called what a call is of; 0 if it did not."""
        here = {
            member: own[0].operation
            for member in call.ranks
            if (own := self.called.get((member, call.entry.group), {}).get(call.entry.seq))
        }
        return here[rank] if rank in here and here[rank] != _most(here.values()) else 0

    def completed_elsewhere(self, rank: int, call: FlightCall) -> list[int]:
        """Other ranks that completed the collective in which a rank is still."""
        found = []
        for member in call.ranks:
            dump = self.dumps.get(member)
            if member == rank or dump is None or call.entry.library in ON_HOST:
                continue
            own = self.called.get((member, call.entry.group), {}).get(call.entry.seq, [])
            _, completed = dump.reached.get(call.entry.group, (-1, -1))
            if any(other.entry.noticed for other in own) or (not own and 0 <= call.entry.seq <= completed):
                found.append(member)
        return found


def settle(dumps: Sequence[Dump], pending: Pending, calls: Sequence[list[FlightCall]], arrivals: Arrivals) -> list[str]:
    """Make of what is pending what ranks wait in, so that who is missing there is who is known not to have come.

    Args:
        dumps: of each rank.
        pending: of each dump; is changed.
        calls: all calls of each dump; their members are changed.
        arrivals: of the same.

    Returns:
        What to say of it.
    """
    notes = _stuck_themselves(dumps, pending, arrivals)
    notes += _mismatches(dumps, pending, arrivals)
    _both_there(dumps, pending)
    missing = sorted({rank for call in pending if call for rank in call.ranks if rank not in arrivals.dumps})
    notes += _torn(dumps, pending, arrivals)
    culprits = _known_absent(dumps, pending, arrivals)
    notes += [note for rank, call in culprits.items() if (note := _how_far(rank, call, arrivals))]
    if missing and culprits:
        _without(missing, dumps, pending, calls)
        notes.append(f"no dump of {_ranks(missing)}: what {_it(missing)} did is unknown")
    return notes


def _most(values: Iterable[Any]) -> Any:
    """What most are, the first where several are as many; None of nothing."""
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else None


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _it(ranks: Sequence[int]) -> str:
    return "they" if len(ranks) > 1 else "it"


def _named(call: FlightCall) -> str:
    return f"{BY_CODE[call.operation].name} number {call.entry.seq} of group {call.entry.group}"


def _stuck_themselves(dumps: Sequence[Dump], pending: Pending, arrivals: Arrivals) -> list[str]:
    """Ranks that are in what all came to and others completed wait for nobody: their own devices are stuck."""
    notes = []
    for place, (dump, call) in enumerate(zip(dumps, pending, strict=True)):
        if call is None or call.operation not in TOGETHER:
            continue
        done = arrivals.completed_elsewhere(dump.rank, call)
        if done and not any(arrivals.came(rank, call) is Came.NO for rank in call.ranks):
            pending[place] = None
            notes.append(
                f"rank {dump.rank} has not completed {_named(call)}, which {_ranks(done)} completed: its device or its "
                "process is stuck"
            )
    return notes


def _mismatches(dumps: Sequence[Dump], pending: Pending, arrivals: Arrivals) -> list[str]:
    """Give calls with other tensors than those of most ranks a number of their own: nobody else is in them."""
    notes = []
    for dump, call in zip(dumps, pending, strict=True):
        if call is None or call.operation not in TOGETHER:
            continue
        shapes = arrivals.shapes(call)
        shape = arrivals.misfits(call).get(dump.rank)
        if shape is not None:
            call.seq += _ODD
            usual = next(other for rank, other in shapes.items() if other != shape)
            notes.append(f"rank {dump.rank} called {_named(call)} with {shape or 'no tensor'}, others with {usual}")
    return notes


def _both_there(dumps: Sequence[Dump], pending: Pending) -> None:
    """Of messages that both sides have called, neither waits for the other."""
    by_rank = {dump.rank: call for dump, call in zip(dumps, pending, strict=True)}
    met = []
    for rank, call in by_rank.items():
        other = by_rank.get(call.peer) if call is not None and call.operation in MESSAGES else None
        if call is None or other is None or other.operation not in MESSAGES:
            continue
        if other.peer == rank and other.operation != call.operation and other.entry.group == call.entry.group:
            met.append((rank, call))
    for rank, call in met:
        call.ranks, call.peer = (rank,), -1


def _torn(dumps: Sequence[Dump], pending: Pending, arrivals: Arrivals) -> list[str]:
    """Ranks whose dumps end too early are in what others wait in, if they are known to have called it, or somebody else
    may be who did not come."""
    waits = sorted((call for call in pending if call and call.operation in TOGETHER), key=lambda call: call.start_ns)
    notes = []
    for place, dump in enumerate(dumps):
        of_it = [call for call in waits if dump.rank in call.ranks]
        if pending[place] is not None or not (dump.damage or dump.odd) or not of_it:
            continue
        states = {id(call): arrivals.came(dump.rank, call) for call in of_it}
        if Came.NO in states.values():
            continue
        for call in of_it:
            others = {arrivals.came(rank, call) for rank in call.ranks if rank != dump.rank}
            if states[id(call)] is Came.YES or {Came.NO, Came.MISSING} & others:
                pending[place] = replace(call, entry=replace(call.entry, frames=()))
                if states[id(call)] is not Came.YES:
                    name = dump.file.rpartition("/")[2]
                    notes.append(f"{name} ends too early: whether rank {dump.rank} came to {_named(call)} is unknown")
                break
    return notes


def _known_absent(dumps: Sequence[Dump], pending: Pending, arrivals: Arrivals) -> dict[int, FlightCall]:
    """Ranks that are known not to have come to what others wait in, and wait in nothing else, with what that is."""
    waiting = {dump.rank: call for dump, call in zip(dumps, pending, strict=True)}
    found: dict[int, FlightCall] = {}
    for call in pending:
        if call is None or call.operation not in TOGETHER:
            continue
        for rank in call.ranks:
            own = waiting.get(rank)
            if (own is None or own.entry.group == call.entry.group) and arrivals.came(rank, call) is Came.NO:
                found.setdefault(rank, call)
    return found


def _how_far(rank: int, call: FlightCall, arrivals: Arrivals) -> str:
    """How far a rank was that did not come; empty for one that called what most ranks called."""
    group, seq = call.entry.group, call.entry.seq
    called, completed = arrivals.dumps[rank].reached.get(group, (-1, -1))
    numbers = arrivals.called.get((rank, group), {})
    if seq in numbers:
        other = arrivals.calls_another(rank, call)
        return f"rank {rank} called {BY_CODE[other].name} where others called {_named(call)}" if other else ""
    last = max([called, *numbers])
    if last < 0:
        return f"rank {rank} called no operation of group {group}; others wait in {_named(call)}"
    state = ", which it completed" if completed >= last and last not in numbers else ""
    return f"the last operation of rank {rank} in group {group} is number {last}{state}; others wait in {_named(call)}"


def _without(
    missing: Sequence[int], dumps: Sequence[Dump], pending: Pending, calls: Sequence[list[FlightCall]]
) -> None:
    """Take ranks without dumps out of all groups."""
    gone = set(missing)
    for dump, own, call in zip(dumps, calls, pending, strict=True):
        for one in [*own, *([call] if call else [])]:
            one.ranks = tuple(rank for rank in one.ranks if rank not in gone)
        if call is not None and call.operation in MESSAGES and call.peer in gone:
            call.ranks, call.peer = (dump.rank,), -1
