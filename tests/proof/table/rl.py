"""Reinforcement learning: causes of waiting, advice that is followed, the cost of marks."""

from __future__ import annotations

from ..readers import cells_where, farthest, in_column, number
from ..rows import Command, Elsewhere, Need, Reader, Row
from .topic import Topic

DOCUMENT = "docs/appendix/rl.md"

CAUSES = Command(("python tests/benchmarks/rl_causes.py",))
HOOKS = Command(("python tests/benchmarks/rl_hooks.py",))
VERL = Need("VERL", "verl (make verl, then VERL=build/verl)")
REMEDIES = Command(("python tests/benchmarks/verl_remedies.py",), needs=(VERL,))

SPEED = Command(("python tests/benchmarks/rl_replay.py speed",))
REPLAY = Command(("python tests/benchmarks/rl_replay.py loop",), quiet=True)
REAL = {
    "trl": Command(
        ("python tests/benchmarks/rl_replay.py trl",),
        quiet=True,
        needs=(Need("TRL", "TRL (make rl, then TRL=build/rl)"),),
    ),
    "verl": Command(("python tests/benchmarks/rl_replay.py verl",), quiet=True, needs=(VERL,)),
}
"""Replays of jobs of trainers of others."""
LAMINAR = Command(("python tests/benchmarks/laminar_throughput.py",))
QUEUE = Command(("python tests/benchmarks/rl_queue.py",))
WORKERS = Command(("python tests/benchmarks/worker_remedies.py",))

FINDINGS = "| planted | told | rank-seconds"
SHARES = "| planted | share | rank-seconds"
REMEDY = "| remedy | told before"
VERL_JOB = Elsewhere("measured within one job of verl once; `make verl-test` holds it to wider bounds")
RLLIB_JOB = Elsewhere("measured in one job of RLlib each; `make rllib-test` holds it to wider bounds")


def remedy(place: int) -> Reader:
    """The error of one remedy, by its row."""
    return in_column(REMEDY, 7, lambda errors: errors[place])


