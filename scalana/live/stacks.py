"""The stacks of all ranks, grouped: what differs comes first."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.live.blocked import Blocked, blocked_in
from scalana.live.now import Moment, RankNow
from scalana.report import names
from scalana.report.text.paint import Paint, clip, clip_left

STATES = {"running": "computes", "asleep": "is off the CPU", "ended": "has ended", "silent": "records nothing"}
_MOST_FRAMES = 40


@dataclass(frozen=True, slots=True)
class Group:
    """Processes that are in the same place."""

    who: str
    members: tuple[RankNow, ...]
    blocked: Blocked
    """What the first of them is blocked in, as the kernel says; nothing is known of other hosts."""

    @property
    def one(self) -> RankNow:
        """The first of them."""
        return self.members[0]


def groups_of(moment: Moment) -> list[Group]:
    """All ranks and their helpers by where they are, the smallest group first; helpers that only wait for work come
    last."""
    groups = [
        Group(moment.names.many([one.rank for one in some], moment.world_size), tuple(some), _blocked(some[0]))
        for some in alike(moment.ranks)
    ]
    helpers = [Group(_helpers(some), tuple(some), _blocked(some[0])) for some in alike(moment.helpers)]
    return [*groups, *helpers]


def alike(processes: Sequence[RankNow]) -> list[list[RankNow]]:
    """Processes in the same state and at the same lines, the smallest group first."""
    found: dict[object, list[RankNow]] = {}
    for one in processes:
        own = one.stack.frames[: one.stack.own + 1] or one.stack.frames
        found.setdefault((one.state, one.operation, own), []).append(one)
    return sorted(found.values(), key=lambda group: (len(group), group[0].rank))


def _helpers(some: Sequence[RankNow]) -> str:
    return some[0].name if len(some) == 1 else f"{some[0].name} and {len(some) - 1} more"


def _blocked(one: RankNow) -> Blocked:
    if one.state == "ended" or not one.pid or one.host != socket.gethostname():
        return Blocked("")
    return blocked_in(one.pid, one.tid or one.pid)


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
        stack = group.one.stack
        shown = list(enumerate(stack.frames))[-_MOST_FRAMES:]
        if len(shown) < len(stack.frames):
            lines.append(f"      … {len(stack.frames) - len(shown)} frames more")
        for row, (file, line, function) in shown:
            mark = "▸" if row == stack.own else " "
            room = max(width - len(function) - 9, 20)
            lines.append(clip(f"    {mark} {clip_left(names.place(file, line), room)} {function}", width))
        lines.append("")
    return lines
