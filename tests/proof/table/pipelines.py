"""What reports say of pipelines: replays, shares of planted causes, first findings."""

from __future__ import annotations

import re
from typing import Any

from ..readers import column, derived, in_column, number
from ..rows import Command, Elsewhere, Need, Row
from .topic import Topic

DOCUMENT = "docs/appendix/pipelines.md"
RECORDED = "docs/appendix/pipelines.md"

CAUSES = Command(("python -m tests.benchmarks.pipeline_causes torch",))
SCHEDULES = Command(("python -m tests.benchmarks.pipeline_causes schedules",))
REPLICAS = Command(("python -m tests.benchmarks.pipeline_causes replicas",))
MESSAGES = Command(("python -m tests.benchmarks.pipeline_causes messages",))
ENGINES = {
    "deepspeed": ("DeepSpeed, 1F1B", Command(("python tests/benchmarks/pipeline_engines.py causes deepspeed",)), 0.8),
    "megatron": ("Megatron-core, 1F1B", Command(("python tests/benchmarks/pipeline_engines.py causes megatron",)), 0.3),
    "interleaved": (
        "Megatron-core, interleaved 1F1B",
        Command(("python tests/benchmarks/pipeline_engines.py causes megatron --chunks 2",)),
        0.3,
    ),
    "overlap": (
        "Megatron-core, interleaved 1F1B, messages overlap with computing",
        Command(("python tests/benchmarks/pipeline_engines.py causes megatron --chunks 2 --overlap",)),
        0.2,
    ),
}
SPLITS = {
    "megatron": (Command(("python tests/benchmarks/pipeline_engines.py splits megatron --steps 6",)), 0.6),
    "interleaved": (
        Command(("python tests/benchmarks/pipeline_engines.py splits megatron --chunks 2 --steps 6",)),
        0.7,
    ),
    "deepspeed": (Command(("python tests/benchmarks/pipeline_engines.py splits deepspeed --steps 6",)), 1.3),
}
PERFLOW_AI = Need("PERFLOW_AI", "the sources of PerFlow-AI")
REPLAY = Command(("python tests/benchmarks/pipeline_replay.py",))
BESIDE = Command(("python tests/benchmarks/pipeline_replay.py $PERFLOW_AI",), needs=(PERFLOW_AI,))
RECORDING = Command(("python tests/benchmarks/pipeline_recording.py",))

ENGINE_TABLE = "| planted | step (planted)"


def worst_replay(cases: dict[str, Any]) -> float:
    """The largest error of a replay, in percent."""
    return float(max(abs(case["replay_error"]) for case in cases.values()))


def worst_share(cases: dict[str, Any]) -> float:
    """By how many points of a step the share of a planted cause differs at most."""
    known = [case for case in cases.values() if case["planted"] is not None]
    return float(max(abs(case["share"] - case["planted"]) for case in known))


def right(cases: dict[str, Any]) -> float:
    """How many first findings are the planted ones."""
    return float(sum(case["right"] for case in cases.values()))


BLAMED = {
    "slow": ("imbalance", (3,)),
    "latency": ("link", (1, 2)),
    "straggler": ("straggler", (1,)),
    "host": ("host", (2,)),
    "data": ("data", (0,)),
}
"""The first finding of a job of four ranks, by the option that plants its cause."""
MIXED = {("imbalance", (3,)), ("straggler", (2,)), ("link", (0, 1))}
"""Any of these where three causes are planted."""


def named_right(output: str) -> float:
    """How many rows of an engine's table have the right first finding, or rightly none.

    A cell reads ``imbalance, ranks (3,), stages (3,)``.
    """
    count = 0
    for planted, first in zip(column(output, ENGINE_TABLE, 1), column(output, ENGINE_TABLE, 6), strict=True):
        options = re.findall(r"--(\w+)", planted)
        found = re.match(r"(\w+), ranks \W*([\d, ]*)", first)
        blamed = (found[1], tuple(map(int, re.findall(r"\d+", found[2])))) if found else None
        if len(options) > 1:
            count += blamed in MIXED
        else:
            count += blamed == (BLAMED.get(options[0]) if options else None)
    return float(count)


def told_shares(output: str) -> float:
    """By how many points of a step the shares that engines' tables tell differ at most from those planted.

    A cell reads ``imbalance 22.0 %, 229 ms (236)``: share, milliseconds, and milliseconds that were planted, of a step
    of 1041 ms (1020).
    """
    worst = 0.0
    for step, told in zip(column(output, ENGINE_TABLE, 2), column(output, ENGINE_TABLE, 4), strict=True):
        (planted_step,) = re.findall(r"\((\d+)\)", step)
        for share, planted_ms in re.findall(r"(-?[\d.]+) %, -?\d+ ms \((-?\d+)\)", told):
            worst = max(worst, abs(float(share) - 100 * float(planted_ms) / float(planted_step)))
    return worst


