"""What reports say of imported tables of operations: the jobs of ByteDance's straggler study."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command, Need
from .topic import Topic, measured

DOCUMENT = "docs/appendix/pipelines.md"

STUDY = Need("STRAGGLER_STUDY", "the data of ByteDance's StragglerAnalysis")
JOBS = Command(("python -m tests.benchmarks.straggler_study $STRAGGLER_STUDY",), needs=(STUDY,))


def right(found: dict[str, Any]) -> float:
    """How many first findings are the known causes."""
    return float(sum(one["right"] for one in found.values()))


def slow_down_off(found: dict[str, Any]) -> float:
    """The largest difference of a job's slow-down, in percent."""
    return float(max(100 * abs(one["S"][0] / one["S"][1] - 1) for one in found.values()))


def shares_off(found: dict[str, Any]) -> float:
    """The largest difference of a share M_W or M_S, in points."""
    return float(max(100 * abs(one[name][0] - one[name][1]) for one in found.values() for name in ("M_W", "M_S")))


def workers_off(found: dict[str, Any]) -> float:
    """The largest difference of a worker's slow-down, in percent."""
    return float(max(one["workers_off_percent"] for one in found.values()))


TOPIC = Topic(
    "Tables of operations",
    measured(
        DOCUMENT,
        JOBS,
        ("tables-named", "straggler study: known cause named first", ">= 3", "of 3", derived(right)),
        ("tables-slow-down", "straggler study: slow-down S, largest difference", "<= 2.0", "%", derived(slow_down_off)),
        ("tables-workers", "straggler study: S_w of workers, largest difference", "<= 2.0", "%", derived(workers_off)),
        ("tables-shares", "straggler study: M_W and M_S, largest difference", "<= 2.0", "points", derived(shares_off)),
    ),
)
