"""Jobs that something happens to, with and without scalana."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/appendix/faults.md"

TOPIC = Topic(
    "Faults",
    measured(
        DOCUMENT,
        Command(("(python -m tests.faults 1000 --folder build/faults || true)",)),
        ("faults-runs", "runs, each with and without scalana", "== 1000", "runs", number(r"^(\d+) runs, each")),
        (
            "faults-different",
            "runs with another exit status or output, that hang, or that lose more than a second of their record",
            "== 0",
            "runs",
            number(r"without scalana: (\d+) different"),
        ),
    ),
)
