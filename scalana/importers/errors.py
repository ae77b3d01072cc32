"""What is wrong with a file that was to be imported."""

from __future__ import annotations


class TraceError(ValueError):
    """A trace cannot be used; the message names the file and says why."""
