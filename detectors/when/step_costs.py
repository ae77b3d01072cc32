"""What a finding costs in every step, and whether that changes over them: what grows is kept and gone through again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.evidence import OverSteps
from scalana.detectors.finding import Finding, Series
from scalana.detectors.thresholds.limits import DRAWN, RANKS_OF_A_FINDING
from scalana.detectors.when.trend import Shape, Trend, means, trend_of
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline

GROWS = (
    "The cost grows with the steps: look for data that accumulates and is processed again in each step; process only "
    "what is new, or keep less."
)
BEGAN = (
    "The cost is higher from step {step} on: check what began then, in the program or outside (another program, a "
    "lower core clock)."
)


@dataclass(frozen=True, slots=True)
class CostByStep:
    """Tells what findings cost in each step of the steady state."""

    table: BlameTable
    timeline: Timeline
    number: IntArray
    """Of the steps ``[steps]``."""
    start_s: FloatArray
    """``[steps, ranks]``"""
    end_s: FloatArray
    """``[steps, ranks]``"""
    edges: tuple[FloatArray, FloatArray]
    """Begin and end of all bursts."""

    @classmethod
    def of(cls, table: BlameTable, steps: Steps, timeline: Timeline) -> CostByStep:
        """That of a run."""
        start_s, end_s = (times[steps.steady()] for times in steps.on_all_ranks())
        return cls(table, timeline, steps.number[steps.steady()], start_s, end_s, gap_edges(timeline))

    def longer_s(self, finding: Finding) -> tuple[FloatArray, FloatArray] | None:
        """What the ranks of a finding take longer at its place than others, on average over the former, the median of
        the latter: without what they wait for a core, and with it, each ``[steps]``. None where the finding is no work
        of their own, or where all ranks are named: these take turns.

        What all take longer from step to step costs nobody anything.
        """
        targets = np.unique(self.table.target[finding.entries])
        activities = targets[targets < self.table.numbering.transfer]
        here = np.array(sorted(finding.ranks), np.int64)
        others = np.setdiff1d(self.timeline.locations.rank, here)
        if not len(activities) or not len(here) or not len(others):
            return None
        activities = with_contexts_of_others(activities, finding.ranks, self.table.work, self.timeline)
        rows = np.flatnonzero(np.isin(self.timeline.own.activity, activities))
        location = burst_locations(self.timeline)[self.timeline.own.burst[rows]]
        here, others = _some(here), _some(others)
        kept = np.isin(self.timeline.locations.rank[location], np.union1d(here, others))
        rows, location = rows[kept], location[kept]
        mine = [self._of_rank(rank, rows, location, True) for rank in here.tolist()]
        theirs = [self._of_rank(rank, rows, location, False) for rank in others.tolist()]
        work_s, time_s = np.maximum(np.mean(mine, axis=0) - np.median(theirs, axis=0), 0.0)
        return work_s, time_s

    def _of_rank(self, rank: int, rows: IntArray, location: IntArray, named: bool) -> FloatArray:
        """What some rows of own work come to in every step, in the location of a rank that does most of it: without
        waiting for a core, and with it ``[2, steps]``.

        Of a rank that is not named, nothing where it was never seen there: that time is but inferred from the others'.
        A burst that reaches over the edge of a step is divided in proportion to time.
        """
        own, locations = self.timeline.own, self.timeline.locations
        mine = np.flatnonzero(locations.rank[location] == rank)
        if not len(mine) or not (named or own.samples[rows[mine]].any()):
            return np.zeros((2, len(self.number)))
        time_s = weighted_count(location[mine], own.seconds[rows[mine]], len(locations))
        at = rows[mine][location[mine] == int(time_s.argmax())]
        burst, number = np.unique(own.burst[at], return_inverse=True)  # in order of time
        edges = np.stack([edge[burst] for edge in self.edges], axis=1).ravel()
        spent = []
        for seconds in (np.maximum(own.seconds[at] - own.core_wait_s[at], 0.0), own.seconds[at]):
            of_burst = weighted_count(number, seconds, len(burst))
            done = np.cumsum(np.stack((np.zeros(len(burst)), of_burst), axis=1).ravel())
            start, end = (np.interp(times[:, rank], edges, done) for times in (self.start_s, self.end_s))
            spent.append(end - start)
        return np.stack(spent)


def _changes(finding: Finding, lost_s: FloatArray, costs: CostByStep) -> tuple[str, FloatArray, Trend] | None:
    """Which cost of a finding changes, what it is in every step, and how; None where none does.

    How long ranks wait for a core is the machine's doing: it may jump where another program starts, and is no growth.
    """
    longer = costs.longer_s(finding)
    if longer is None:
        trend = trend_of(lost_s)
        return ("waiting", lost_s, trend) if trend else None
    work_s, time_s = longer
    if trend := trend_of(work_s):
        return "work", work_s, trend
    trend = trend_of(time_s)
    return ("time", time_s, trend) if trend and trend.shape is Shape.JUMP else None


def with_trend(finding: Finding, lost_s: FloatArray, costs: CostByStep) -> Finding:
    """A finding with how its cost changes over the steps, if it does; ``lost_s`` is the waiting for it ``[steps]``."""
    changes = _changes(finding, lost_s, costs)
    if changes is None:
        return finding
    cost, cost_s, trend = changes
    return _with_trend(finding, Series(cost, costs.number, cost_s, np.ones(len(cost_s))), trend)


def with_series(findings: Sequence[Finding]) -> list[Finding]:
    """The same of findings whose detectors know what they cost from step to step. Where some of the steps were looked
    at, ``stands_for`` says for how many."""
    return [_with_series(finding, finding.series) if finding.series is not None else finding for finding in findings]


def _with_series(finding: Finding, series: Series) -> Finding:
    trend = trend_of(series.cost_s, series.number, series.stands_for)
    return _with_trend(finding, series, trend) if trend is not None else finding


def _with_trend(finding: Finding, series: Series, trend: Trend) -> Finding:
    known = _over_steps(series, trend)
    finding = replace(finding, evidence=replace(finding.evidence, over_steps=known))
    if not trend.rises or trend.shape is Shape.UNCLEAR or series.cost == "idle":
        return finding
    said = BEGAN.format(step=known.from_step) if trend.shape is Shape.JUMP else GROWS
    return replace(finding, advice=finding.advised(said))


def _over_steps(series: Series, trend: Trend) -> OverSteps:
    number, jumps, is_clear = series.number, trend.shape is Shape.JUMP, trend.shape is not Shape.UNCLEAR
    stands_for, size = round(float(series.stands_for.sum())), -(-len(number) // DRAWN)
    return OverSteps(
        shape=trend.shape.value,
        cost=series.cost,
        before_s=trend.before_s,
        after_s=trend.after_s,
        first_step=int(number[trend.first]),
        last_step=int(number[trend.last]),
        steps=trend.paid,
        of=len(number),
        stands_for=stands_for if stands_for != len(number) else None,
        from_step=int(number[trend.jump]) if jumps else None,
        per_step_s=trend.per_step_s if is_clear and not jumps else None,
        so_far_s=float((series.cost_s * series.stands_for).sum()) if is_clear else None,
        next_s=trend.next_s if is_clear else None,
        series_s=means(series.cost_s, size).tolist(),
        series_steps=number[::size].tolist(),
    )


def _some(ranks: IntArray) -> IntArray:
    """Some of many ranks."""
    if len(ranks) <= RANKS_OF_A_FINDING:
        return ranks
    return np.asarray(ranks[np.linspace(0, len(ranks) - 1, RANKS_OF_A_FINDING).astype(np.int64)])
