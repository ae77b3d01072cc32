"""An expensive source of a mixture of data: named as the cause, and what other ways to load it save."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/sources.md"
MIXING = Command(("python -m tests.benchmarks.mixing $WORK",), quiet=True)
TABLE = Command(
    (
        "make --no-print-directory frameworks",
        "python -m tests.benchmarks.mixing $WORK --mixture table --python build/frameworks/bin/python",
    ),
    quiet=True,
)
"""With ``datasets`` of Hugging Face."""
PLANTED_S = 20 * 4 * (4 * 0.08 - 2 * 0.04)
"""Of 20 steps in which 4 ranks wait for a batch of videos: its cost, without two steps in which it is loaded ahead."""


def named(found: dict[str, Any]) -> float:
    """In how many runs the first finding is the source of videos."""
    return float(sum(one == ["slow-source", "video"] for one in found["sources"]))


def rows(mark: str, of: str) -> tuple[tuple[Any, ...], ...]:
    """The same rows for a kind of mixture."""
    return (
        (
            f"{mark}-named",
            f"of 3 runs with an expensive source in turn on each rank{of}, those whose first finding names it",
            ">= 3",
            "of 3",
            derived(named),
        ),
        (
            f"{mark}-lost",
            f"error of what the source costs in waiting{of}, against what is planted; largest of 3 runs",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * abs(one / PLANTED_S - 1.0) for one in found["lost_s"])),
        ),
        (
            f"{mark}-saving",
            f"error of the step predicted with samples dealt out evenly, or twice the workers{of}, against really "
            "doing so",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * way["error"] for way in found["ways"].values())),
        ),
    )


TOPIC = Topic(
    "Sources of data",
    (
        *measured(DOCUMENT, MIXING, *rows("sources", "")),
        *measured(DOCUMENT, TABLE, *rows("sources-table", " in one table of `datasets`")),
    ),
)
