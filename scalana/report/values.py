"""Values of an analysis as JSON knows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DIGITS = 6
"""After the decimal point: microseconds, finer than any clock behind them."""


def plain(value: Any) -> Any:
    """A value of an analysis as JSON knows it: numpy scalars and arrays unwrapped, seconds rounded, NaN as None."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value)
