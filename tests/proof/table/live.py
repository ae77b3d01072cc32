"""Runs that are looked at while they go on."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/live.md"

FOLLOWER = Command(("python -m tests.benchmarks.follower",))
HANGS = Command(
    ("python tests/tools/analysis_kernels.py $WORK/modelled", "python -m tests.benchmarks.hangs"),
    quiet=True,
)
"""What is compiled once after an installation takes half a minute here, and is no part of an explanation."""
WATCHED = Command(("python -m tests.benchmarks.watch_cost",), quiet=True)
SLOW_RANK = Command(("python -m tests.benchmarks.changes_live slow-rank",), quiet=True)
RESTART = Command(("python -m tests.benchmarks.changes_live ray",))
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
    )
    + measured(
        DOCUMENT,
        WATCHED,
        (
            "watch-cost",
            "what `scalana watch` and verdicts add to the CPU time of a step of a job that is recorded",
            "<= 0.2",
            "%",
            number(r"pairs of turns: ([-+\d.]+) % CPU a step"),
        ),
    )
    + measured(
        DOCUMENT,
        HANGS,
        (
            "hangs-right",
            "jobs of 12 that hang in different ways, of which the rank and the line are printed while they hang",
            "== 12",
            "jobs",
            number(r"12 hangs: (\d+) right"),
        ),
        (
            "hangs-after",
            "the longest time from the limit until that is printed",
            "<= 15.0",
            "s",
            number(r"at most ([\d.]+) s after the limit"),
        ),
        (
            "hangs-alarms",
            "alarms in 10 jobs that are slow but move",
            "== 0",
            "alarms",
            number(r"10 slow jobs: (\d+) alarms, 0 failed"),
        ),
    )
    + measured(
        DOCUMENT,
        SLOW_RANK,
        (
            "slow-rank-live",
            "a rank that takes 1.6 times as long for everything from step 1,000 on: named live, and none before",
            "== 1",
            "runs",
            number(r"slow rank: (\d) named"),
        ),
        (
            "slow-rank-since",
            "the same: the step from which on it is slow, off",
            "<= 5",
            "steps",
            number(r"slow rank: .* since (\d+) steps off"),
        ),
        (
            "slow-rank-after",
            "the same in the report after the end",
            "<= 5",
            "steps",
            number(r"after the end: ranks \[1\], since (\d+) steps off"),
        ),
    )
    + measured(
        "docs/productive-time.md",
        RESTART,
        (
            "restart-ray",
            "an actor of Ray that dies: `restarting` and `start-up`, off from the program's own clocks",
            "<= 0.3",
            "s",
            number(r"ray: 2 attempts, .* ([\d.]+) s off"),
        ),
    ),
)
