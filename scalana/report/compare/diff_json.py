"""What changed between two runs, as JSON (``docs/diff.md``)."""

from __future__ import annotations

import json
from typing import Any

from scalana.detectors.runs.costs import RunCosts
from scalana.detectors.runs.diff import CausePair, Change, Difference
from scalana.report import names
from scalana.report.findings.entry import finding_entry
from scalana.report.values import plain

SCHEMA = "scalana.diff/1"


def document(difference: Difference) -> dict[str, Any]:
    """The changes as dicts, lists, strings, numbers and None."""
    of, to = difference.before, difference.after
    before, after = of.cwd, to.cwd
    return {
        "schema": SCHEMA,
        "before": _run(of),
        "after": _run(to),
        "changes": [_change(change, before if change.only == "before" else after) for change in difference.changes],
        "rest_s": plain(difference.rest_s),
        "setup_s": plain(difference.setup_s),
        "core_wait_s": plain(difference.core_wait_s),
        "causes": {
            "appeared": [finding_entry(finding, after, to.names) for finding in difference.appeared],
            "vanished": [finding_entry(finding, before, of.names) for finding in difference.vanished],
            "stayed": [_pair(pair, of, to) for pair in difference.stayed],
        },
        "warnings": list(difference.warnings),
    }


def render(difference: Difference) -> str:
    """The changes as indented JSON; the same runs give the same bytes."""
    return json.dumps(document(difference), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _run(run: RunCosts) -> dict[str, Any]:
    return {"folder": run.name, "ranks": run.ranks, "seconds": plain(run.seconds), "rank_s": plain(run.mean_s)}


def _change(change: Change, cwd: str) -> dict[str, Any]:
    return {
        "file": names.relative(change.file, cwd),
        "line": change.line,
        "end_line": change.end_line,
        "function": change.function,
        "vertex_kind": change.vertex_kind,
        "caller": names.relative(change.caller, cwd) or None,
        "part": change.part,
        "only": change.only or None,
        **{
            name: plain(getattr(change, name))
            for name in ("before_s", "after_s", "change_s", "work_s", "waiting_s", "transfer_s", "noise_s")
        },
    }


def _pair(pair: CausePair, before: RunCosts, after: RunCosts) -> dict[str, Any]:
    assert pair.before is not None and pair.after is not None
    return {
        "before": finding_entry(pair.before, before.cwd, before.names),
        "after": finding_entry(pair.after, after.cwd, after.names),
        "change_s": plain(pair.change_s),
    }
