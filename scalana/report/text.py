"""The report for people: what to look at first, on one screen."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from scalana.detectors.kinds import kind_of
from scalana.report import compiled, modules, names, overview, regions, roofline, sections, steps
from scalana.report.document import by_loss, warnings
from scalana.report.finding_text import finding_block
from scalana.report.hot import HotPlace
from scalana.report.paint import NARROW, Paint, clip, clip_left, rule, wrap

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis

MOST_FINDINGS = 5
"""Shown in full; what comes after them is counted, and stands in the JSON report."""

_MARKS = {
    "work_s": ("█", "green"),
    "stall_s": ("▓", "yellow"),
    "wait_s": ("▒", "red"),
    "transfer_s": ("░", "blue"),
    "other_s": ("·", "dim"),
}
"""What the parts of the rank-seconds are drawn with."""


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
        rest = overview.rest(findings[MOST_FINDINGS:])
        blocks.append([f"  {rest}"] if rest else [])
    else:
        blocks.append(_nothing(analysis, bool(hot), width, paint))
    tables = [of.table(analysis, width, paint) for of in (regions, modules, compiled)]
    tables.append(roofline.block(analysis, width, paint))
    blocks += [*sections.as_text(analysis, width, paint), *tables, hot]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _header(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    run = analysis.ppg.run
    left, line, _ = rule("scalana", "", width)
    command = clip(shlex.join(str(word) for word in run.command) or "(command not recorded)", width - 2)
    return [
        paint(left, "bold") + paint(line, "dim"),
        "  " + paint(command, "bold"),
        *wrap(" · ".join(overview.facts(analysis)), width, "  "),
        *steps.head(analysis, width),
    ]


def _time(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """One line of shares, and the same as a bar: of the steady state, where there is one."""
    time = overview.shown_time(analysis)
    total = time.total_s
    if total <= 0:
        return ["  No time was recorded."]
    amounts = [
        (max(0.0, getattr(time, field)) / total, label, *_MARKS[field]) for field, label in overview.PARTS.items()
    ]
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


def _nothing(analysis: Analysis, table: bool, width: int, paint: Paint) -> list[str]:
    first, text = overview.nothing(analysis, table)
    if not text:
        return []
    first_line, *more = wrap(first + text, width, "  ")
    return [paint(first_line[: 2 + len(first)], "green") + first_line[2 + len(first) :], *more]


def _hot(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The table of places by time."""
    table = overview.hot_table(analysis)
    if table is None:
        return []
    left, line, right = rule("Where the time goes", table.of, width)
    parts = "" if width < NARROW else f" {'work':>7} {'stalled':>7} {'waiting':>7} {'transfer':>8}"
    head = f"  {'share':>6}{parts} {'least..most':>13}  place"
    room, ranks = width - len(head) + len("place"), analysis.ppg.run.ranks
    rows = [
        _hot_row(place, where, place.time_s / table.whole_s, ranks, room, bool(parts), paint)
        for place, where in zip(table.places, table.where, strict=True)
    ]
    below = [text for text in (overview.outside(analysis), overview.servers(analysis)) if text]
    return [
        paint(left, "bold") + paint(line + right, "dim"),
        paint(head, "dim"),
        *rows,
        *(line for text in below for line in wrap(text, width, "    ", "  ")),
    ]


def _hot_row(place: HotPlace, where: str, share: float, ranks: int, room: int, parts: bool, paint: Paint) -> str:
    """``room``: columns for the place; ``parts``: whether its time is told apart."""
    cells = f"  {names.percent(share):>6}"
    columns = ((place.work_s, 7, ""), (place.stall_s, 7, "yellow"), (place.wait_s, 7, "red"), (place.transfer_s, 8, ""))
    for value, size, style in columns if parts else ():
        cell = f"{overview.amount(value, place.time_s):>{size}}"
        cells += " " + (paint(cell, style) if style and cell.strip() != "·" else cell)
    span = f"{names.amount(place.least_s)}..{names.amount(place.most_s)}" if ranks > 1 else ""
    cells += f" {span:>13}  "
    where = clip_left(where, room)
    return cells + paint(where, "cyan") + clip(f" {place.name}" if place.name else "", max(0, room - len(where)))
