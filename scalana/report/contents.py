"""From an analysis to what a report shows of it, as data."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from scalana.report import head
from scalana.report.document.contents import Contents
from scalana.report.findings.cause import cause_of
from scalana.report.findings.order import faults_of, rest, warnings
from scalana.report.headline import headline
from scalana.report.process_words import without_ranks
from scalana.report.topics.table import sections_of

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis


def contents_of(analysis: Analysis, most: int, details: bool = False) -> Contents:
    """At most ``most`` findings, and the sections; with ``details`` also those that need much room."""
    run, faults = analysis.ppg.run, faults_of(analysis)
    sections = sections_of(analysis, details)
    contents = Contents(
        command=shlex.join(str(word) for word in run.command) or "(command not recorded)",
        head=head.lines(analysis),
        warnings=tuple(warnings(analysis)),
        causes=tuple(cause_of(finding, run) for finding in faults[:most]),
        rest=rest(faults[most:]),
        headline=(known := headline(analysis, faults)),
        nothing=("", "") if faults or known[1] else head.nothing(analysis),
        sections=tuple(sections),
    )
    return without_ranks(contents, run.names)
