"""What to say of a job that hangs, while it does: who is waited for, where, and the stacks of all ranks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scalana.errors import RunDataError
from scalana.live.stacks import Group, groups_of, stack_lines, what
from scalana.report import names
from scalana.report.text.paint import Paint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.api import Report
    from scalana.detectors.finding import Finding
    from scalana.live.now import Moment

_WIDTH = 100
_HANG = "hang"


def explain(folder: str, moment: Moment, quiet_s: float, limit_s: float) -> list[str]:
    """The lines to print: what happened, the cause with its line and rank, and the stacks, those that differ first.

    Args:
        folder: the last part of the run, as a run folder.
        moment: the same, as it is now.
        quiet_s: how long nothing has come further.
        limit_s: how long that may be.
    """
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - quiet_s))
    head = f"the job hangs: no rank has come further since {since} ({quiet_s:.0f} s, limit {limit_s:.0f} s)"
    groups = groups_of(moment)
    causes = _causes(folder, groups) or _without_causes(groups)
    locks = [f"{group.who}: {text}" for group in groups for text in group.locks]
    return [head, *causes, *locks, "", *stack_lines(groups, _WIDTH, Paint(False))]


def _causes(folder: str, groups: Sequence[Group]) -> list[str]:
    """What the analysis says of the calls that do not return: the same as at the end of a run."""
    from scalana import api

    try:
        report = api.analyze(folder)
    except RunDataError:
        return []
    return [line for finding in report.findings if finding.kind == _HANG for line in _finding(report, finding, groups)]


def _finding(report: Report, finding: Finding, groups: Sequence[Group]) -> list[str]:
    """The line that is named, why, what its ranks are in, and what to do."""
    from scalana.report.findings.claims import claim

    run = report.analysis.ppg.run
    place = names.place(names.relative(finding.file, run.cwd), finding.line)
    concerned = [group for group in groups if any(one.rank in finding.ranks for one in group.members)]
    are_in = [f"{group.who}: {what(group)}" for group in concerned]
    return [f"{place} {finding.function}: {claim(finding, run.ranks, run.names)}", *are_in, f"→ {finding.advice}"]


def _without_causes(groups: Sequence[Group]) -> list[str]:
    """Where nobody waits in a call that was recorded: where the fewest are."""
    if not groups:
        return []
    group = groups[0]
    file, line, function = group.one.stack.place
    where = f"{names.place(file, line)} {function}: " if file else ""
    return [f"{where}{group.who} {what(group)}; no rank waits in a recorded call"]
