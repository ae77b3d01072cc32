"""What the commands that analyse runs share: where records are read, and how comparisons fail."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from scalana.errors import CommandError


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
def compared() -> Iterator[None]:
    """Turn whatever goes wrong in a comparison into one sentence for the user.

    Raises:
        CommandError: with the sentence.
    """
    from scalana.errors import ClusterError, RunDataError

    try:
        yield
    except (RunDataError, ClusterError) as error:
        raise CommandError(str(error)) from error
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        raise CommandError(f"could not compare the runs: {str(error) or type(error).__name__}") from error
