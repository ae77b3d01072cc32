"""Where the rank-seconds of a run went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.when.steady import STEADY
from scalana.report.document.sections import Account, Facts, Layout, Section, Share
from scalana.report.values import plain

NAME, HEADING = "time", "Where the time of the ranks goes"

PARTS = {
    "work_s": "work",
    "stall_s": "stalled",
    "wait_s": "waiting",
    "transfer_s": "transfer",
    "other_s": "other",
}
"""Of rank-seconds, in the order in which they are shown, and what they are called."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """The account of all ranks."""
    time = shown_time(analysis)
    part: Account | Facts = Facts(("No time was recorded.",))
    if time.total_s > 0:
        shares = [Share(name, getattr(time, field), color) for color, (field, name) in enumerate(PARTS.items())]
        lead = "" if analysis.section(STEADY) is None else "in the steps"
        part = Account("all ranks", time.total_s, tuple(shares), Layout.LINE, lead)
    return [Section(NAME, HEADING, ((part,),), is_head=True)]


def shown_time(analysis: Analysis) -> TimeSplit:
    """The rank-seconds that are divided: of the steady state, where there is one."""
    steady = analysis.section(STEADY)
    return analysis.time if steady is None else steady.time


def entry(time: TimeSplit) -> dict[str, Any]:
    """For the JSON report."""
    return {name: plain(getattr(time, name)) for name in PARTS}
