"""The whole report as text. A pure function from an analysis to a string."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.analysis import Analysis
from scalana.report.contents import contents_of
from scalana.report.document.contents import Contents
from scalana.report.text import findings
from scalana.report.text.paint import Paint, clip, rule, wrap
from scalana.report.text.sections import section_lines

MOST_FINDINGS = 5
"""Shown in full; the others are counted, and stand in the JSON report."""


def render(analysis: Analysis, *, width: int = 100, color: bool = False) -> str:
    """The report in at most ``width`` columns, with ANSI colours if ``color``. Ends with a newline."""
    return draw(contents_of(analysis, MOST_FINDINGS), width, Paint(color))


def draw(contents: Contents, width: int, paint: Paint) -> str:
    """What a report says, as text."""
    head = [one for one in contents.sections if one.is_head]
    blocks = [_header(contents, width, paint)]
    blocks += [section_lines(one, width, paint) for one in head]
    blocks.append(warning_lines(contents.warnings, width, paint))
    blocks.append(_labelled(contents.headline, width, paint))
    blocks += [findings.block(number, cause, width, paint) for number, cause in enumerate(contents.causes, 1)]
    blocks.append([f"  {contents.rest}"] if contents.rest else [])
    blocks.append(_labelled(contents.nothing, width, paint))
    blocks += [section_lines(one, width, paint) for one in contents.sections if one not in head]
    return joined(blocks)


def joined(blocks: Sequence[Sequence[str]]) -> str:
    """Blocks of lines, with an empty line between them."""
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def warning_lines(messages: Sequence[str], width: int, paint: Paint) -> list[str]:
    """Warnings, a paragraph each."""
    lines = []
    for message in messages:
        first, *more = wrap(message, width, "           ", "  warning: ") or [""]
        lines += [paint("  warning:", "yellow") + first[len("  warning:") :], *more]
    return lines


def _header(contents: Contents, width: int, paint: Paint) -> list[str]:
    left, line, _ = rule("scalana", "", width)
    return [
        paint(left, "bold") + paint(line, "dim"),
        "  " + paint(clip(contents.command, width - 2), "bold"),
        *(line for fact in contents.head for line in wrap(fact, width, "  ")),
    ]


def _labelled(sentence: tuple[str, str], width: int, paint: Paint) -> list[str]:
    """A sentence whose first words say what it is; no line where it is empty."""
    first, text = sentence
    if not text:
        return []
    first_line, *more = wrap(first + text, width, "  ")
    return [paint(first_line[: 2 + len(first)], "green") + first_line[2 + len(first) :], *more]
