"""Runs that are looked at while they go on."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/live.md"

FOLLOWER = Command(("python -m tests.benchmarks.follower",))
LOOKS = Command(("python -m tests.benchmarks.live_update 250 2000",))

TOPIC = Topic(
    "Live",
    measured(
        DOCUMENT,
        LOOKS,
        (
            "live-update",
            "a look of `scalana watch` at 64 ranks, without finding causes, after 250 steps: CPU time",
            "<= 0.5",
            "s",
            number(r"250 steps: .*update ([\d.]+) s"),
        ),
        (
            "live-update-later",
            "the same after 2,000 steps",
            "<= 0.5",
            "s",
            number(r"2000 steps: .*update ([\d.]+) s"),
        ),
        (
            "live-causes",
            "finding the causes again in the last part, after 250 steps: CPU time",
            "<= 0.5",
            "s",
            number(r"250 steps: .*causes ([\d.]+) s"),
        ),
        (
            "live-causes-later",
            "the same after 2,000 steps",
            "<= 0.5",
            "s",
            number(r"2000 steps: .*causes ([\d.]+) s"),
        ),
    )
    + measured(
        DOCUMENT,
        FOLLOWER,
        (
            "follower-start",
            "the process that follows a job of 4 ranks, with the first verdict: CPU time",
            "<= 5.0",
            "s",
            number(r"start ([\d.]+) s"),
        ),
        (
            "follower-share",
            "the same from then on: part of a core",
            "<= 1.0",
            "%",
            number(r"then ([\d.]+) % of a core"),
        ),
    ),
)
