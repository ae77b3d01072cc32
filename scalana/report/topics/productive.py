"""Where the wall time of a job went: productive steps, and all that is none (``docs/productive-time.md``)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.thresholds.shares import WORTH_A_FINDING
from scalana.graphs.progress.course import PARTS, PRODUCTIVE, Course, largest_loss
from scalana.report import names
from scalana.report.document.sections import Account, Column, Facts, Layout, Part, Row, Section, Share, Table, section
from scalana.report.values import plain

WORDS = {
    "productive": ("productive", "steps"),
    "again": ("repeated", "steps that a restart had lost"),
    "start_up": ("start-up", "until the first step of an attempt"),
    "checkpoints": ("checkpoints", "any rank writes one"),
    "evaluation": ("evaluation", "any rank evaluates"),
    "hangs": ("hangs", "no rank makes progress"),
    "between": ("restarting", "from one attempt to the next"),
    "end": ("end", "after the last step of an attempt"),
}
"""What a part is called, and what it means."""
_ORDINARY = ("productive", "start_up", "end")
"""Parts that every job has."""
_MOST_ATTEMPTS = 12


def sections(analysis: Analysis) -> Sequence[Section]:
    """The account of the wall time, and of each attempt; none for a job that only starts, makes steps, and ends."""
    course = analysis.ppg.run.course
    if course is None or analysis.window is not None or not _is_worth_it(course):
        return []
    parts: list[Part] = [account(course), Facts(sentences(course), hangs=True)]
    parts += [_table(course)] if len(course.attempts) > 1 else []
    return [section("productive-time", "Productive time", "wall time of the job (ETTR)", *parts)]


def _is_worth_it(course: Course) -> bool:
    seconds = course.parts_s()
    others = sum(seconds[name] for name in PARTS if name not in _ORDINARY)
    return len(course.attempts) > 1 or others > WORTH_A_FINDING * course.seconds


def account(course: Course) -> Account:
    """The parts of the wall time that took any of it."""
    seconds = course.parts_s()
    shares = [
        Share(WORDS[name][0], seconds[name], color, WORDS[name][1])
        for color, name in enumerate(PARTS)
        if seconds[name] > 0 or name == PRODUCTIVE
    ]
    return Account("wall time", course.seconds, tuple(shares), Layout.BARS)


def sentences(course: Course) -> tuple[str, ...]:
    """The productive share, of the run and of hours, what costs most, and what is not known."""
    seconds, of = course.parts_s(), course.seconds
    attempts = len(course.attempts)
    said = [
        f"Productive steps take {names.percent(seconds[PRODUCTIVE] / of)} of {names.seconds(of)} wall time"
        f"{f', in {attempts} attempts' if attempts > 1 else ''}."
    ]
    worst = largest_loss(seconds)
    if worst is not None:
        said.append(
            f"The largest loss: {WORDS[worst][0]}, {names.seconds(seconds[worst])} "
            f"({names.percent(seconds[worst] / of)})."
        )
    if (hours := course.hours()) is not None:
        last, least, since_s = hours
        clock = time.strftime("%Y-%m-%d %H:%M", time.localtime(since_s))
        said.append(
            f"In the last hour, they take {names.percent(last)}; in the worst hour, from {clock} on, "
            f"{names.percent(least)}."
        )
    if not course.knows_again:
        said.append(
            "How many steps a restart repeats is unknown: an attempt reads no checkpoint that an earlier one wrote "
            "(with torch.save or torch.distributed.checkpoint). All its steps count as productive."
        )
    return tuple(said)


def _table(course: Course) -> Table:
    """A row an attempt."""
    columns = (
        Column("attempt", 7),
        Column("took", 8),
        Column("start-up", 8, is_spared=True),
        Column("steps", 7),
        Column("repeated", 8),
        Column("after", 8, is_spared=True),
        Column("failed", is_text=True, leads=True),
    )
    rows = []
    for number in range(min(len(course.attempts), _MOST_ATTEMPTS)):
        entry = attempt_entry(course, number)
        again, gap = entry["repeated_steps"], entry["gap_s"]
        rows.append(
            Row(
                (
                    str(number + 1),
                    names.seconds(entry["seconds"]),
                    names.seconds(entry["start_up_s"]),
                    str(entry["steps"]) if entry["steps"] is not None else "?",
                    "?" if again is None else str(again),
                    names.seconds(gap) if gap else "·",
                    entry["failure"] or "·",
                )
            )
        )
    more = len(course.attempts) - len(rows)
    notes = ("after: between the end of the attempt before and the start of this one",)
    return Table(columns, tuple(rows), (*notes, *([f"and {more} more attempts"] if more > 0 else [])))


def attempt_entry(course: Course, number: int) -> dict[str, Any]:
    """One attempt, for the JSON report."""
    attempt, resumed = course.attempts[number], course.resumed[number]
    began = math.isfinite(attempt.first_step_s)
    gap_s = attempt.start_s - course.attempts[number - 1].end_s if number else 0.0
    return {
        "start_unix_s": plain(attempt.start_s),
        "seconds": plain(attempt.end_s - attempt.start_s),
        "gap_s": plain(max(gap_s, 0.0)),
        "start_up_s": plain((attempt.first_step_s if began else attempt.end_s) - attempt.start_s),
        "steps": attempt.steps if attempt.is_marked or not began else None,
        "from_step": resumed.from_step,
        "repeated_steps": resumed.again,
        "failure": attempt.failure,
    }


def entry(course: Course) -> dict[str, Any]:
    """All of it, for JSON."""
    seconds, hours = course.parts_s(), course.hours()
    return {
        "seconds": plain(course.seconds),
        "ettr": plain(seconds[PRODUCTIVE] / course.seconds),
        "parts_s": {name: plain(value) for name, value in seconds.items()},
        "largest_loss": largest_loss(seconds),
        "last_hour": plain(hours[0]) if hours else None,
        "worst_hour": {"share": plain(hours[1]), "start_unix_s": plain(hours[2])} if hours else None,
        "repeated_known": course.knows_again,
        "attempts": [attempt_entry(course, number) for number in range(len(course.attempts))],
    }


def entries(analysis: Analysis) -> dict[str, Any]:
    """The same, of a report of a whole run."""
    course = analysis.ppg.run.course
    return (
        {}
        if course is None or analysis.window is not None or course.seconds <= 0
        else {"productive_time": entry(course)}
    )
