"""Programs around frameworks of others, each with a fault and without it."""

from __future__ import annotations

from ..readers import at
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/appendix/real-code.md"
PROGRAMS = 13
TRIED = Command(
    (
        "make --no-print-directory frameworks",
        "python -m tests.benchmarks.real_programs build/frameworks/bin --keep $WORK --format json",
    ),
    quiet=True,
)

TOPIC = Topic(
    "Frameworks of others",
    measured(
        DOCUMENT,
        TRIED,
        (
            *("frameworks-right", f"of {PROGRAMS} programs around frameworks, first findings right", f">= {PROGRAMS}"),
            *(f"of {PROGRAMS}", at("summary", "right")),
        ),
        (
            *("frameworks-quiet", "of these, without their fault, those without a finding", f">= {PROGRAMS}"),
            *(f"of {PROGRAMS}", at("summary", "quiet")),
        ),
        (
            *("frameworks-seconds", "error of the seconds at the fault, median", "<= 5", "%"),
            at("summary", "seconds_median"),
        ),
        (
            *("frameworks-saving", "error of the saving against the fault left out, median", "<= 3", "%"),
            at("summary", "saving_median"),
        ),
        (
            *("frameworks-saving-95th", "error of the saving, 95th percentile", "<= 10", "%"),
            at("summary", "saving_95th"),
        ),
    ),
)
