"""What every rank worked in the steps of a run that goes on, over a longer time than is analysed: only that shows since
when a rank is slow, in steps that were analysed one part after the other."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.step_work import StepWork, late_since

_MOST = 2_000
"""Steps that are kept."""


class RankHistory:
    """The work of ranks in the steps that were seen; those between two looks may be missing."""

    def __init__(self) -> None:
        self.work: StepWork | None = None

    def add(self, analysis: Analysis) -> None:
        """Take the steps of one more part."""
        steps = analysis.steps
        if steps is not None:
            self.work = StepWork.of(analysis.ppg.timeline, steps).after(self.work).last(_MOST)

    def since(self, ranks: Collection[int]) -> int | None:
        """The step from which on some ranks work longer than the others; None where they always did, or do not."""
        work = self.work
        if work is None:
            return None
        others = np.setdiff1d(np.arange(work.work_s.shape[1]), list(ranks))
        if len(others) < len(ranks):
            return None
        rows = [late_since(work.longer(rank, others)) for rank in ranks]
        known = [row for row in rows if row]
        return int(work.number[min(known)]) if len(known) == len(rows) > 0 else None
