"""How far predictions can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.analysis import Analysis
from scalana.detectors.annotate.replayed import REPLAY_ERROR
from scalana.report import names
from scalana.report.document.sections import Facts, Section


def sections(analysis: Analysis) -> Sequence[Section]:
    """One line behind the findings, where they predict."""
    error = analysis.section(REPLAY_ERROR)
    if error is None:
        return []
    text = f"Savings are predicted by a replay, which is {_part(error)} off for the unchanged run."
    return [Section("predictions", "", ((Facts((text,), is_soft=True),),))]


def _part(error: float) -> str:
    """A small part, never as nothing."""
    return names.percent(error) if error >= 0.0005 else "less than 0.1 %"
