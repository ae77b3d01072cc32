"""A view as lines of text, for a terminal or a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from scalana.graphs.progress.course import PRODUCTIVE, largest_loss
from scalana.live.now import RankNow
from scalana.live.stacks import STATES, alike
from scalana.live.view import Analysed, Cause, View
from scalana.report import names
from scalana.report.document.sections import Account, Layout, Share
from scalana.report.text.accounts import account_lines
from scalana.report.text.paint import Paint, clip, clip_left, rule
from scalana.report.topics.productive import WORDS

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_CURVE_ROWS = 4
_BEHIND_S = 5.0


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody wants to see."""

    steps: int = 0
    """How many of the last steps the curve has, 0 for as many as there is room for."""
    each_rank: bool = False
    """Whether every rank has a line of its own; else ranks that are in the same place share one."""
    first_rank: int = 0
    """Of so many ranks as there is no room for, the first that is shown."""


def lines(view: View, width: int, height: int, paint: Paint, shown: Shown) -> list[str]:
    """The view in ``width`` columns and at most ``height`` lines (0: as many as it takes)."""
    blocks = [_head(view, width, paint), _curve(view, width, paint, shown), _productive(view, width)]
    blocks += [_shares(view.analysed, width, paint), _causes(view, width, paint)]
    above = [line for block in blocks if block for line in [*block, ""]]
    room = height - len(above) if height else 0
    return [*above, *_ranks(view, width, paint, shown, max(room, 2) if height else 0)]


def _head(view: View, width: int, paint: Paint) -> list[str]:
    left, line, _ = rule("scalana watch", "", width)
    command = " ".join(view.command) or view.folder
    facts = [view.moment.names.count(view.moment.world_size), _clock(view.seconds), _state(view)]
    return [
        paint(left, "bold") + paint(line, "dim"),
        "  " + paint(clip(command, width - 2), "bold"),
        "  " + clip(" · ".join(fact for fact in facts if fact), width - 2),
    ]


def _state(view: View) -> str:
    if view.exit_code is not None:
        return f"ended with exit code {view.exit_code}"
    if not view.going_on:
        return "no process of the run is left"
    if view.behind_s > _BEHIND_S:
        return f"nothing was recorded for {names.seconds(view.behind_s)}"
    return ""


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _curve(view: View, width: int, paint: Paint, shown: Shown) -> list[str]:
    """How long each of the last steps took: the longest of those that share a column."""
    steps = view.steps[-shown.steps :] if shown.steps else view.steps[-(width - 14) :]
    if not steps:
        return ["  no steps are marked in what was recorded"]
    room = width - 14
    size = -(-len(steps) // room)
    columns = [max(seconds for _, seconds in steps[at : at + size]) for at in range(0, len(steps), size)]
    top = max(columns) or 1.0
    found = []
    for row in range(_CURVE_ROWS, 0, -1):
        eighths = [min(max(round(8 * (_CURVE_ROWS * value / top - row + 1)), 0), 8) for value in columns]
        label = names.seconds(top) if row == _CURVE_ROWS else "0" if row == 1 else ""
        found.append(f"{label:>10}  " + paint("".join(_EIGHTHS[eighth] for eighth in eighths), "cyan"))
    (first, _), (last, latest) = steps[0], steps[-1]
    middle = sorted(seconds for _, seconds in steps)[len(steps) // 2]
    found.append(
        clip(f"{'':12}steps {first} to {last}: median {names.seconds(middle)}, last {names.seconds(latest)}", width)
    )
    return found


def _productive(view: View, width: int) -> list[str]:
    """How much of the wall time was productive, and what cost most."""
    course = view.course
    if course is None or course.seconds <= 0:
        return []
    seconds = course.parts_s()
    said = [f"productive: {names.percent(seconds[PRODUCTIVE] / course.seconds)} of {_clock(course.seconds)}"]
    if (hours := course.hours()) is not None:
        said.append(f"{names.percent(hours[0])} of the last hour")
    if (worst := largest_loss(seconds)) is not None:
        said.append(f"largest loss: {WORDS[worst][0]} {names.percent(seconds[worst] / course.seconds)}")
    if len(course.attempts) > 1:
        said.append(f"{len(course.attempts)} attempts")
    return [clip("  " + " · ".join(said), width)]


def _shares(analysed: Analysed | None, width: int, paint: Paint) -> list[str]:
    if analysed is None or not analysed.parts:
        return []
    shares = tuple(Share(name, share, color) for color, (name, share) in enumerate(analysed.parts))
    return account_lines(Account("all ranks", 1.0, shares, Layout.LINE, _which(analysed)), width, paint)


def _which(analysed: Analysed) -> str:
    if analysed.first_step is None:
        return f"in the last {analysed.steps} steps" if analysed.steps else "in the last seconds"
    return f"in steps {analysed.first_step} to {analysed.last_step}"


def _causes(view: View, width: int, paint: Paint) -> list[str]:
    if view.analysed is None:
        return []
    if not view.analysed.causes:
        return ["  " + paint("nothing stands out", "green")]
    return [line for cause in view.analysed.causes for line in _cause(cause, width, paint)]


def _cause(cause: Cause, width: int, paint: Paint) -> list[str]:
    place = f"{names.place(cause.file, cause.line)}  {cause.function}"
    share = f"{names.percent(cause.lost_share)} of waiting"
    room = width - len(share) - 4
    clock = time.strftime("%H:%M:%S", time.localtime(cause.since_unix_s))
    since = f"since {clock}" if cause.since_step is None else f"since step {cause.since_step} ({clock})"
    return [
        "  " + paint(f"{clip_left(place, room):<{room}}", "bold") + "  " + share,
        clip(f"    {cause.who}, {since}{' or before' * cause.is_older}", width),
        clip(f"    {cause.what}", width),
    ]


def _ranks(view: View, width: int, paint: Paint, shown: Shown, room: int) -> list[str]:
    """What each rank is in, or each group of ranks that are in the same place."""
    ranks = view.moment.ranks
    if shown.each_rank:
        found = [_row(view, [rank], width) for rank in ranks]
        found = found[shown.first_rank % max(len(found), 1) :]
    else:
        found = [_row(view, group, width) for group in alike(ranks)]
    hidden = len(found) - room + 1
    if room and hidden > 1:
        found = [*found[: room - 1], f"  {hidden} more lines"]
    return found


def _row(view: View, group: Sequence[RankNow], width: int) -> str:
    one = min(group, key=lambda rank: rank.rank)
    file, line, function = one.stack.place
    who = view.moment.names.many([rank.rank for rank in group], view.moment.world_size)
    what = f"in {one.operation}" if one.state == "waiting" else STATES[one.state]
    since = names.seconds(min(rank.seconds for rank in group))
    room = (width - 14) // 3
    head = f"  {clip(who, room):<{room}} {clip(what, 16):<16} {since:>8}  "
    return head + clip_left(f"{names.place(file, line)} {function}", width - len(head))
