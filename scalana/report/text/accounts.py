"""Accounts as text: shares, with bars of characters."""

from __future__ import annotations

from scalana.report import names
from scalana.report.document.sections import Account, Layout
from scalana.report.text.paint import NARROW, Paint, clip

_MARKS = (("█", "green"), ("▓", "yellow"), ("▒", "red"), ("░", "blue"), ("·", "dim"))
"""What parts are drawn with, by their colours."""
_BAR = 24
"""Characters of a bar behind a row."""
_SMALL = 0.0005
"""Of the whole: parts below are not written on a line."""


def account_lines(account: Account, width: int, paint: Paint) -> list[str]:
    """The lines of an account, in the layout that it asks for."""
    return _LAYOUTS[account.layout](account, width, paint)


def _line(account: Account, width: int, paint: Paint) -> list[str]:
    """Shares on a line, and a bar of the whole width."""
    label = f"  {account.lead}:" if account.lead else ""
    lines, room = [paint(label, "dim")], width - len(label)
    for part in account.shares:
        if account.share(part) < _SMALL:
            continue
        mark, style = _MARKS[part.color % len(_MARKS)]
        text = f"{part.name} {names.percent(account.share(part))}"
        if len(text) + 4 > room:
            lines.append("")
            room = width
        lines[-1] += f"  {paint(mark, style)} {text}"
        room -= len(text) + 4
    columns = width - 4
    bar, begin, filled = "", 0.0, 0
    for part in account.shares:
        mark, style = _MARKS[part.color % len(_MARKS)]
        begin += max(0.0, account.share(part))
        end = min(columns, round(begin * columns))
        bar += paint(mark * (end - filled), style)
        filled = max(filled, end)
    return [*lines, "  " + bar]


def _bars(account: Account, width: int, paint: Paint) -> list[str]:
    """A row each: name, share, seconds, a bar where there is room, and its cause."""
    lines = []
    for part in account.shares:
        share = account.share(part)
        fixed = f"  {part.name:<12}{names.percent(share):>7}{names.seconds(part.seconds):>9}  "
        bar = f"{'█' * round(max(share, 0.0) * _BAR):<{_BAR}}"
        cells, room = fixed, width - len(fixed)
        if width >= NARROW:
            cells, room = fixed + paint(bar, "blue") + "  ", room - _BAR - 2
        style = "red" if part.is_marked else "dim"
        lines.append((cells + paint(clip(part.behind, room), style)).rstrip())
    return lines


def _rows(account: Account, width: int, paint: Paint) -> list[str]:
    """A row each: share, seconds, its cause, and the name, which may be long."""
    behind = max([len(account.behind_head), 8, *(len(part.behind) for part in account.shares)])
    head = f"  {'share':>6} {account.seconds_head:>10}  {account.behind_head:>{behind}}  {account.of}"
    lines = [paint(head, "dim")]
    for part in account.shares:
        cells = f"  {names.percent(account.share(part)):>6} {names.seconds(part.seconds):>10}  {part.behind:>{behind}}"
        name = clip(part.name, max(0, width - len(cells) - 2))
        lines.append(f"{cells}  " + paint(name, *(["red"] if part.is_marked else [])))
    return lines


_LAYOUTS = {Layout.LINE: _line, Layout.BARS: _bars, Layout.ROWS: _rows}