TOPIC = Topic(
    "Reinforcement learning",
    (
        Row(
            "rl-named",
            "of 14 planted causes on 8 processes, findings of the right kind and processes",
            ">= 14",
            "of 14",
            DOCUMENT,
            CAUSES,
            cells_where(FINDINGS, 2, lambda cell: cell != "nothing" and "(!)" not in cell),
        ),
        Row(
            "rl-waiting",
            "rank-seconds of waiting, largest error of 14",
            "<= 3.0",
            "%",
            DOCUMENT,
            CAUSES,
            in_column(FINDINGS, 5),
        ),
        Row(
            "rl-advice",
            "a step with the advice followed, predicted: largest error of 14",
            "<= 5.2",
            "%",
            DOCUMENT,
            CAUSES,
            in_column(FINDINGS, 10),
        ),
        Row(
            "rl-shares",
            "seconds of 11 shares that no finding is about, largest error",
            "<= 5.1",
            "%",
            DOCUMENT,
            CAUSES,
            in_column(SHARES, 5),
        ),
        Row("rl-sum", "the shares add up to, least of 11", ">= 1.000", "", DOCUMENT, CAUSES, in_column(SHARES, 6, min)),
        Row("rl-sum-most", "the same, most of 11", "<= 1.000", "", DOCUMENT, CAUSES, in_column(SHARES, 6)),
        *(
            Row(
                f"rl-verl-{name}",
                f"a job of verl with {what}: predicted step, error",
                f"<= {most}",
                "%",
                DOCUMENT,
                REMEDIES,
                remedy(place),
            )
            for place, (name, what, most) in enumerate(
                (
                    ("verifier", "twice the workers for rewards", 0.5),
                    ("cap", "a cap of the length", 6.2),
                    ("trainer", "a trainer as fast as the other", 2.8),
                    ("balance", "balanced rows (the jobs ran under unlike loads)", 45.1),
                )
            )
        ),
        *(
            Row(f"rl-verl-saving-{name}", f"verl, saving of {what}: error", f"<= {most}", "%", DOCUMENT, VERL_JOB)
            for name, what, most in (
                ("rewards", "slow rewards, 5 and 9 steps", 8),
                ("tail", "long answers, 5 and 9 steps", 5),
                ("trainer", "a slow trainer, 5 and 9 steps", 12),
            )
        ),
        *(
            Row(f"rl-rllib-{name}", f"RLlib, saving of {what}: error", f"<= {most}", "%", DOCUMENT, RLLIB_JOB)
            for name, what, most in (
                ("environment", "a slow environment (1.79 s of 2.17)", 18),
                ("loss", "a slow loss (1.19 s of 1.21)", 2),
                ("connector", "a slow connector (1.83 s of 1.80)", 2),
            )
        ),
        Row(
            "rl-verl-messages",
            "messages of a job of verl with a queue whose sender is known",
            ">= 99.3",
            "%",
            DOCUMENT,
            VERL_JOB,
        ),
        Row(
            "rl-replay-speed",
            "8,192 trajectories simulated on a thousand replicas",
            "<= 1.00",
            "s",
            DOCUMENT,
            SPEED,
            number(r"replicas: ([\d.]+) s"),
        ),
        *(
            Row(f"rl-replay-{name}", f"a recorded loop, {what}: accuracy", ">= 97.0", "%", DOCUMENT, REPLAY, read)
            for name, what, read in (
                ("sum", "other steps simulated, their sum", number(r"loop, simulated \| ([\d.]+) %")),
                ("steps", "other steps simulated, each", number(r"loop, simulated \| [\d.]+ % \| ([\d.]+) %")),
                (
                    "phases",
                    "other steps simulated, worst phase",
                    number(r"loop, simulated \| [\d.]+ % \| [\d.]+ % \| ([\d.]+) %"),
                ),
                ("played", "played by real processes, sum of the steps", number(r"loop, played \| ([\d.]+) %")),
            )
        ),
        Row(
            "rl-replay-drawn",
            "a recorded loop, steps drawn from a profile of others: accuracy",
            ">= 90.0",
            "%",
            DOCUMENT,
            REPLAY,
            number(r"loop, drawn \| ([\d.]+) %"),
        ),
        *(
            Row(
                f"rl-replay-{job}-{name}",
                f"a job of {title}, {what}: accuracy",
                ">= 97.0",
                "%",
                DOCUMENT,
                REAL[job],
                read,
            )
            for job, title in (("trl", "TRL"), ("verl", "verl"))
            for name, what, read in (
                ("sum", "other steps simulated, their sum", number(rf"{job}, simulated \| ([\d.]+) %")),
                ("steps", "other steps simulated, each", number(rf"{job}, simulated \| [\d.]+ % \| ([\d.]+) %")),
                (
                    "phases",
                    "other steps simulated, worst phase",
                    number(rf"{job}, simulated \| [\d.]+ % \| [\d.]+ % \| ([\d.]+) %"),
                ),
            )
        ),
        Row(
            "rl-queue",
            "an asynchronous loop with another order, a cap, twice the processes: a step, largest error",
            "<= 10.0",
            "%",
            DOCUMENT,
            QUEUE,
            in_column("| change | predicted", 5),
        ),
        Row(
            "rl-laminar-verl",
            "verl's seven published throughputs, four constants fitted to them: largest error",
            "<= 15.0",
            "%",
            DOCUMENT,
            LAMINAR,
            farthest(r"([\d.]+)% \(fit\) \| \d+ \|"),
        ),
        Row(
            "rl-laminar",
            "Laminar's published throughputs, of six that nothing was fitted to: within 25 %",
            ">= 6",
            "of 6",
            DOCUMENT,
            LAMINAR,
            number(r"within 25 %: (\d+)"),
        ),
        Row(
            "rl-laminar-worst",
            "the same, largest error",
            "<= 25.0",
            "%",
            DOCUMENT,
            LAMINAR,
            number(r"largest error ([\d.]+) %"),
        ),
        Row(
            "rl-laminar-order",
            "order of verl, one step off, stream and Laminar, of seven sizes: right",
            ">= 7",
            "of 7",
            DOCUMENT,
            LAMINAR,
            number(r"order of the systems right at (\d+)"),
        ),
        Row(
            "rl-workers",
            "pools of loops without a mark, with 4 and 8 workers instead of 2: a step, largest error of 6",
            "<= 10.0",
            "%",
            DOCUMENT,
            WORKERS,
            farthest(r"^\| (?:pool|executor|samples) .* ([\d.]+) \|$"),
        ),
        Row(
            "rl-actors",
            "actors that fill a queue without a mark, 4 instead of 2: a step, error",
            "<= 25.0",
            "%",
            DOCUMENT,
            WORKERS,
            farthest(r"^\| queue .* ([\d.]+) \|$"),
        ),
        Row("rl-phase", "a mark of a phase", "<= 2.4", "us", DOCUMENT, HOOKS, number(r"^a phase: ([\d.]+) us")),
        Row(
            "rl-trajectory",
            "a mark of a trajectory",
            "<= 9.8",
            "us",
            DOCUMENT,
            HOOKS,
            number(r"^a trajectory: ([\d.]+) us"),
        ),
        Row(
            "rl-step",
            "marks of a step of 8 phases and 64 trajectories, part of 0.4 s of work",
            "<= 0.16",
            "%",
            DOCUMENT,
            HOOKS,
            number(r"by the costs of its marks: [\d.]+ ms, ([\d.]+)%"),
        ),
        Row(
            "rl-bytes",
            "such a step adds to the record",
            "<= 2.6",
            "KB",
            DOCUMENT,
            HOOKS,
            number(r"a step adds ([\d.]+) KB"),
        ),
    ),
)
