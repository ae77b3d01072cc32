"""What would help most, where that is no finding: a change that one of the accounts knows."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.report import names
from scalana.report.document.changes import KnownChange
from scalana.report.topics.table import changes_of


def headline(analysis: Analysis, faults: Sequence[Finding]) -> tuple[str, str]:
    """The change that makes the run shorter than any fault would without it, where it makes a step 5 % faster; "" and
    "" for none. More processes are no answer as long as there is a fault of that size. First what it is, then the
    sentence."""
    largest_s = max((fault.saving_s for fault in faults), default=0.0)
    known = changes_of(analysis)
    change = best([one for one in known if not one.enlarges_job or largest_s < WORTH_IF_ONCE * one.run_s])
    if change is None or any(fault.saving_s >= change.saving_s for fault in faults):
        return "", ""
    now, then = names.seconds(change.step_s), names.seconds(change.then_s)
    text = f"a step takes {now}, and {then} (predicted) with this change: {change.text}. See {change.heading} below."
    return "What would help most: ", text


def best(changes: Sequence[KnownChange]) -> KnownChange | None:
    """The change that saves most; None where none makes a step 5 % faster."""
    worth = [one for one in changes if one.step_s - one.then_s >= WORTH_IF_ONCE * one.step_s]
    return max(worth, key=lambda one: one.saving_s, default=None)
