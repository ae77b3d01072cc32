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
