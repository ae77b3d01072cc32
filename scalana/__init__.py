"""scalana: which line, on which rank, made everyone else wait."""

from __future__ import annotations

from pathlib import Path

# In a checkout the sibling folders (runtime, graphs, ...) stand beside this package; installed, they are inside it.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "pyproject.toml").is_file() and (_checkout / "runtime" / "operations.py").is_file():
    __path__.append(str(_checkout))
del _checkout
