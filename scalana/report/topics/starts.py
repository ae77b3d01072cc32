"""Ranks that another rank starts: what comes to start-up by that, and nothing in the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.report import names
from scalana.report.document.sections import Facts, Section
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding

KIND = "started-late"


def sections(analysis: Analysis) -> Sequence[Section]:
    """A sentence for each line that starts ranks late."""
    found = [finding for finding in analysis.findings if finding.kind == KIND]
    lines = tuple(_in_words(finding, analysis) for finding in found)
    return (
        [Section("starts", "Ranks that are started late", ((Facts(lines, hangs=True),),), is_head=True)]
        if lines
        else []
    )


def _in_words(finding: Finding, analysis: Analysis) -> str:
    run = analysis.ppg.run
    where = names.place(names.near(finding.file, run.cwd), finding.line)
    said = claim(finding, run.ranks, run.names), cost(finding, run), finding.advice
    return f"start-up: {where} {finding.function}: {' '.join(filter(None, said))}"
