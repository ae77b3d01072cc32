"""The lines of source behind a finding, where the files are at hand."""

from __future__ import annotations

import os
import tokenize

from scalana.report.document.finding import SourceLine

_BEFORE = 2
_AFTER = 1
_MOST_MARKED = 6


def excerpt(file: str, line: int, end_line: int) -> list[SourceLine]:
    """The lines ``line`` to ``end_line`` of ``file`` with a few around them, common indentation removed.

    A long place is cut off after its first lines. Empty when there is no such file or line.
    """
    lines = _read(file)
    if not 0 < line <= len(lines):
        return []
    end_line = min(max(line, end_line), len(lines))
    last_marked = min(end_line, line + _MOST_MARKED - 1)
    last = min(last_marked + (_AFTER if last_marked == end_line else 0), len(lines))
    numbers = list(range(max(1, line - _BEFORE), last + 1))
    texts = [lines[number - 1].expandtabs(4).rstrip() for number in numbers]
    while numbers and not texts[0]:
        numbers, texts = numbers[1:], texts[1:]
    while numbers and not texts[-1]:
        numbers, texts = numbers[:-1], texts[:-1]
    margin = min((len(text) - len(text.lstrip()) for text in texts if text), default=0)
    return [
        SourceLine(number, text[margin:], line <= number <= last_marked)
        for number, text in zip(numbers, texts, strict=True)
    ]


def changed_since(file: str, unix_s: float) -> bool:
    """Whether ``file`` was written after a moment, so that its lines may not be those that ran."""
    try:
        return os.path.getmtime(file) > unix_s
    except OSError:
        return False


def _read(file: str) -> list[str]:
    try:
        with tokenize.open(file) as source:
            return source.read().splitlines()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        pass
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read().splitlines()
    except (OSError, ValueError):
        return []
