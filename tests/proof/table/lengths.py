"""Sequences of unequal lengths, and parts of sequences: named as the cause, and what another distribution saves."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/lengths.md"
CONTEXT = "docs/context-parallelism.md"
RINGS = Command(("python -m tests.benchmarks.rings $WORK",), quiet=True)
PUBLISHED = Command(("python -m tests.benchmarks.dcp_figures",))
PACKING = Command(("python -m tests.benchmarks.packing $WORK",), quiet=True)


def named(found: dict[str, Any]) -> float:
    """In how many runs the first finding is that sequences are of unequal lengths."""
    return float(sum(kind == "uneven-lengths" for case in found.values() for kind in case["kinds"]))


def masks_named(found: dict[str, Any]) -> float:
    """In how many runs the first finding is the mask, and the last rank, where that is so, and another one else."""
    uneven = found["errors"]
    return float(
        sum(
            ((kind, ranks) == ("uneven-mask", [3])) == (name in uneven)
            for name, case in found["cases"].items()
            for kind, ranks in zip(case["kind"], case["ranks"], strict=True)
        )
    )


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
    )
    + measured(
        CONTEXT,
        RINGS,
        (
            "mask-named",
            "of 18 runs with context parallelism, those in which a causal mask over contiguous parts is named exactly "
            "where there is one: ring attention and gathered keys and values, contiguous (6) and in zigzag, "
            "all-to-all, no mask; attention is emulated by sleeping",
            ">= 18",
            "of 18",
            derived(masks_named),
        ),
        (
            "mask-saving",
            "error of the time predicted to be saved in a step by parts in zigzag, against really dividing sequences "
            "so; larger of ring attention and gathered keys and values",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * error for error in found["errors"].values())),
        ),
        (
            "mask-ulysses",
            "error of a step predicted for a ring of keys and values, with parts in zigzag, instead of all-to-alls of "
            "heads, against really dividing sequences so",
            "<= 10",
            "%",
            derived(lambda found: 100.0 * found["ring_error"]),
        ),
    )
    + measured(
        CONTEXT,
        PUBLISHED,
        (
            "dcp-points",
            "mean error of 32 speed-ups by dynamic context parallelism over Megatron, against those published "
            "(simulated, with approximated lengths of sequences), in points of a per cent",
            "<= 10",
            "points",
            derived(lambda found: found["points"]),
        ),
        (
            "dcp-signs",
            "of these 32, those that rightly gain or lose; two lose, under causal masks at 64k and 128k",
            ">= 32",
            "of 32",
            derived(lambda found: float(found["signs"])),
        ),
    ),
)
