"""Which formats a run can be written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scalana.detectors.analysis import Analysis
from scalana.export import chrome, hatchet, speedscope


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    pieces: Callable[[Analysis], Iterator[str]]
    """The file, piece by piece: of a large run it is large."""
    opens: str
    """What opens it."""


FORMATS = {
    "chrome": Format(chrome.pieces, "ui.perfetto.dev, chrome://tracing"),
    "speedscope": Format(speedscope.pieces, "speedscope.app"),
    "hatchet": Format(hatchet.pieces, "hatchet.GraphFrame.from_json, of llnl-hatchet"),
}
"""By the name that the command line knows."""
