"""How a run was recorded."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timezone

from scalana.detectors.analysis import Analysis
from scalana.report.document.sections import Facts, Section, section

_MOST_HOSTS = 8


def sections(analysis: Analysis) -> Sequence[Section]:
    """Command, folder, begin, hosts, and what is missing."""
    run = analysis.ppg.run
    hosts = sorted({host for host in run.host_of_rank if host})
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    began = datetime.fromtimestamp(run.start_unix_s, timezone.utc) if run.start_unix_s is not None else None
    values = {
        "command": shlex.join(str(word) for word in run.command),
        "working directory": run.cwd,
        "begin": began.strftime("%Y-%m-%d %H:%M:%S UTC") if began is not None else "",
        "samples": f"{run.rate_hz:g} a second for each thread" if run.rate_hz else "",
        "hosts": ", ".join(hosts[:_MOST_HOSTS]) + more,
        "communication calls": str(sum(run.calls_of_rank)) if run.calls_of_rank else "",
        "ranks without a record": run.names.many(run.missing_ranks) if run.missing_ranks else "",
        "ranks with a thinned record": run.names.many(run.thinned_ranks, run.ranks) if run.thinned_ranks else "",
    }
    known = tuple((name, text) for name, text in values.items() if text)
    return [section("recorded", "How it was recorded", "", Facts(values=known))]
