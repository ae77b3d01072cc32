"""First answers, seconds and savings of samples with a planted cause."""

from __future__ import annotations

from statistics import median
from typing import Any

from ..readers import derived
from ..rows import Command, Reader, Row, Sum
from .topic import Topic

DOCUMENT = "docs/appendix/accuracy.md"
README = "README.md"

TORCH = Command(
    (
        "python -m tests.benchmarks.record_samples torch $WORK",
        "python -m tests.benchmarks.accuracy $WORK --format json",
    )
)
MPI = Command(
    (
        "python -m tests.benchmarks.accuracy $WORK --record-mpi $MPI",
        "python -m tests.benchmarks.accuracy $WORK/mpi --samples samples/mpi --format json",
    )
)
SCALING = Command(
    (
        "SCALANA_TEST_MPI=$MPI python -m tests.benchmarks.record_samples scaling $WORK",
        "python -m tests.benchmarks.accuracy $WORK --scaling --format json",
    )
)


def right(method: str) -> Reader:
    """How many first answers of a method name the planted ranks and line."""

    def count(rows: list[dict[str, Any]]) -> float:
        faulty = [row[method] for row in rows if not row["balanced"]]
        return float(sum(answer["rank_right"] and answer["line_right"] for answer in faulty))

    return derived(count)


def error(field: str) -> Reader:
    """The median of the magnitudes of an error, in percent."""
    return derived(lambda rows: 100 * median(abs(row[field]) for row in rows if row[field] is not None))


def blamed(method: str) -> Reader:
    """In how many balanced programs a method finds something."""
    return derived(lambda rows: sum(row[method]["findings"] > 0 for row in rows if row["balanced"]))


def group(name: str, title: str, command: Command, count: int, errors: tuple[float, float]) -> tuple[Row, ...]:
    """The figures of samples in one language."""
    lost, saving = errors
    return (
        Row(
            f"accuracy-{name}-right",
            f"of {count} samples {title}, first answers with the planted ranks and line",
            f">= {count}",
            f"of {count}",
            DOCUMENT,
            command,
            right("ours"),
        ),
        Row(
            f"accuracy-{name}-seconds",
            "error of the seconds that others wait, median",
            f"<= {lost}",
            "%",
            DOCUMENT,
            command,
            error("lost_error"),
        ),
        Row(
            f"accuracy-{name}-saving",
            "error of the predicted saving, median",
            f"<= {saving}",
            "%",
            DOCUMENT,
            command,
            error("saving_error"),
        ),
        Row(
            f"accuracy-{name}-balanced",
            f"balanced samples {title} with a finding",
            "<= 0",
            "",
            DOCUMENT,
            command,
            blamed("ours"),
        ),
    )


def others(name: str, command: Command, published: int, naive: int) -> tuple[Row, ...]:
    """First answers of the other two methods on the same recordings."""
    return tuple(
        Row(
            f"accuracy-{name}-{method}",
            f"first answers of the {method} method that are right",
            f"<= {count}",
            "",
            DOCUMENT,
            command,
            right(method),
        )
        for method, count in (("published", published), ("naive", naive))
    )


TOPIC = Topic(
    "First answers",
    (
        Row(
            "accuracy-all",
            "of 39 samples with a planted cause, first answers that are right",
            ">= 39",
            "of 39",
            DOCUMENT,
            Sum(("accuracy-torch-right", "accuracy-mpi-right", "accuracy-scaling-right")),
        ),
        Row(
            "accuracy-balanced",
            "of 3 balanced samples, those with a finding",
            "<= 0",
            "of 3",
            DOCUMENT,
            Sum(("accuracy-torch-balanced", "accuracy-mpi-balanced")),
        ),
        *group("torch", "in PyTorch", TORCH, 18, (1.5, 3.7)),
        *others("torch", TORCH, 15, 15),
        *group("mpi", "in C++ and mpi4py", MPI, 12, (0.6, 1.3)),
        *others("mpi", MPI, 7, 11),
        Row(
            "accuracy-scaling-right",
            "of 9 samples of scaling loss, first answers with the planted line",
            ">= 9",
            "of 9",
            DOCUMENT,
            SCALING,
            right("ours"),
        ),
        Row(
            "accuracy-scaling-seconds",
            "error of the seconds that are lost, median",
            "<= 1.3",
            "%",
            DOCUMENT,
            SCALING,
            error("lost_error"),
        ),
        *others("scaling", SCALING, 7, 3),
    ),
)
