"""What follows a job: its analysis, the report on the terminal, and its copies in the run folder."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from scalana import console
from scalana.errors import CommandError
from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.api import Report


def report_of_run(folder: str, form: str) -> int:
    """Analyse a run that has just ended; where that fails, say so in one line. Returns the exit code.

    Args:
        folder: of the run.
        form: ``text`` goes to standard error, ``json`` to standard output.
    """
    try:
        _report(folder, form)
    except KeyboardInterrupt:
        console.complain(
            f"report interrupted; the records are in {console.shown(folder)} (scalana report {console.shown(folder)})"
        )
        return 130
    except BrokenPipeError:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            pass
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        reason = str(error) or type(error).__name__
        console.complain(f"could not analyse the run: {reason} (records are in {console.shown(folder)})")
        return 1
    return 0


def keep_frames(folder: str) -> int:
    """Keep what the binaries of a run say of its native code, for an analysis elsewhere. Returns the exit code."""
    from scalana import kept_frames

    try:
        kept_frames.keep(folder)
    except (Exception, KeyboardInterrupt):  # a report can do without it
        if os.environ.get("SCALANA_DEBUG"):
            raise
        return 1
    return 0


def _report(folder: str, form: str) -> None:
    from scalana import api, memory
    from scalana.progress import Progress

    memory.keep_freed()
    with Progress(sys.stderr) as progress:
        report = api.analyze(folder, progress=progress)
        text, data = report.to_text(), report.to_json()
    for kept, content in (("text", text), ("json", data), ("timeline", report.to_timeline())):
        if content is not None:
            console.or_complain(layout.report_file(folder, kept), partial(_write_text, content=content))
    _write_plan(report, folder)
    if form == "json":
        console.write(data, sys.stdout)
    else:
        stream = sys.stderr
        shown_text = report.to_text(width=console.width(stream), color=console.wants_color(stream))
        console.write(f"\n{shown_text}\nrecorded in {console.shown(folder)}\n", stream)


def _write_plan(report: Report, folder: str) -> None:
    """Write the plan for the run's pipeline, if there is one."""
    proposal = report.plan()
    if proposal is not None:
        from scalana import plans

        try:
            plans.write_proposal(proposal, os.path.join(folder, "plan"))
        except CommandError as error:
            console.complain(str(error))


def _write_text(path: str, content: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