def engine_rows(name: str) -> tuple[Row, ...]:
    """The figures of one engine and schedule."""
    title, command, replay = ENGINES[name]
    return (
        Row(
            f"pipeline-{name}-shares",
            f"{title}: share of a planted cause, largest difference",
            "<= 2.0",
            "points",
            DOCUMENT,
            command,
            told_shares,
        ),
        Row(
            f"pipeline-{name}-replay",
            f"{title}: error of the replay, largest of 8 jobs",
            f"<= {replay}",
            "%",
            DOCUMENT,
            command,
            in_column(ENGINE_TABLE, 3),
        ),
        Row(
            f"pipeline-{name}-named",
            f"{title}: first findings that are right, of 6 jobs with a rank at fault and 2 without",
            ">= 8",
            "of 8",
            DOCUMENT,
            command,
            named_right,
        ),
    )


TOPIC = Topic(
    "Pipelines",
    (
        Row(
            "pipeline-balanced",
            "a balanced pipeline of torch: the job without a cause has a finding that names ranks",
            "<= 0",
            "",
            DOCUMENT,
            CAUSES,
            derived(lambda cases: not cases["nothing"]["right"]),
        ),
        Row(
            "pipeline-torch-named",
            "torch: first findings that are right, of 6 causes and a balanced job",
            ">= 7",
            "of 7",
            DOCUMENT,
            CAUSES,
            derived(right),
        ),
        Row(
            "pipeline-torch-shares",
            "torch: share of a planted cause, largest difference of 5",
            "<= 2.0",
            "points",
            DOCUMENT,
            CAUSES,
            derived(worst_share),
        ),
        Row(
            "pipeline-torch-replay",
            "torch: error of the replay, largest of 7 jobs",
            "<= 0.1",
            "%",
            DOCUMENT,
            CAUSES,
            derived(worst_replay),
        ),
        Row(
            "pipeline-schedules-replay",
            "error of the replay, largest of 7 schedules of torch",
            "<= 1.2",
            "%",
            DOCUMENT,
            SCHEDULES,
            derived(worst_replay),
        ),
        Row(
            "pipeline-messages-named",
            "written by hand: first findings that are right, of 4 causes and a balanced job",
            ">= 5",
            "of 5",
            DOCUMENT,
            MESSAGES,
            derived(right),
        ),
        Row(
            "pipeline-messages-shares",
            "written by hand: share of a planted cause, largest difference of 3",
            "<= 2.0",
            "points",
            DOCUMENT,
            MESSAGES,
            derived(worst_share),
        ),
        Row(
            "pipeline-messages-replay",
            "written by hand: error of the replay, largest of 5 jobs",
            "<= 0.2",
            "%",
            DOCUMENT,
            MESSAGES,
            derived(worst_replay),
        ),
        Row(
            "pipeline-replica-named",
            "a slow replica of two: the first finding is right",
            ">= 1",
            "of 1",
            DOCUMENT,
            REPLICAS,
            derived(right),
        ),
        Row(
            "pipeline-replica-share",
            "a slow replica of two: time that the other waits for gradients, difference",
            "<= 2.0",
            "points",
            DOCUMENT,
            REPLICAS,
            derived(worst_share),
        ),
        *engine_rows("deepspeed"),
        *engine_rows("megatron"),
        *engine_rows("interleaved"),
        *engine_rows("overlap"),
        *(
            Row(
                f"pipeline-split-{name}",
                f"predicted step of a new split, largest error of 2 ({name})",
                f"<= {most}",
                "%",
                DOCUMENT,
                command,
                in_column("| split | predicted", 4),
            )
            for name, (command, most) in SPLITS.items()
        ),
        Row(
            "pipeline-replay-ms",
            "replay of 64 ranks and 512 microbatches of 1F1B, CPU time",
            "<= 2.4",
            "ms",
            DOCUMENT,
            REPLAY,
            number(r"^1F1B P64 M512 v1\s+[\d.]+\s+[\d.]+\s+([\d.]+)"),
        ),
        Row(
            "pipeline-replay-blocking-ms",
            "the same with sends that block",
            "<= 2.4",
            "ms",
            DOCUMENT,
            REPLAY,
            number(r"^1F1B P64 M512 v1\s+(?:[\d.]+\s+){4}([\d.]+)"),
        ),
        Row(
            "pipeline-replay-peer",
            "times as fast as PerFlow-AI's simulator on the same",
            ">= 1004",
            "x",
            DOCUMENT,
            BESIDE,
            number(r"^1F1B P64 M512 v1.* ([\d.]+)$"),
        ),
        *(
            Row(
                f"pipeline-recording-{name}",
                f"recording {what} of a schedule of torch adds",
                f"<= {most}",
                "us",
                RECORDED,
                RECORDING,
                number(pattern, 1e-3),
            )
            for name, what, most, pattern in (
                ("forward", "a forward", 0.33, r"^\| forward \| ([\d.]+)"),
                ("backward", "a backward", 0.34, r"^\| backward \| ([\d.]+)"),
                ("message", "a message", 1.07, r"^\| message[^|]*\| ([\d.]+)"),
            )
        ),
        Row(
            "pipeline-recording-truth",
            "begins and ends of 768 actions, compared with those that the job writes down, at most",
            "<= 1.6",
            "ms",
            RECORDED,
            Elsewhere("compared by hand once; no benchmark repeats it"),
        ),
        Row(
            "pipeline-h200-replay",
            "on two stages that share an H200: error of the replay of 987 ms",
            "<= 0.1",
            "%",
            DOCUMENT,
            Elsewhere("needs an H200; measured once, on one that two ranks of NCCL shared"),
        ),
    ),
)
