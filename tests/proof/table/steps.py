"""Changes over the steps that are reported where nothing changes."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/appendix/trend.md"
ALARMS = Command(("python -m tests.benchmarks.trend_alarms",))
EVEN = (
    "even",
    "uneven",
    "heavy tails",
    "a checkpoint each 10 steps",
    "a checkpoint beside other work",
    "every other step",
    "lengths in turn",
    "warm-up of 2 steps",
    "twice for a while",
)
"""Series of which the document says 0 %."""


def most(place: int) -> Any:
    """Of the series with a number of steps, the one with most alarms."""
    return derived(lambda found: max(percent[place] for percent in found.values()))


TOPIC = Topic(
    "Changes over the steps",
    measured(
        DOCUMENT,
        ALARMS,
        *(
            (
                f"trend-{steps}",
                f"steady costs of {steps} steps said to change, most of 17 series",
                f"<= {percent}",
                "% of seeds",
                most(place),
            )
            for place, (steps, percent) in enumerate(((20, 9), (60, 3), (120, 3)))
        ),
        (
            "trend-even",
            "the same of 9 series whose neighbouring steps are not alike, any number of steps",
            "<= 0",
            "% of seeds",
            derived(lambda found: max(max(found[name]) for name in EVEN)),
        ),
    ),
)
