"""Experts that a loop loads on demand: waiting by layer, and what earlier loads and more room save."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Topic, measured

LOADS = Command(("python -m tests.benchmarks.expert_loads $WORK",), quiet=True)


def named(found: dict[str, Any]) -> float:
    """In how many runs the first finding is waiting for experts."""
    return float(sum(kind == "expert-loads" for case in found.values() for kind in case["kinds"]))


def largest(found: dict[str, Any], case: str) -> float:
    """The largest error of a prediction for a program, in percent."""
    return max(100.0 * way["error"] for way in found[case]["ways"].values())


TOPIC = Topic(
    "Experts",
    measured(
        "docs/experts.md",
        LOADS,
        (
            "experts-named",
            "of 9 runs of two programs that load experts from files, one of them also with a draft, those whose first "
            "finding is waiting for them",
            ">= 9",
            "of 9",
            derived(named),
        ),
        (
            "experts-layers",
            "error of waiting for experts in a layer, against what the program measures itself; largest of all layers "
            "and runs",
            "<= 10",
            "%",
            derived(lambda found: max(100.0 * one for case in found.values() for one in case["layer_errors"])),
        ),
        (
            "experts-saving-files",
            "error of a pass predicted with loads 1 and 2 layers ahead, and with twice the room, against really doing "
            "so",
            "<= 10",
            "%",
            derived(lambda found: largest(found, "files")),
        ),
        (
            "experts-saving-draft",
            "the same with the experts of all layers loaded during the draft",
            "<= 10",
            "%",
            derived(lambda found: largest(found, "draft")),
        ),
        (
            "experts-saving-bank",
            "the same for another program: 1 layer ahead, during the draft, twice the room",
            "<= 10",
            "%",
            derived(lambda found: largest(found, "bank")),
        ),
    ),
)
