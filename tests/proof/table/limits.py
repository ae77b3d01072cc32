"""What limits a step: the causal profile, and the kinds of causes that all ranks share, against changed programs."""

from __future__ import annotations

from statistics import median

from ..readers import in_column
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/appendix/limits.md"
PROFILE = Command(("python -m tests.benchmarks.causal_profile",), quiet=True)

TOPIC = Topic(
    "What limits a step",
    (
        *measured(
            DOCUMENT,
            PROFILE,
            (
                "profile-places",
                "ten places of three programs, each really made twice as fast: error of the step that the causal "
                "profile predicts, largest",
                "<= 10",
                "%",
                in_column("| place", 6),
            ),
            (
                "profile-median",
                "the same: median error",
                "<= 5",
                "%",
                in_column("| place", 6, median),
            ),
        ),
    ),
)
