"""The stacks of all ranks, grouped: what differs comes first."""

from __future__ import annotations

import math
import socket
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalana.live.blocked import Blocked, blocked_in
from scalana.live.now import Moment, RankNow
from scalana.live.threads.locks import lock_lines
from scalana.live.threads.native import NativePlace, native_places
from scalana.report import names
from scalana.report.text.paint import Paint, clip, clip_left
from scalana.runtime.record.format import ProcessRecord

STATES = {"running": "computes", "asleep": "is off the CPU", "ended": "has ended", "silent": "records nothing"}
_MOST_FRAMES = 40


@dataclass(frozen=True, slots=True)
class Group:
    """Processes that are in the same place."""

    who: str
    members: tuple[RankNow, ...]
    blocked: Blocked
    """What the first of them is blocked in, as the kernel says; nothing is known of other hosts."""
    native: tuple[NativePlace, ...] = ()
    """The native functions that it is blocked in, the outermost first."""
    locks: tuple[str, ...] = ()
    """What is to be said of locks between its threads."""

    @property
    def one(self) -> RankNow:
        """The first of them."""
        return self.members[0]


def groups_of(moment: Moment) -> list[Group]:
    """All ranks and their helpers by where they are, the smallest group first; helpers that only wait for work come
    last."""
    records = {record.number("pid", 0): record for record in moment.records}
    groups = [
        _group(moment.names.many([one.rank for one in some], moment.world_size), some, records)
        for some in alike(moment.ranks)
    ]
    return [*groups, *(_group(_helpers(some), some, records) for some in alike(moment.helpers))]


def _group(who: str, some: Sequence[RankNow], records: Mapping[int, ProcessRecord]) -> Group:
    """A group, with what is seen of the first of its processes."""
    one = some[0]
    if one.state == "ended" or not one.pid or one.host != socket.gethostname():
        return Group(who, tuple(some), Blocked(""))
    tid, record = one.tid or one.pid, records.get(one.pid)
    meta: Mapping[str, str] = record.meta if record is not None else {}
    is_python = record is None or "python" in meta  # the record of another program has its native functions
    native = native_places(one.pid, tid) if is_python else []
    return Group(who, tuple(some), blocked_in(one.pid, tid), tuple(native), tuple(lock_lines(one.pid, meta)))


def alike(processes: Sequence[RankNow]) -> list[list[RankNow]]:
    """Processes in the same state and at the same lines, the smallest group first."""
    found: dict[object, list[RankNow]] = {}
    for one in processes:
        own = one.stack.frames[: one.stack.own + 1] or one.stack.frames
        found.setdefault((one.state, one.operation, own), []).append(one)
    return sorted(found.values(), key=lambda group: (len(group), group[0].rank))


def _helpers(some: Sequence[RankNow]) -> str:
    return some[0].name if len(some) == 1 else f"{some[0].name} and {len(some) - 1} more"


def what(group: Group) -> str:
    """What the processes of a group do, in words."""
    one, times = group.one, [member.seconds for member in group.members]
    does = f"in {one.operation}" if one.state == "waiting" else STATES[one.state]
    blocked = f", {group.blocked.words}" if group.blocked.words else ""
    if any(map(math.isnan, times)):
        return does + blocked
    lasting = names.span(min(times), max(times)) if max(times) - min(times) > 1 else names.seconds(min(times))
    return f"{does} for {lasting}{blocked}"


def stack_lines(groups: Sequence[Group], width: int, paint: Paint) -> list[str]:
    """The groups, each with its stack, the innermost frame last."""
    lines: list[str] = []
    for group in groups:
        lines += [paint(clip(f"  {group.who}: {what(group)}", width), "bold")]
        for text in group.locks:
            lines += textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="      ")
        stack = group.one.stack
        shown = list(enumerate(stack.frames))[-_MOST_FRAMES:]
        if len(shown) < len(stack.frames):
            lines.append(f"      … {len(stack.frames) - len(shown)} frames more")
        for row, (file, line, function) in shown:
            mark = "▸" if row == stack.own else " "
            room = max(width - len(function) - 9, 20)
            lines.append(clip(f"    {mark} {clip_left(names.place(file, line), room)} {function}", width))
        lines += [clip(f"      [{place.library}] {place.function}", width) for place in group.native]
        lines.append("")
    return lines
