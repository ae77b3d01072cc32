"""``python -m scalana``."""

from __future__ import annotations

import sys

from scalana.cli import main

if __name__ == "__main__":
    sys.exit(main())
