"""Parts of the data of unequal size: named as the cause, and what equal parts save."""

from __future__ import annotations

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

TAILS = Command(("python -m tests.benchmarks.task_tails $WORK",), quiet=True)
CUTTING = Command(("python -m tests.benchmarks.uneven_parts $WORK",), quiet=True)

TOPIC = Topic(
    "Uneven parts",
    measured(
        "docs/uneven-parts.md",
        CUTTING,
        (
            "parts-named",
            "of 3 runs with a power-law graph cut into parts of equal nodes, those whose first finding names the rank "
            "with most edges, for its edges",
            ">= 3",
            "of 3",
            derived(lambda found: float(sum(kind == ["uneven-sizes", [2]] for kind in found["kinds"]))),
        ),
        (
            "parts-saving",
            "error of the saving predicted for parts of equal edges, against really cutting the graph so",
            "<= 10",
            "%",
            derived(lambda found: 100.0 * found["error"]),
        ),
    )
    + measured(
        "docs/task-tails.md",
        TAILS,
        (
            "tails-named",
            "of 6 runs of pools of processes and threads with long calls at the end, those that name one of these as "
            "the last",
            ">= 6",
            "of 6",
            derived(lambda found: float(sum("=500) #" in last for case in found.values() for last in case["last"]))),
        ),
        (
            "tails-saving",
            "error of the time predicted to be saved by the longest calls first, against really submitting them so; "
            "larger of the two",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * case["error"] for case in found.values())),
        ),
    ),
)
