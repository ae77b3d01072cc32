"""From a Program Performance Graph to root causes. :func:`analyze` runs every detector."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.facts import Outside
    from scalana.graphs.ppg import PPG
    from scalana.graphs.steps.steps import Steps


def analyze(
    ppg: PPG,
    steps: Steps | None = None,
    outside: Outside | None = None,
    window: tuple[int, int] | None = None,
    causes_only: bool = False,
) -> Analysis:
    """Return the findings of all detectors, the largest loss first, and where the time went.

    Fills the metric ``wait_s`` of ``ppg``. ``steps`` are those of the run, where they are known; else they are looked
    for. ``outside`` gives models and what machines can do. ``window`` is the first and the last step, where ``ppg`` is
    of these alone. With ``causes_only`` findings have no cause that hides behind them, and the sections of slow steps
    and of efficiencies are missing: for whoever looks again and again.
    """
    from scalana.detectors.run import analyze as run_detectors

    return run_detectors(ppg, steps, outside, window, causes_only)
