"""Where the wall time of a job went: productive steps, and all that is none (ETTR, effective training time ratio)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.progress.attempt_times import Attempt, Resumed, resumed

PRODUCTIVE = "productive"
PARTS = (PRODUCTIVE, "again", "start_up", "checkpoints", "evaluation", "hangs", "between", "end")
"""What a moment of a job is, in the order in which they are shown."""
_NUMBER = {name: number for number, name in enumerate(PARTS)}
_HOUR_S = 3600.0
_LONGEST_LAUNCH_S = 86400.0
"""A job whose first rank starts later than this after it has another clock."""


@dataclass(frozen=True, slots=True)
class Course:
    """What a job did when: stretches without gaps between them."""

    edge_s: FloatArray
    """Seconds since 1970 ``[stretches + 1]``."""
    part: IntArray
    """Row in :data:`PARTS` ``[stretches]``."""
    attempts: tuple[Attempt, ...]
    resumed: tuple[Resumed, ...]
    """Where each attempt went on ``[attempts]``."""

    @property
    def seconds(self) -> float:
        """Wall time of the job, from its start to its latest moment."""
        return float(self.edge_s[-1] - self.edge_s[0])

    @property
    def knows_again(self) -> bool:
        """Whether it is known of every attempt which of its steps had been done before."""
        return all(one.again is not None for one in self.resumed)

    def parts_s(self, since_s: float | None = None, until_s: float | None = None) -> dict[str, float]:
        """Seconds of each part, of the job or from one moment to another."""
        since_s = float(self.edge_s[0]) if since_s is None else since_s
        until_s = float(self.edge_s[-1]) if until_s is None else until_s
        edges = np.clip(self.edge_s, since_s, until_s)
        sums = np.bincount(self.part, np.diff(edges), len(PARTS))
        return dict(zip(PARTS, sums.tolist(), strict=True))

    def hours(self) -> tuple[float, float, float] | None:
        """The productive share of the last hour, and of the hour in which it was least, with the begin of that; None
        for a job that took no hour."""
        if self.seconds < _HOUR_S:
            return None
        begin, end = float(self.edge_s[0]), float(self.edge_s[-1])
        done = np.concatenate(([0.0], np.cumsum(np.diff(self.edge_s) * (self.part == _NUMBER[PRODUCTIVE]))))
        # The least is in a window that begins or ends at an edge: in between it changes evenly.
        starts = np.clip(np.concatenate((self.edge_s, self.edge_s - _HOUR_S)), begin, end - _HOUR_S)
        share = (np.interp(starts + _HOUR_S, self.edge_s, done) - np.interp(starts, self.edge_s, done)) / _HOUR_S
        least = int(share.argmin())
        last = (done[-1] - float(np.interp(end - _HOUR_S, self.edge_s, done))) / _HOUR_S
        return float(last), float(share[least]), float(starts[least])


def course(
    attempts: Sequence[Attempt],
    job_s: tuple[float | None, float | None] = (None, None),
    hangs: Iterable[tuple[float, float]] = (),
    going_on: bool = False,
) -> Course | None:
    """What a job did when; None where no attempt shows that it did anything.

    Args:
        attempts: in order.
        job_s: when the job was started and ended, as far as that is known: launchers begin before ranks, and end later.
            It is left out where it contradicts the attempts (a run that was imported).
        hangs: begin and end of each hang that was seen.
        going_on: whether the last attempt still runs: a step may be under way.
    """
    if not any(np.isfinite(attempt.first_step_s) for attempt in attempts):
        return None
    if any(attempt.is_marked for attempt in attempts):
        attempts = [one if one.is_marked else replace(one, first_step_s=math.nan) for one in attempts]
    went_on = resumed(attempts)
    begin_s, end_s = _extent(attempts, *job_s)
    if going_on and np.isfinite(attempts[-1].first_step_s):
        attempts = [*attempts[:-1], replace(attempts[-1], last_step_s=attempts[-1].end_s)]
    painted = _Painted(begin_s, end_s)
    painted.paint("end", max(attempt.end_s for attempt in attempts), end_s)
    begins = [begin_s, *(attempt.start_s for attempt in attempts[1:])]
    for attempt, begin, further, again in zip(attempts, begins, [*begins[1:], end_s], went_on, strict=True):
        painted.paint("between", begin, further, over=("between",))
        _paint_attempt(painted, attempt, begin, min(attempt.end_s, further), again)
    for begin, end in hangs:
        painted.paint("hangs", begin, end, over=(PRODUCTIVE, "again", "start_up", "end"))
    edges, part = painted.stretches()
    return Course(edges, part, tuple(attempts), tuple(went_on))


def _extent(attempts: Sequence[Attempt], start_s: float | None, end_s: float | None) -> tuple[float, float]:
    """From when to when a job lasted."""
    first_s, last_s = attempts[0].start_s, max(attempt.end_s for attempt in attempts)
    if start_s is None or not first_s - _LONGEST_LAUNCH_S <= start_s <= first_s:
        return first_s, last_s
    return start_s, end_s if end_s is not None and end_s >= last_s else last_s


def _paint_attempt(painted: _Painted, attempt: Attempt, begin_s: float, end_s: float, at: Resumed) -> None:
    """The parts of one attempt, one over the other."""
    painted.paint("start_up", begin_s, end_s)
    if not np.isfinite(attempt.first_step_s):
        return
    painted.paint(PRODUCTIVE, attempt.first_step_s, attempt.last_step_s)
    painted.paint("end", attempt.last_step_s, end_s)
    if at.again:
        # Its first steps; the begin of the very first may be unknown.
        last = at.again - 1 - (attempt.steps - len(attempt.step_end_s))
        if last >= 0:
            painted.paint("again", attempt.first_step_s, float(attempt.step_end_s[last]))
    for name, stretches in (("evaluation", attempt.evaluations), ("checkpoints", attempt.checkpoints)):
        for begin, end in stretches.tolist():
            painted.paint(name, begin, end, over=(PRODUCTIVE, "again", "evaluation", "end"))


class _Painted:
    """A line on which parts are painted over others."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self._begin_s, self._end_s = begin_s, end_s
        self._layers: list[tuple[float, float, int, tuple[int, ...]]] = []

    def paint(self, name: str, begin_s: float, end_s: float, over: Sequence[str] = PARTS) -> None:
        """Make a stretch a part, where it is one of ``over`` so far."""
        begin_s, end_s = max(begin_s, self._begin_s), min(end_s, self._end_s)
        if end_s > begin_s:
            self._layers.append((begin_s, end_s, _NUMBER[name], tuple(_NUMBER[one] for one in over)))

    def stretches(self) -> tuple[FloatArray, IntArray]:
        """Edges and parts, equal neighbours as one."""
        sides = [side for layer in self._layers for side in layer[:2]]
        edges = np.unique(np.array([self._begin_s, self._end_s, *sides]))
        part = np.full(max(len(edges) - 1, 0), _NUMBER["between"], np.int64)
        for begin, end, number, over in self._layers:
            rows = slice(int(np.searchsorted(edges, begin)), int(np.searchsorted(edges, end)))
            part[rows] = np.where(np.isin(part[rows], over), number, part[rows])
        kept = np.flatnonzero(np.diff(part, prepend=-1))
        return np.append(edges[kept], edges[-1]), part[kept]


def largest_loss(seconds: Mapping[str, float]) -> str | None:
    """The part, productive steps aside, that took most; None where nothing else took any time."""
    lost = {name: value for name, value in seconds.items() if name != PRODUCTIVE}
    most = max(lost, key=lambda name: lost[name], default="")
    return most if lost.get(most, 0.0) > 0 else None
