"""One finding as text: the place, what it costs, its source, what leads to it, and advice."""

from __future__ import annotations

from scalana.report import names
from scalana.report.document.finding import Cause, HopText, Inside, shortened
from scalana.report.text.paint import NARROW, Paint, clip, clip_left, rule, wrap

_MOST_CALLERS = 6


def block(number: int, cause: Cause, width: int, paint: Paint) -> list[str]:
    """The lines of one finding."""
    lines = [headline(number, cause, width, paint)]
    for sentence in cause.sentences:
        lines += wrap(sentence, width, "  ")
    return [*lines, *context(cause, width, paint)]


def headline(number: int, cause: Cause, width: int, paint: Paint) -> str:
    """Number, place and function of a finding, and its share at the end of the line."""
    number_text = f"{number}  "
    function = f"  {cause.function}" if cause.function else ""
    place = clip_left(cause.place, width - len(cause.share) - 20)
    left, line, right = rule(number_text + place + function, cause.share, width)
    return (
        paint(number_text, "bold")
        + paint(left[len(number_text) :], "bold", "cyan")
        + paint(line, "dim")
        + paint(right, "bold", "red")
    )


def context(cause: Cause, width: int, paint: Paint) -> list[str]:
    """Source, callers, the way from the symptom, and advice, as far as there are any."""
    inside = [_inside(one, width, paint) for one in cause.inside]
    parts = (
        [*_source(cause, width, paint), *inside],
        _callers(cause.callers, width, paint),
        _path(cause.path, width, paint),
        _advice(cause.advice, width, paint),
    )
    return [line for part in parts if part for line in ("", *part)]


def _source(cause: Cause, width: int, paint: Paint) -> list[str]:
    digits = len(str(cause.source[-1].number)) if cause.source else 0
    lines = []
    for row in cause.source:
        text = clip(row.text, width - digits - 9)
        if row.marked:
            lines.append("    " + paint("▸", "bold", "red") + paint(f" {row.number:>{digits}} │ {text}", "bold"))
        else:
            lines.append(paint(f"      {row.number:>{digits}} │ {text}", "dim"))
    if lines and cause.is_source_changed:
        lines.append(paint("      (the file has changed since the run)", "yellow"))
    return lines


def _inside(inside: Inside, width: int, paint: Paint) -> str:
    label = "  inside it    "
    place = clip_left(inside.place, max(width - len(label) - len(inside.text), 30)) if inside.place else ""
    return paint(label, "dim") + paint(place, "cyan") + clip(inside.text, max(0, width - len(label) - len(place)))


def _callers(callers: tuple[str, ...], width: int, paint: Paint) -> list[str]:
    lines = []
    for depth, caller in enumerate(callers[:_MOST_CALLERS]):
        label = "  called from  " if depth == 0 else "               " + "  " * (depth - 1) + "└ "
        lines.append(paint(label, "dim") + clip_left(caller, width - len(label)))
    if len(callers) > _MOST_CALLERS:
        lines.append(paint(f"               and {len(callers) - _MOST_CALLERS} more above", "dim"))
    return lines


def _path(path: tuple[HopText, ...], width: int, paint: Paint) -> list[str]:
    """One line per hop, symptom first: rank, what it waits in and how long, place."""
    if not path:
        return []
    shown = shortened(path)
    rows = []
    for depth, hop in enumerate(shown):
        who = ("  " * depth + ("└ " if depth else "")) + hop.who
        amount = names.seconds(hop.wait_s) if hop.wait_s > 0 and width >= NARROW else ""
        rows.append((who, hop.what, amount, hop.place, hop.function))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    room = width - 4 - widths[0] - widths[1] - widths[2] - 6
    widths[3] = min(widths[3], max(room, 1))
    lines = [paint("  from the symptom to the cause", "dim")]
    for who, what, amount, place, function in rows:
        fixed = f"    {who:<{widths[0]}}  {what:<{widths[1]}}  {amount:>{widths[2]}}  "
        where = f"{clip_left(place, widths[3]):<{widths[3]}}"
        tail = clip(f" {function}", max(0, width - len(fixed) - len(where))) if function else ""
        lines.append((fixed + paint(where, "cyan") + tail).rstrip())
    if len(path) > len(shown):
        lines.insert(-1, paint(f"    ... {len(path) - len(shown)} more hops", "dim"))
    return lines


def _advice(advice: str, width: int, paint: Paint) -> list[str]:
    if not advice:
        return []
    first, *more = wrap(advice, width, "    ", "  → ") or [""]
    return [paint(first[:4], "green") + first[4:], *more]
