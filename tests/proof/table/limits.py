"""What limits a step: the causal profile, and the kinds of causes that all ranks share, against changed programs."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..readers import at, derived, in_column
from ..rows import Command, Reader
from .topic import Figure, Topic, measured

DOCUMENT = "docs/appendix/limits.md"
PROFILE = Command(("python -m tests.benchmarks.causal_profile",), quiet=True)
SHARED = Command(("python -m tests.benchmarks.shared_causes",), quiet=True)
BALANCED = Command(("python -m tests.benchmarks.shared_causes --balanced",), quiet=True)
COMMUNICATION = Command(("python -m tests.benchmarks.communication --mpi $MPI",), quiet=True)
EFFICIENT = Command(("python -m tests.benchmarks.communication --balanced",), quiet=True)

CAUSES = {
    "write": ("a checkpoint in each step", 3, 10),
    "log": ("20 fsync in each step", 3, 10),
    "collect": ("gc.collect() in each step", 3, 10),
    "python": ("a loop of Python", 3, 10),
    "lock": ("a thread that holds a lock", 3, 10),
    "interpreter": ("a thread that runs Python", 3, 15),
    "communicate": ("an allreduce, of which half the bytes are left", 2, 10),
    "cores": ("children that compute on all cores", 2, 15),
    "recompile": ("a model that is compiled again in each step", 3, 15),
}
"""What each is, the number of layouts, and the bar of the error: more where cores are shared."""


def named(cause: str) -> Reader:
    """In how many layouts the first finding is right."""
    return derived(lambda found: float(sum(one["right"] for one in found[cause].values())))


def error(cause: str) -> Reader:
    """The largest error of the predicted step."""

    def largest(found: dict[str, Any]) -> float:
        return max(float(one["error"]) for one in found[cause].values())

    return derived(largest)


def of_cause(cause: str, what: str, layouts: int, most: int) -> tuple[Figure, Figure]:
    """The figures of one cause that all ranks share."""
    return (
        (f"shared-{cause}", f"{what}: right first findings", f">= {layouts}", f"of {layouts}", named(cause)),
        (f"shared-{cause}-step", f"{what}: error of the step without it, largest", f"<= {most}", "%", error(cause)),
    )


TOPIC = Topic(
    "What limits a step",
    (
        *measured(
            DOCUMENT,
            PROFILE,
            (
                "profile-places",
                "ten places of three programs, each really made twice as fast: error of the step that the causal "
                "profile predicts, largest",
                "<= 10",
                "%",
                in_column("| place", 6),
            ),
            (
                "profile-median",
                "the same: median error",
                "<= 5",
                "%",
                in_column("| place", 6, median),
            ),
        ),
        *measured(
            DOCUMENT,
            SHARED,
            *(
                figure
                for cause, (what, layouts, most) in CAUSES.items()
                for figure in of_cause(cause, what, layouts, most)
            ),
        ),
        *measured(
            DOCUMENT,
            BALANCED,
            (
                "shared-nothing",
                "ten balanced runs, of one process and of two ranks: those with a finding",
                "== 0",
                "of 10",
                at("with_findings"),
            ),
        ),
        *measured(
            DOCUMENT,
            COMMUNICATION,
            (
                "communication-named",
                "eight programs that communicate in a costly way, of torch and MPI: first findings with the line and "
                "the change",
                ">= 8",
                "of 8",
                at("summary", "right"),
            ),
            (
                "communication-step",
                "those of torch: error of the step with the change, in percent of the step without it, largest",
                "<= 15",
                "%",
                at("summary", "error_largest"),
            ),
        ),
        *measured(
            DOCUMENT,
            EFFICIENT,
            (
                "communication-nothing",
                "six runs of torch and MPI without such a cause: those with a finding",
                "== 0",
                "of 6",
                at("with_findings"),
            ),
        ),
    ),
)
