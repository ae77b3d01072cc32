"""Why a model could not be captured in a better way, in plain words."""

from __future__ import annotations

import os
from typing import Any

REASONS = {
    "GuardOnDataDependentSymNode": "a branch or a size there depends on data",
    "DataDependentOutputException": "a branch or a size there depends on data",
    "DynamicOutputShapeException": "a size there depends on data",
    "TraceError": "control flow there depends on the values of tensors",
    "UserError": "",
    "Unsupported": "",
}
"""By the name of the exception, which is where torch says it; with "", what it says itself."""


def reason(error: BaseException, frame: tuple[str, int, str] | None) -> str:
    """Why, and at which line."""
    words = ""
    cause: Any = error
    while cause is not None and not words:
        words = REASONS.get(type(cause).__name__, "")
        cause = cause.__cause__ or cause.__context__
    if not words:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        words = f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    if frame is None:
        return words
    file = frame[0]
    shown = file.removeprefix(os.getcwd() + os.sep).rpartition("site-packages" + os.sep)[2]
    return f"{words} ({shown}:{frame[1]})"
