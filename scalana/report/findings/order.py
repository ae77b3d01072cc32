"""Which findings come first, and what the user should know besides."""

from __future__ import annotations

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.ranking import ranked
from scalana.report import names


def faults_of(analysis: Analysis) -> list[Finding]:
    """The faults of a run, and the causes that all ranks share, what costs most first."""
    return [finding for finding in ranked(analysis.findings) if kind_of(finding.kind).is_fault]


def rest(findings: list[Finding]) -> str:
    """How many findings are not shown, and what they cost; "" where all are."""
    if not findings:
        return ""
    causes = "1 smaller cause" if len(findings) == 1 else f"{len(findings)} smaller causes"
    lost_s = sum(finding.lost_s for finding in findings)
    return f"{causes}, with {names.seconds(lost_s)} of waiting in total: see the JSON report."


def warnings(analysis: Analysis) -> list[str]:
    """What the user should know about the quality of the record, each once; also what recorders could not record."""
    run = analysis.ppg.run
    return list(dict.fromkeys([*run.warnings, *run.notes, *analysis.warnings]))
