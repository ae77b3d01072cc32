"""Tables as text: fixed columns, the last of which takes the room that is left."""

from __future__ import annotations

from scalana.report.document.sections import Cell, Column, Fit, Table, Tone
from scalana.report.text.paint import NARROW, Paint, clip, clip_left, wrap

_STYLES = {
    Tone.PLACE: "cyan",
    Tone.WAITING: "red",
    Tone.STALLED: "yellow",
    Tone.SOFT: "dim",
    Tone.WORSE: "red",
    Tone.BETTER: "green",
}
_LEAST_ROOM = 8
"""Characters of the last column, however narrow the page is."""
NOTHING = "·"
"""A cell that holds next to nothing, and has no colour."""


def table_lines(table: Table, width: int, paint: Paint) -> list[str]:
    """Head, rows and notes of a table. Columns that can be spared are left out of a narrow one."""
    kept = [number for number, one in enumerate(table.columns) if width >= NARROW or not one.is_spared]
    columns = [table.columns[number] for number in kept]
    lines = [paint(_head(columns), "dim")]
    for row in table.rows:
        lines += _row(columns, [row.cells[number] for number in kept], width, paint)
        lines += wrap(row.below, width, " " * 8) if row.below else []
    return [*lines, *(paint(line, "dim") for note in table.notes for line in wrap(note, width, "  "))]


def _head(columns: list[Column]) -> str:
    return "".join(_gap(number, one) + _padded(one.head, one) for number, one in enumerate(columns)).rstrip()


def _gap(number: int, column: Column) -> str:
    return "  " if number == 0 or column.is_text else " "


def _padded(text: str, column: Column) -> str:
    return f"{text:<{column.width}}" if column.is_text and not column.is_right else f"{text:>{column.width}}"


def _row(columns: list[Column], cells: list[str | Cell], width: int, paint: Paint) -> list[str]:
    fixed, painted = "", ""
    *first, last = zip(columns, cells, strict=True)
    for number, (column, cell) in enumerate(first):
        gap, text = _gap(number, column), _padded(_text(cell), column)
        fixed += gap + text
        painted += gap + _tinted(text, _tone(column, cell), paint)
    column, cell = last
    gap = _gap(len(first), column)
    if not column.is_text:
        return [(painted + gap + _tinted(_padded(_text(cell), column), _tone(column, cell), paint)).rstrip()]
    if column.fit is Fit.WRAP:
        indent = " " * len(fixed + gap)
        wrapped = wrap(_text(cell), width, indent) or [indent]
        return [(painted + wrapped[0][len(fixed) :]).rstrip(), *wrapped[1:]]
    return [(painted + gap + _fitted(column, cell, max(width - len(fixed + gap), _LEAST_ROOM), paint)).rstrip()]


def _text(cell: str | Cell) -> str:
    return cell if isinstance(cell, str) else "  " * cell.indent + cell.text


def _fitted(column: Column, cell: str | Cell, room: int, paint: Paint) -> str:
    """The last cell of a row: its text, and as much of its tail as there is room for."""
    shorten = clip_left if column.fit is Fit.CLIP_LEFT else clip
    text = shorten(_text(cell), room)
    tail = cell.tail if isinstance(cell, Cell) else ""
    return _tinted(text, _tone(column, cell), paint) + clip(tail, max(0, room - len(text)))


def _tone(column: Column, cell: str | Cell) -> Tone:
    return cell.tone if isinstance(cell, Cell) and cell.tone is not None else column.tone


def _tinted(text: str, tone: Tone, paint: Paint) -> str:
    style = _STYLES.get(tone)
    return paint(text, style) if style and text.strip() not in ("", NOTHING) else text
