"""What the commands that compare runs share: how they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from scalana.errors import CommandError


@contextmanager
def compared() -> Iterator[None]:
    """Turn whatever goes wrong in a comparison into one sentence for the user.

    Raises:
        CommandError: with the sentence.
    """
    from scalana.api import RunDataError

    try:
        yield
    except RunDataError as error:
        raise CommandError(str(error)) from error
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        raise CommandError(f"could not compare the runs: {str(error) or type(error).__name__}") from error
