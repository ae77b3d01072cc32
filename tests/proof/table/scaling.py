"""Predictions of sizes that were not fitted, and models of growth beside Extra-P."""

from __future__ import annotations

from typing import Any

from ..readers import at, derived
from ..rows import Command, Elsewhere, Reader, Row
from .accuracy import SCALING
from .topic import Figure, Topic, measured

DOCUMENT = "docs/appendix/accuracy.md"

SIMULATED = Command(("python -m tests.benchmarks.scaling_predictions simulated",))
MODELLED = Command(("python -m tests.benchmarks.scaling_predictions modelled",))

EXTRAP = (
    "python -m venv $WORK/extrap && $WORK/extrap/bin/pip install -q --disable-pip-version-check extrap==4.2.5",
    "python -m tests.benchmarks.extrap_comparison --extrap $WORK/extrap/bin/extrap --format json",
)
ONCE = Command((EXTRAP[0], EXTRAP[1] + " --trials 20"))
FIVE_TIMES = Command((EXTRAP[0], EXTRAP[1] + " --trials 10 --repeats 5"))


def prediction(collective: bool) -> Reader:
    """The largest error of predictions, of the program whose communication grows or of the others."""

    def worst(rows: list[dict[str, Any]]) -> float:
        known = [row for row in rows if row["prediction_error"] is not None]
        errors = (100 * abs(row["prediction_error"]) for row in known if ("collective" in row["sample"]) == collective)
        return float(max(errors))

    return derived(worst)


def beside_extrap(repeats: int, sizes: int, noise: int, ours: tuple[float, float], theirs: float) -> tuple[Figure, ...]:
    """The median and the 90 % error of our models, and how much larger the median of Extra-P is at least."""
    setting, name = f"{sizes} sizes, {noise} %", f"extrap-{repeats}-{sizes}-{noise}"
    title = f"{sizes} sizes, {noise} % noise, {repeats} of each size: error on 64 ranks"
    median, most = (at(setting, "scalana", which, scale=100) for which in ("median", "most"))
    figures: list[Figure] = [
        (f"{name}-median", f"{title}, median", f"<= {ours[0]}", "%", median),
        (f"{name}-most", f"{title}, 90 % of the series below", f"<= {ours[1]}", "%", most),
    ]
    if theirs:
        reader = at(setting, "Extra-P", "median", scale=100)
        figures.append((f"{name}-peer", f"{title}, median of Extra-P 4.2.5", f">= {theirs}", "%", reader))
    return tuple(figures)


TOPIC = Topic(
    "Scaling",
    (
        *measured(
            DOCUMENT,
            SCALING,
            (
                "scaling-recorded",
                "8 ranks predicted from 2, 3, 4 and 6, three programs in C++ whose growth is their own: largest error",
                "<= 2.0",
                "%",
                prediction(False),
            ),
            (
                "scaling-collective",
                "the same of a program whose messages are as fast as cores are free",
                "<= 73.6",
                "%",
                prediction(True),
            ),
        ),
        *measured(
            DOCUMENT,
            SIMULATED,
            (
                "scaling-simulated",
                "64 ranks predicted from 2 to 16, simulated programs: largest error",
                "<= 0.1",
                "%",
                at("exact", scale=100),
            ),
            ("scaling-simulated-noise", "the same with noise", "<= 25", "%", at("noisy", scale=100)),
        ),
        *measured(
            DOCUMENT,
            MODELLED,
            (
                "scaling-modelled",
                "4,096 ranks predicted from 64 to 1,024, modelled job: error",
                "<= 0.4",
                "%",
                at("error", scale=100),
            ),
        ),
        *measured(
            DOCUMENT,
            ONCE,
            *beside_extrap(1, 3, 0, (0.0, 6.5), 0),
            *beside_extrap(1, 3, 3, (5.4, 92.3), 48.2),
            *beside_extrap(1, 5, 0, (0.0, 3.3), 0),
            *beside_extrap(1, 5, 3, (1.7, 11.4), 7.7),
        ),
        *measured(
            DOCUMENT,
            FIVE_TIMES,
            *beside_extrap(5, 3, 0, (0.0, 6.5), 0),
            *beside_extrap(5, 3, 3, (1.2, 59.0), 30.6),
            *beside_extrap(5, 5, 0, (0.0, 0.0), 0),
            *beside_extrap(5, 5, 3, (0.8, 8.2), 2.4),
        ),
        Row(
            "scaling-slurm",
            "jobs of Slurm 22.05 are recorded, in a batch script too",
            ">= 1",
            "",
            "docs/mpi.md",
            Elsewhere("needs Slurm; tried by hand"),
        ),
    ),
)
