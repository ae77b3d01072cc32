"""Sequences of unequal lengths: named as the cause, and what packing them by cost saves."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/lengths.md"
PACKING = Command(("python -m tests.benchmarks.packing $WORK",), quiet=True)


def named(found: dict[str, Any]) -> float:
    """In how many runs the first finding is that sequences are of unequal lengths."""
    return float(sum(kind == "uneven-lengths" for case in found.values() for kind in case["kinds"]))


TOPIC = Topic(
    "Lengths of sequences",
    measured(
        DOCUMENT,
        PACKING,
        (
            "lengths-named",
            "of 6 runs with equal tokens and unequal lengths, those whose first finding says so",
            ">= 6",
            "of 6",
            derived(named),
        ),
        (
            "lengths-saving",
            "error of the saving predicted for packing by cost, against really packing so; larger of two cases",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * case["error"] for case in found.values())),
        ),
    ),
)
