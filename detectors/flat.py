"""Topics of evidence whose keys stand among those of the evidence itself."""

from __future__ import annotations


class Flat:
    """A topic whose keys stand among those of the evidence itself, and not under one of their own."""

    __slots__ = ()
