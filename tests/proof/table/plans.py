"""Plans for pipelines: carried out by engines, and beside other planners."""

from __future__ import annotations

from ..readers import in_column, number
from ..rows import Command, Need, Row
from .topic import Topic, measured

DOCUMENT = "docs/appendix/pipeline-plans.md"

ENGINES = {
    "torch": ("torch's runtime", 1.49),
    "megatron": ("Megatron-core", 1.36),
    "deepspeed": ("DeepSpeed", 1.22),
    "torchtitan": ("torchtitan", 1.52),
}
"""The name of an engine, and the gain that a plan brings when it is carried out."""
TABLE = "| engine | before"
SIMULATOR = Need("SIMULATOR", "the sources of PipelineSimulator, by the authors of AdaPtis")
PROFILES = Need("PROFILES", "the profiles of SimPipe, by the authors of AdaPtis")
ZERO_BUBBLE = Need("ZERO_BUBBLE", "the sources of zero-bubble-pipeline-parallelism, by sail-sg")
BENCHMARK = "python tests/benchmarks/pipeline_plans.py"
FAMILIES = Command((f"{BENCHMARK} families $SIMULATOR --budget 5",), needs=(SIMULATOR,))
MODELS = Command((f"{BENCHMARK} profiles $PROFILES --budget 4",), needs=(PROFILES,))
TUNER = Command((f"{BENCHMARK} tuner $SIMULATOR --full",), needs=(SIMULATOR,))
LISTS = Command((f"{BENCHMARK} zero-bubble $ZERO_BUBBLE",), needs=(ZERO_BUBBLE,))
GROWTH = Command((f"{BENCHMARK} growth",))


def carried_out(name: str) -> tuple[Row, ...]:
    """The figures of one engine."""
    title, gain = ENGINES[name]
    command = Command((f"python tests/benchmarks/plans_carried_out.py {name}",))
    return measured(
        DOCUMENT,
        command,
        (
            f"plan-{name}",
            f"{title} carries a plan out: error of the predicted step",
            "<= 3.0",
            "%",
            in_column(TABLE, 6),
        ),
        (f"plan-{name}-gain", f"{title}: what the plan brings, as measured", f">= {gain}", "x", in_column(TABLE, 8)),
    )


TOPIC = Topic(
    "Pipeline plans",
    (
        *(row for name in ENGINES for row in carried_out(name)),
        *measured(
            DOCUMENT,
            FAMILIES,
            (
                "plan-families",
                "11 families of AdaPtis at the same memory, mean speed-up that is predicted",
                ">= 1.46",
                "x",
                number(r"^mean\s+([\d.]+)"),
            ),
            (
                "plan-families-any",
                "the same with any memory",
                ">= 1.52",
                "x",
                number(r"^mean\s+[\d.]+\s+([\d.]+)"),
            ),
        ),
        *measured(
            DOCUMENT,
            MODELS,
            (
                "plan-profiles",
                "9 measured models at the same memory, mean speed-up that is predicted",
                ">= 1.41",
                "x",
                number(r"^mean\s+([\d.]+)"),
            ),
        ),
        *measured(
            DOCUMENT,
            TUNER,
            (
                "plan-tuner",
                "plan with no more memory than that of the authors' tuner, which takes 10,581 ticks",
                "<= 9197",
                "ticks",
                number(r"^ours, their memory: (\d+) ticks"),
            ),
            (
                "plan-tuner-1f1b",
                "plan with the memory of 1F1B, half of theirs",
                "<= 10388",
                "ticks",
                number(r"^ours, 1F1B's memory: (\d+) ticks"),
            ),
        ),
        *measured(
            DOCUMENT,
            LISTS,
            (
                "plan-zero-bubble",
                "list scheduling of 64 ranks and 512 microbatches, times as fast as sail-sg's scheduler",
                ">= 19",
                "x",
                number(r"^P64 M512 .*?(\d+)$"),
            ),
        ),
        *measured(
            DOCUMENT,
            GROWTH,
            (
                "plan-list-ms",
                "list scheduling of 64 ranks, 64 stages and 512 microbatches, CPU time",
                "<= 18.7",
                "ms",
                number(r"^P64 S64 M512\s+\d+\s+([\d.]+)"),
            ),
            *(
                (
                    f"plan-search-{ranks}-{microbatches}",
                    f"search for {ranks} ranks, {layers} layers, {microbatches} microbatches: above the bound",
                    f"<= {above}",
                    "%",
                    number(rf"^P{ranks} L{layers} M{microbatches}\s+[\d.]+\s+([\d.]+)%"),
                )
                for ranks, layers, microbatches, above in (
                    (4, 32, 16, 1.5),
                    (8, 64, 32, 3.0),
                    (16, 100, 64, 7.8),
                    (64, 100, 128, 12.3),
                    (64, 100, 256, 6.3),
                )
            ),
        ),
    ),
)
