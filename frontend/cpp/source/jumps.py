"""Loops that are made by ``goto``: from a label to the last jump back to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.frontend.cpp.source.clang import children_of, kind_of, referenced

if TYPE_CHECKING:
    from clang.cindex import Cursor

Spans = dict[int, int]
"""Statements of a block between which a jump goes back, by number: first -> last. None crosses another."""

_LABELS = frozenset({"LABEL_STMT", "CASE_STMT", "DEFAULT_STMT"})


def jumps_back(function: Cursor) -> dict[Cursor, Spans]:
    """The loops by ``goto`` in the blocks of a function, or of a lambda.

    One belongs to the innermost block that holds both the label and the jump.
    """
    found: dict[Cursor, Spans] = {}
    for part in children_of(function):
        _look_into(part, found)
    return found


def _look_into(cursor: Cursor, found: dict[Cursor, Spans]) -> tuple[set[Cursor], set[Cursor]]:
    """Note the loops of all blocks in a statement; returns its labels, and those that it jumps to."""
    kind = kind_of(cursor)
    labels: set[Cursor] = set()
    jumps: set[Cursor] = set()
    if kind == "GOTO_STMT":
        target = referenced(cursor)
        return labels, jumps if target is None else {target}
    if not cursor.kind.is_statement() or kind == "DECL_STMT":
        return labels, jumps
    if kind == "LABEL_STMT":
        labels.add(cursor)
    spans: Spans = {}
    first: dict[Cursor, int] = {}
    for number, child in enumerate(children_of(cursor)):
        inner, targets = _look_into(child, found)
        first.update(dict.fromkeys(_labels_of(child), number))
        for label in targets & first.keys():
            spans[first[label]] = number
        first.update(dict.fromkeys(inner, number))
        labels |= inner
        jumps |= targets
    if kind == "COMPOUND_STMT" and spans:
        found[cursor] = _nested(spans)
    return labels, jumps


def _labels_of(cursor: Cursor) -> set[Cursor]:
    """The labels that a statement begins with."""
    found: set[Cursor] = set()
    while kind_of(cursor) in _LABELS and children_of(cursor):
        if kind_of(cursor) == "LABEL_STMT":
            found.add(cursor)
        cursor = children_of(cursor)[-1]
    return found


def _nested(spans: Spans) -> Spans:
    """Of two that cross, the outer one ends with the inner one."""
    nested = dict(spans)
    for start in sorted(nested, reverse=True):
        grown = True
        while grown:
            end = max(last for first, last in nested.items() if start <= first <= nested[start])
            grown, nested[start] = end > nested[start], end
    return nested
