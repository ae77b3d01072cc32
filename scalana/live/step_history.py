"""How long steps took, over a longer time of a run that goes on than is analysed; and since when they take longer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.when.rank_work import RankWork

_MOST = 20_000
_MOST_OF_RANKS = 2_000
"""Steps of which is kept what each rank worked in them."""


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    seconds: float
    end_unix_s: float


class StepHistory:
    """Steps that were seen; those between two looks may be missing."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_MOST)

    def add(self, step_s: Mapping[int, float], unix_s: float) -> None:
        """Take the steps that are new: seconds by number, the last of which has just ended at a time of day."""
        last, end = self._steps[-1].number if self._steps else -1, unix_s
        new: list[_Step] = []
        for number, seconds in sorted(step_s.items(), reverse=True):
            if number > last:
                new.append(_Step(number, seconds, end))
            end -= seconds
        self._steps.extend(reversed(new))

    def begin_unix_s(self, number: int) -> float | None:
        """The time of day at which a step began, or the first one that was seen after it; None where none was."""
        return next((one.end_unix_s - one.seconds for one in self._steps if one.number >= number), None)

    def slower_since(self) -> str:
        """Since when steps take longer, in words with the step and the time of day; empty where that is not clear."""
        from scalana.detectors.when.cost_trend import Shape, trend_of

        steps = list(self._steps)
        trend = trend_of(np.array([one.seconds for one in steps]), np.array([one.number for one in steps], np.int64))
        if trend is None or not trend.rises:
            return ""
        if trend.shape is Shape.LINE:
            return "more from step to step"
        if trend.jump <= 0:
            return ""
        before, after = steps[trend.jump - 1], steps[trend.jump]
        at = time.localtime(after.end_unix_s - after.seconds)
        is_known = after.number == before.number + 1
        number = str(after.number) if is_known else f"{before.number + 1} to {after.number}"
        return f"since step {number} ({time.strftime('%H:%M:%S', at)})"


class RankHistory:
    """What every rank worked in the steps that were analysed, one part after the other: only that shows since when a
    rank is slow. Steps between two looks may be missing."""

    def __init__(self) -> None:
        self.work: RankWork | None = None

    def add(self, analysis: Analysis) -> None:
        """Take the steps of one more part."""
        from scalana.detectors.when.rank_work import RankWork

        if analysis.steps is not None:
            work = RankWork.of(analysis.ppg.timeline, analysis.steps)
            self.work = work.after(self.work).last(_MOST_OF_RANKS)

    def since(self, ranks: Collection[int]) -> int | None:
        """The step from which on some ranks work longer than the others; None where they always did, or do not, or
        where that began between two looks."""
        from scalana.detectors.when.rank_work import began_at, late_since

        work = self.work
        if work is None:
            return None
        others = np.setdiff1d(np.arange(work.work_s.shape[1]), list(ranks))
        if len(others) < len(ranks):
            return None
        rows = [late_since(work.longer(rank, others)) for rank in ranks]
        known = [row for row in rows if row]
        return began_at(work.number, min(known)) if len(known) == len(rows) > 0 else None
