"""Rows of trajectories as formats give them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

Turn = tuple[float, float, float]
"""Tokens read, tokens generated, seconds of tools after it."""


class Groups:
    """Numbers for what tools call the prompts of a step."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}

    def number(self, step: int, name: Hashable | None) -> int:
        """The number of a prompt, the same for the same name in a step; -1 for none."""
        return -1 if name is None else self._numbers.setdefault((step, name), len(self._numbers))


def row(
    step: int, group: int, prompt: float, turns: Iterable[Turn], clipped: bool = False, **more: float
) -> dict[str, Any]:
    """A trajectory: ``more`` is any of ``verifier_s``, ``replica``, ``begin_s`` and ``end_s``."""
    of = list(turns)
    unknown = {"verifier_s": math.nan, "replica": -1, "begin_s": math.nan, "end_s": math.nan}
    response = sum(tokens for _, tokens, _ in of)
    return {"step": step, "group": group, "prompt": prompt, "response": response, "turns": of, "clipped": clipped} | {
        **unknown,
        **more,
    }
