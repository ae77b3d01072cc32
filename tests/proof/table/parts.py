"""Parts of the data of unequal size: named as the cause, and what equal parts save."""

from __future__ import annotations

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

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
    ),
)
