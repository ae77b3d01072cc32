"""The report for people: what to look at first, on one screen."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from scalana.detectors.kinds import kind_of
from scalana.report import modules, names, regions, roofline, sections, steps
from scalana.report.document import by_loss, warnings
from scalana.report.finding_text import finding_block
from scalana.report.hot import HotPlace, hot_places, seconds_by_place
from scalana.report.paint import NARROW, Paint, clip, clip_left, rule, wrap

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis

MOST_FINDINGS = 5
"""Shown in full; what comes after them is counted, and stands in the JSON report."""

_MOST_PLACES = 8
_LEAST_SHARE = 0.005
"""Of the rank-seconds: places below are left out of the table."""

_MOST_OUTSIDE = 3
_LARGE_OUTSIDE = 0.1
"""Of the time apart from the steps: places below are not named."""

_PARTS = (
    ("work_s", "work", "█", "green"),
    ("stall_s", "stalled", "▓", "yellow"),
    ("wait_s", "waiting", "▒", "red"),
    ("transfer_s", "transfer", "░", "blue"),
    ("other_s", "other", "·", "dim"),
)


def render(analysis: Analysis, *, width: int = 100, color: bool = False) -> str:
    """The report in at most ``width`` columns, with ANSI colours if ``color``. Ends with a newline."""
    paint = Paint(color)
    blocks = [
        _header(analysis, width, paint),
        _time(analysis, width, paint),
        steps.slow(analysis, width),
        _warnings(warnings(analysis), width, paint),
    ]
    hot = _hot(analysis, width, paint)
    findings = [finding for finding in by_loss(analysis.findings) if kind_of(finding.kind).is_fault]
    if findings:
        blocks += [
            finding_block(number, finding, analysis.ppg.run, width, paint)
            for number, finding in enumerate(findings[:MOST_FINDINGS], 1)
        ]
        blocks.append(_rest(len(findings) - MOST_FINDINGS, sum(f.lost_s for f in findings[MOST_FINDINGS:])))
    else:
        blocks.append(_nothing(analysis, bool(hot), width, paint))
    tables = [regions.table(analysis, width, paint), modules.table(analysis, width, paint)]
    tables.append(roofline.block(analysis, width, paint))
    blocks += [*sections.as_text(analysis, width, paint), *tables, hot]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _header(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    run = analysis.ppg.run
    left, line, _ = rule("scalana", "", width)
    facts = [run.names.count(run.ranks), names.seconds(run.seconds or 0.0)]
    if run.ranks > 1:
        facts.append(names.rank_seconds(analysis.time.total_s))
    facts.append(_ending(run.exit_code))
    if run.rate_hz:
        facts.append(f"{run.rate_hz:g} samples a second")
    command = clip(shlex.join(str(word) for word in run.command) or "(command not recorded)", width - 2)
    return [
        paint(left, "bold") + paint(line, "dim"),
        "  " + paint(command, "bold"),
        *wrap(" · ".join(fact for fact in facts if fact), width, "  "),
        *steps.head(analysis, width),
    ]


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if 128 < exit_code < 160:
        return f"ended by signal {exit_code - 128}"
    return f"exit code {exit_code}"


def _time(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """One line of shares, and the same as a bar: of the steady state, where there is one."""
    time = analysis.time if analysis.steady is None else analysis.steady.time
    total = time.total_s
    if total <= 0:
        return ["  No time was recorded."]
    amounts = [(max(0.0, getattr(time, field)) / total, label, mark, style) for field, label, mark, style in _PARTS]
    label = "" if analysis.steady is None else "  in the steps:"
    shares = [paint(label, "dim")]
    room = width - len(label)
    for share, label, mark, style in amounts:
        if share < 0.0005:
            continue
        text = f"{label} {names.percent(share)}"
        if len(text) + 4 > room:
            shares.append("")
            room = width
        shares[-1] += f"  {paint(mark, style)} {text}"
        room -= len(text) + 4
    columns = width - 4
    bar, begin, filled = "", 0.0, 0
    for share, _, mark, style in amounts:
        begin += share
        end = min(columns, round(begin * columns))
        bar += paint(mark * (end - filled), style)
        filled = max(filled, end)
    return [*shares, "  " + bar]


def _warnings(messages: list[str], width: int, paint: Paint) -> list[str]:
    lines = []
    for message in messages:
        first, *more = wrap(message, width, "           ", "  warning: ") or [""]
        lines += [paint("  warning:", "yellow") + first[len("  warning:") :], *more]
    return lines


def _rest(count: int, lost_s: float) -> list[str]:
    if count <= 0:
        return []
    causes = "one smaller cause" if count == 1 else f"{count} smaller causes"
    return [f"  And {causes}, {names.seconds(lost_s)} of waiting together: see the JSON report."]


def _nothing(analysis: Analysis, table: bool, width: int, paint: Paint) -> list[str]:
    """No finding is a result too: say so, and what the time went to."""
    time = analysis.time if analysis.steady is None else analysis.steady.time
    if time.total_s <= 0:
        return []
    run = analysis.ppg.run
    first = "Nothing stands out: "
    if run.ranks == 1:
        text = "there is one rank, which waits for no other."
    elif not len(analysis.ppg.timeline.calls):
        first, text = "Nothing can be told of waiting: ", "no communication between the ranks was recorded."
    else:
        if time.wait_s <= 0.0005 * time.total_s:
            text = "no rank made another one wait."
        else:
            text = (
                f"ranks waited for each other {names.percent(time.wait_s / time.total_s)} of the time"
                f"{'' if analysis.steady is None else ' in the steps'}, and no line of the program on particular ranks "
                "explains a noticeable part of it."
            )
        if run.notes or run.missing_ranks:
            first = "Nothing stands out in what was recorded: "
            text += " But not all was recorded, as the warnings say: a cause may lie in what was not."
    text += " The table shows where the time goes." if table else ""
    first_line, *more = wrap(first + text, width, "  ")
    return [paint(first_line[: 2 + len(first)], "green") + first_line[2 + len(first) :], *more]


def _hot(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The table of places by time, seconds of an average rank; those of the steady state, where there is one."""
    ppg, steady = analysis.ppg, analysis.steady
    places = hot_places(ppg.metrics, ppg, steady.outside if steady is not None else None)
    whole = float(ppg.run.seconds or 0.0) if steady is None else steady.time.total_s / max(ppg.run.ranks, 1)
    whole = max(whole, sum(place.time_s for place in places))
    shown = [place for place in places if place.time_s >= _LEAST_SHARE * whole][:_MOST_PLACES]
    if not shown or whole <= 0:
        return []
    of = "seconds of an average rank" if steady is None else "in the steps, seconds of an average rank"
    left, line, right = rule("Where the time goes", of, width)
    parts = "" if width < NARROW else f" {'work':>7} {'stalled':>7} {'waiting':>7} {'transfer':>8}"
    head = f"  {'share':>6}{parts} {'least..most':>13}  place"
    files = names.shortest(names.relative(place.file, ppg.run.cwd) for place in shown)
    rows = []
    for place in shown:
        where = names.place(files[names.relative(place.file, ppg.run.cwd)], place.line, place.end_line)
        room = width - len(head) + len("place")
        rows.append(_hot_row(place, where, place.time_s / whole, ppg.run.ranks, room, bool(parts), paint))
    return [
        paint(left, "bold") + paint(line + right, "dim"),
        paint(head, "dim"),
        *rows,
        *(_outside(analysis, width) if steady is not None and analysis.window is None else []),
    ]


