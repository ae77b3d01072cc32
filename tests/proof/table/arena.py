"""Random programs with one planted fault, or none, against what they measure themselves."""

from __future__ import annotations

from typing import Any

from ..readers import derived
from ..rows import Command
from .topic import Figure, Topic, measured

DOCUMENT = "docs/appendix/accuracy.md"
SEEDS = "1:60"


def tried(options: str) -> Command:
    """The programs of all seeds, with other options."""
    arguments = f"{SEEDS} --mpi $MPI --keep $WORK --format json {options}"
    return Command((f"python -m tests.arena {arguments.strip()}",))


def whole(key: str, scale: float = 1.0) -> Any:
    """A value of the summary of all programs."""
    return derived(lambda printed: scale * printed["summary"][key])


def right(name: str, where: str, least: int) -> Figure:
    return (
        f"arena-right{name}",
        f"random programs{where}, first findings right",
        f">= {least}",
        "%",
        whole("right_share"),
    )


TOPIC = Topic(
    "Random programs",
    (
        *measured(
            DOCUMENT,
            tried(""),
            right("", "", 98),
            (
                *("arena-seconds", "random programs, error of the seconds, median", "<= 10", "%"),
                whole("error_median", 100.0),
            ),
            (
                *("arena-seconds-90th", "random programs, error of the seconds, nine of ten", "<= 25", "%"),
                whole("error_90th", 100.0),
            ),
        ),
        *measured(DOCUMENT, tried("--busy 2"), right("-busy", " next to two busy ones", 95)),
        *measured(
            DOCUMENT,
            tried("--balanced"),
            ("arena-quiet", "balanced random programs without a finding", ">= 100", "%", whole("quiet_share")),
        ),
    ),
)
