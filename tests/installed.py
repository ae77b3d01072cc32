"""Where the package lies that the tests run: in the checkout, or installed from a wheel (``make wheel-test``)."""

from __future__ import annotations

from pathlib import Path

import scalana
import scalana.runtime

PACKAGE = Path(scalana.__file__).parent
SITE = PACKAGE.parent
"""What a process needs to import scalana."""
RUNTIME = Path(scalana.runtime.__file__).parent
"""The recorder, with the sources in C that are compiled on demand."""