def _outside(analysis: Analysis, width: int) -> list[str]:
    """One line for what ranks did in start-up and end, and between steps."""
    assert analysis.steady is not None
    ppg = analysis.ppg
    places = seconds_by_place(analysis.steady.outside["time_s"], ppg)
    whole = sum(seconds for *_, seconds in places)
    if whole <= 0.0:
        return []
    shown = [place for place in places if place[3] >= _LARGE_OUTSIDE * whole][:_MOST_OUTSIDE]
    files = names.shortest(names.relative(file, ppg.run.cwd) for file, *_ in shown)
    parts = [
        f"{names.place(files[names.relative(file, ppg.run.cwd)], line)} {name}".rstrip() + f" {names.seconds(seconds)}"
        for file, line, name, seconds in shown
    ]
    text = f"apart from the steps: {names.seconds(whole)}" + (", of it " + ", ".join(parts) if parts else "")
    return wrap(text, width, "    ", "  ")


def _hot_row(place: HotPlace, where: str, share: float, ranks: int, room: int, parts: bool, paint: Paint) -> str:
    """``room``: columns for the place; ``parts``: whether its time is told apart."""
    cells = f"  {names.percent(share):>6}"
    columns = ((place.work_s, 7, ""), (place.stall_s, 7, "yellow"), (place.wait_s, 7, "red"), (place.transfer_s, 8, ""))
    for value, size, style in columns if parts else ():
        cell = f"{_amount(value, place.time_s):>{size}}"
        cells += " " + (paint(cell, style) if style and cell.strip() != "·" else cell)
    span = f"{names.amount(place.least_s)}..{names.amount(place.most_s)}" if ranks > 1 else ""
    cells += f" {span:>13}  "
    where = clip_left(where, room)
    return cells + paint(where, "cyan") + clip(f" {place.name}" if place.name else "", max(0, room - len(where)))


def _amount(value: float, of: float) -> str:
    """A cell of the table; a dot for what is nothing beside the row's time."""
    return names.amount(value) if value > 0.005 * of else "·"
