"""Colour for text reports; the same calls give plain text where colour is off."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "blue": "34"}

NARROW = 80
"""Columns below which tables leave out what can be spared."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Pads and measures are for plain text: paint last."""

    color: bool

    def __call__(self, text: str, *styles: str) -> str:
        """``text`` in the given styles (bold, dim, red, ...)."""
        if not self.color or not text or not styles:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, its end replaced by an ellipsis."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…" * (width > 0)


def clip_left(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, its beginning replaced: of a path the end tells more."""
    return text if len(text) <= width else "…" + text[len(text) - max(0, width - 1) :]


def wrap(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """``text`` as lines of at most ``width`` columns behind ``indent`` (the first behind ``first``)."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def rule(left: str, right: str, width: int) -> tuple[str, str, str]:
    """A headline across the page: (left, line, right), together ``width`` columns."""
    right = f" {right}" if right else ""
    left = clip(left, width - len(right) - 3)
    return f"{left} ", "─" * max(1, width - len(left) - len(right) - 1), right
