"""What is planted in a job of verl: names, each with its size if it is another one: ``PLANTED="long rewards=2"``."""

from __future__ import annotations

import os

SIZES = {
    "long": 100.0,  # tokens of the first answer of the second server, in steps 1, 3, ...
    "rewards": 0.8,  # seconds that every reward takes longer, in steps 2, 4, ...
    "token": 0.01,  # seconds that generation takes for a token of all answers under way, at least
    "trainer": 0.15,  # seconds that a forward pass takes longer on the second trainer
    "rows": 0.005,  # seconds that a forward pass takes for a token; half of the prompts have long answers
}

_ASKED = dict(part.partition("=")[::2] for part in os.environ.get("PLANTED", "").split())


def planted(name: str) -> float:
    """The size of it, 0 where it is not planted."""
    return float(_ASKED[name] or SIZES[name]) if name in _ASKED else 0.0
