"""Loops that generate tokens: numbers of threads that are slower, weights on another NUMA node, and what the faster way
saves."""

from __future__ import annotations

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

THREADS = Command(("python -m tests.benchmarks.serving_threads $WORK",), quiet=True)
WEIGHTS = Command(("python -m tests.benchmarks.serving_threads $WORK --weights",), quiet=True)

TOPIC = Topic(
    "Serving",
    (
        *measured(
            "docs/serving.md",
            THREADS,
            (
                "serving-named",
                "of 3 runs that generate with one thread and with eight for each core in turn, those whose finding "
                "says that decode is faster with one",
                ">= 3",
                "of 3",
                derived(lambda found: float(sum(["decode", found["many"], 1] in one for one in found["named"]))),
            ),
            (
                "serving-saving",
                "error of the saving predicted for the faster number of threads, against really setting it",
                "<= 10",
                "%",
                derived(lambda found: 100.0 * found["error"]),
            ),
        ),
        *measured(
            "docs/serving.md",
            WEIGHTS,
            (
                "serving-weights-named",
                "of 3 runs that generate on two NUMA nodes in turn (emulated, with the weights on the first), those "
                "whose finding names phase and nodes",
                ">= 3",
                "of 3",
                derived(lambda found: float(sum(["decode", 1, 0] in one for one in found["named"]))),
            ),
            (
                "serving-weights-saving",
                "error of the saving predicted for weights on the node of the threads, against really running there",
                "<= 10",
                "%",
                derived(lambda found: 100.0 * found["error"]),
            ),
        ),
    ),
)
