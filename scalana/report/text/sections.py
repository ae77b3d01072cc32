"""Sections as text: a headline, and the parts one below the other."""

from __future__ import annotations

from scalana.report.document.sections import Account, Facts, Part, Section, Table
from scalana.report.text.accounts import account_lines
from scalana.report.text.paint import Paint, rule, wrap
from scalana.report.text.tables import table_lines


def section_lines(section: Section, width: int, paint: Paint) -> list[str]:
    """The lines of a section; none where it has only pictures. In the head of a report it has no headline."""
    blocks = [[line for part in block for line in part_lines(part, width, paint)] for block in section.blocks]
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ([""] if lines else []) + block
    if not lines or section.is_head or not section.heading:
        return lines
    left, line, right = rule(section.heading, section.of, width)
    return [paint(left, "bold") + paint(line + right, "dim"), *lines]


def part_lines(part: Part, width: int, paint: Paint) -> list[str]:
    """The lines of one part; none of a picture."""
    if isinstance(part, Facts):
        return _facts(part, width, paint)
    if isinstance(part, Account):
        return account_lines(part, width, paint)
    if isinstance(part, Table):
        return table_lines(part, width, paint)
    return []


def _facts(facts: Facts, width: int, paint: Paint) -> list[str]:
    paragraphs = [*facts.sentences, *(f"{name}: {value}" for name, value in facts.values)]
    lines = [line for text in paragraphs for line in wrap(text, width, "    " if facts.hangs else "  ", "  ")]
    return [paint(line, "dim") for line in lines] if facts.is_soft else lines
