"""What is shown of a run that goes on: a picture of one moment, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalana.graphs.progress.course import Course
from scalana.live.now import Moment, RankNow
from scalana.report.topics.productive import entry

SCHEMA = "scalana.watch/1"


@dataclass(frozen=True, slots=True)
class Cause:
    """What costs the last steps most."""

    kind: str
    what: str
    """What the ranks do there, in a sentence."""
    file: str
    line: int
    function: str
    ranks: tuple[int, ...]
    who: str
    """The same in words."""
    lost_share: float
    """Of all waiting in these steps."""
    saving_share: float
    """By how much shorter the steps would be without it; 0 where that is not predicted."""
    since_step: int | None
    """The first step from which on it is known, None where the run shows no steps."""
    since_unix_s: float
    """When that was."""
    is_older: bool
    """Whether it may have been there before: what was before the first look is not known."""
    begins: bool = False
    """Whether it costs more from that step on than before: else it was seen first then."""
    is_whole: bool = False
    """Whether it is about all that its ranks do: the line is but where most of it shows."""

    @property
    def key(self) -> tuple[str, str, int, tuple[int, ...]]:
        """By which it is known again."""
        return (self.kind, "", 0, self.ranks) if self.is_whole else (self.kind, self.file, self.line, self.ranks)


@dataclass(frozen=True, slots=True)
class Analysed:
    """The last steps, analysed as a report analyses a run."""

    first_step: int | None
    """None where no steps are marked: those that communication shows have no number that lasts."""
    last_step: int | None
    step_s: float
    """Of these, on average; 0 where there are none."""
    parts: tuple[tuple[str, float], ...]
    """Where the time of the ranks goes in them: names and shares, which add up to 1."""
    causes: tuple[Cause, ...]
    """The largest first."""
    steps: int = 0
    """How many there are."""


@dataclass(frozen=True, slots=True)
class View:
    """One moment of a run."""

    folder: str
    command: tuple[str, ...]
    going_on: bool
    exit_code: int | None
    seconds: float
    """Since the job was started; until its end, if it has ended."""
    behind_s: float
    """How long ago the latest moment is that was recorded."""
    unix_s: float
    """The time of day of this view."""
    steps: tuple[tuple[int, float], ...]
    """Numbers of the last steps, and how long each took."""
    analysed: Analysed | None
    """None as long as too little was recorded."""
    moment: Moment
    course: Course | None = None
    """Where the wall time went so far; None where that is not known."""


def document(view: View) -> dict[str, Any]:
    """A view as plain data, for ``--json``."""
    analysed = view.analysed
    return {
        "schema": SCHEMA,
        "run": {
            "folder": view.folder,
            "command": list(view.command),
            "ranks": view.moment.world_size,
            "going_on": view.going_on,
            "exit_code": view.exit_code,
            "seconds": round(view.seconds, 3),
            "behind_s": round(view.behind_s, 3),
            "unix_s": round(view.unix_s, 3),
        },
        "productive_time": None if view.course is None else entry(view.course),
        "steps": [{"step": number, "seconds": round(seconds, 6)} for number, seconds in view.steps],
        "last_steps": None if analysed is None else _analysed(analysed),
        "causes": [] if analysed is None else [_cause(cause) for cause in analysed.causes],
        "ranks": [_rank(rank) for rank in view.moment.ranks],
    }


def _analysed(analysed: Analysed) -> dict[str, Any]:
    return {
        "first": analysed.first_step,
        "last": analysed.last_step,
        "count": analysed.steps,
        "step_s": round(analysed.step_s, 6),
        "shares": {name: round(share, 4) for name, share in analysed.parts},
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "root": {"file": cause.file, "line": cause.line, "function": cause.function},
        "ranks": list(cause.ranks),
        "lost_share": round(cause.lost_share, 4),
        "saving_share": round(cause.saving_share, 4),
        "since_step": cause.since_step,
        "since_unix_s": round(cause.since_unix_s, 3),
        "older": cause.is_older,
    }


def _rank(rank: RankNow) -> dict[str, Any]:
    file, line, function = rank.stack.place
    return {
        "rank": rank.rank,
        "name": rank.name,
        "state": rank.state,
        "operation": rank.operation,
        "seconds": round(rank.seconds, 3),
        "file": file,
        "line": line,
        "function": function,
    }
