"""The verdict on a run that goes on: one line when it is first known, and one each time that it changes for good."""

from __future__ import annotations

import time
from dataclasses import dataclass

from scalana.live.step_history import StepHistory
from scalana.live.view import Analysed, Cause
from scalana.report import names

_MATTERS = 0.05
"""Of the ranks' time: waiting for a cause that is less is not worth a line in the job's log."""
_SLOWER = 1.1
"""Times as long as at first, from which on steps are slower."""


@dataclass(frozen=True, slots=True)
class _State:
    """What a verdict says."""

    cause: tuple[str, str, tuple[int, ...]] | None
    """What the largest cause is known again by, and its ranks; None where nothing matters."""
    is_slower: bool
    """Whether steps take longer than at first."""


class Verdicts:
    """The verdicts on one run, one after the other."""

    def __init__(self) -> None:
        self._said: _State | None = None
        self._seen: _State | None = None
        self._first_s = 0.0

    def take(self, analysed: Analysed, unix_s: float, history: StepHistory | None = None) -> str:
        """The line to print now that the last steps are known; empty where nothing has changed for good: what is new
        has to be there twice, in steps that follow each other.

        Args:
            analysed: the last steps.
            unix_s: the time of day.
            history: all steps that were seen, to say since when they take longer.
        """
        cause = _largest(analysed)
        first = self._said is None
        self._first_s = self._first_s or analysed.step_s
        key = None if cause is None else _key(cause)
        state = _State(key, analysed.step_s > _SLOWER * self._first_s > 0)
        lasts, self._seen = state == self._seen, state
        if not (first or (lasts and state != self._said)):
            return ""
        said, self._said = self._said, state
        clock = time.strftime("%H:%M:%S", time.localtime(unix_s))
        step = "" if analysed.last_step is None else f"step {analysed.last_step}, "
        change = "" if said is None else self._change(said, state, analysed, history)
        return f"{step}{clock}: {change}{_words(analysed, cause)}"

    def _change(self, said: _State, state: _State, analysed: Analysed, history: StepHistory | None) -> str:
        """What is other than it was said last."""
        parts = []
        if state.is_slower and not said.is_slower:
            since = history.slower_since() if history is not None else ""
            longer = f"steps take {analysed.step_s / self._first_s:.1f} times as long as at first"
            parts.append(", ".join(filter(None, (longer, since))))
        if said.is_slower and not state.is_slower:
            parts.append("steps are as short as at first again")
        if state.cause != said.cause:
            parts.append("the cause is gone" if state.cause is None else "a new cause")
        return f"{'; '.join(parts)}: "


def _largest(analysed: Analysed) -> Cause | None:
    """The largest cause, if it matters."""
    waiting = dict(analysed.parts).get("waiting", 0.0)
    return next((cause for cause in analysed.causes if cause.lost_share * waiting >= _MATTERS), None)


def _key(cause: Cause) -> tuple[str, str, tuple[int, ...]]:
    """File and function, as the line may move a little; of a rank that is slow as a whole, that."""
    return ("", cause.kind, cause.ranks) if cause.is_whole else (cause.file, cause.function, cause.ranks)


def _words(analysed: Analysed, cause: Cause | None) -> str:
    waiting = dict(analysed.parts).get("waiting", 0.0)
    steps = f"{names.seconds(analysed.step_s)} a step, " if analysed.step_s else ""
    if cause is None:
        return f"{steps}nothing stands out (ranks wait for each other {names.percent(waiting)} of the time)"
    wait = names.percent(cause.lost_share * waiting)
    where = f"{names.place(cause.file, cause.line)} {cause.function}".rstrip()
    text = f"{where} on {cause.who} makes the others wait {wait} of the time{_since(cause)}"
    if cause.is_whole:
        text = f"{cause.what[0].lower()}{cause.what[1:].rstrip('.')}: the others wait {wait} of the time"
    shorter = f", {names.percent(cause.saving_share)} shorter without it" if cause.saving_share >= 0.01 else ""
    return f"{steps}{text}{shorter}"


def _since(cause: Cause) -> str:
    """Since when it costs more, where that is known."""
    if cause.since_step is None or not cause.begins:
        return ""
    return f", since step {cause.since_step} ({time.strftime('%H:%M:%S', time.localtime(cause.since_unix_s))})"
