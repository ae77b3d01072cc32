"""What commands say where a run cannot be analysed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from scalana.errors import ClusterError, CommandError, RunDataError


@contextmanager
def told(folder: str) -> Iterator[None]:
    """Turn errors of an analysis into messages for the user; with ``SCALANA_DEBUG``, unknown ones are left alone."""
    try:
        yield
    except (RunDataError, ClusterError) as error:
        raise CommandError(str(error)) from error
    except CommandError:
        raise
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        raise CommandError(f"could not analyse {folder}: {str(error) or type(error).__name__}") from error
