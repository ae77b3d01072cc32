"""What is wrong with a file that was to be imported."""

from __future__ import annotations


class TraceError(ValueError):
    """A trace cannot be used; the message names the file and says why."""


class DamagedTrace(TraceError):
    """Nothing of a trace is left that could be used; traces of other ranks may be whole."""
