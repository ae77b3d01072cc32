"""Whether what a finding costs changes over the steps: what grows is kept and gone through again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.annotate import advice
from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import OverSteps
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding, Series
from scalana.detectors.thresholds.limits import DRAWN
from scalana.detectors.when.cost_trend import Shape, Trend, means, trend_of
from scalana.detectors.when.step_costs import CostByStep
from scalana.graphs.arrays.types import FloatArray


class TrendOfSeries:
    """Costs that detectors know from step to step. Where some of the steps were looked at, ``stands_for`` says for how
    many; of waiting, see :mod:`scalana.detectors.annotate.steps`."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings with how their series changes, if it does."""
        del facts
        return Annotated([_with_series(one, one.series) if one.series is not None else one for one in findings])


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


def _with_series(finding: Finding, series: Series) -> Finding:
    trend = trend_of(series.cost_s, series.number, series.stands_for)
    return _with_trend(finding, series, trend) if trend is not None else finding


def _with_trend(finding: Finding, series: Series, trend: Trend) -> Finding:
    known = _over_steps(series, trend)
    finding = replace(finding, evidence=replace(finding.evidence, over_steps=known))
    if not trend.rises or trend.shape is Shape.UNCLEAR or series.cost == "idle":
        return finding
    said = advice.BEGAN.format(step=known.from_step) if trend.shape is Shape.JUMP else advice.GROWS
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
