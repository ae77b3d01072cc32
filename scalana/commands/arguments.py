"""What commands have in common: arguments and the numbers in them, what goes wrong in an analysis, and its result."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scalana import console
from scalana.errors import ClusterError, CommandError, RunDataError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.api import Report
    from scalana.comparison import DiffReport, ScalingReport


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """What makes a whole number of an argument, from ``least`` on, up to ``most``."""

    def parsed(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {least} {'on' if most is None else f'to {most}'}"
            )
        return value

    return parsed


def within(least: float, most: float, unit: str) -> Callable[[str], float]:
    """What makes a number of an argument that is so many of a unit.

    >>> within(1, 60, "seconds")("2.5")
    2.5
    """

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {least:g} ... {most:g} {unit}")
        return value

    return parsed


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """Declare ``--scheduler``."""
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="read the records on the workers of this Dask scheduler, such as tcp://head:8786 "
        "(pip install 'scalana[dask]')",
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Declare ``--source``."""
    parser.add_argument(
        "--source",
        metavar="DIR|OLD=NEW",
        type=_source,
        action="append",
        help="folder with the program's sources, if they are not where the job ran: DIR stands for the working "
        "directory of the job, NEW for its folder OLD (can be repeated)",
    )


def sources(args: argparse.Namespace) -> dict[str, str] | None:
    """What ``--source`` says, by the folder of the job; that of its working directory is empty."""
    return dict(args.source) if args.source else None


def _source(text: str) -> tuple[str, str]:
    old, equals, new = text.rpartition("=")
    if not os.path.isdir(new):
        raise argparse.ArgumentTypeError(f"{new}: no such folder")
    return (old.rstrip("/") or "/") if equals else "", new


@contextmanager
def told(what: str, doing: str = "analyse") -> Iterator[None]:
    """Turn errors of an analysis into one sentence for the user; with ``SCALANA_DEBUG``, unknown ones are left alone.

    Raises:
        CommandError: with the sentence, about ``what`` could not be analysed.
    """
    try:
        yield
    except (RunDataError, ClusterError) as error:
        raise CommandError(str(error)) from error
    except CommandError:
        raise
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        raise CommandError(f"could not {doing} {what}: {str(error) or type(error).__name__}") from error


def rendered(report: Report | DiffReport | ScalingReport, form: str, file: str | None) -> str:
    """A result in a format; as text for a file, or for the standard output."""
    if form != "text":
        text: str = getattr(report, f"to_{form}")()
        return text
    if file:
        return report.to_text()
    return report.to_text(width=console.width(sys.stdout), color=console.wants_color(sys.stdout))
