"""From a Program Performance Graph to root causes. :func:`analyze` runs every detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.graphs.ppg import PPG
    from scalana.graphs.steps.steps import Steps


def analyze(ppg: PPG, steps: Steps | None = None) -> Analysis:
    """Return the findings of all detectors, the largest loss first, and where the time went.

    Fills the metric ``wait_s`` of ``ppg``. ``steps`` are those of the run, where they are known; else they are looked
    for.
    """
    from scalana.detectors.run import analyze as run_detectors

    return run_detectors(ppg, steps)
