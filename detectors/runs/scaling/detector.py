"""Runs of one program at different sizes, put together: sizes, ideal, places that lose, predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding
from scalana.detectors.noise.verdict import beyond_noise
from scalana.detectors.runs import advice
from scalana.detectors.runs.costs import CostTable, RunCosts, cost_table
from scalana.detectors.runs.scaling.causes import finding_of
from scalana.detectors.runs.scaling.ideal import Ideal, find_ideal
from scalana.detectors.runs.scaling.loss import Noise, PlaceLoss, place_losses
from scalana.detectors.runs.scaling.models import Prediction, fit
from scalana.detectors.runs.scaling.size_efficiency import SizeEfficiency, size_efficiencies
from scalana.detectors.thresholds.certainty import CERTAIN
from scalana.detectors.thresholds.counts import SHOWS_THE_USUAL
from scalana.detectors.thresholds.differences import DEAD_BAND, NOISE_ON_SHARED_CORES
from scalana.detectors.thresholds.limits import MOST_FINDINGS
from scalana.detectors.thresholds.shares import CORES_SHARED, FLOOR, WORTH_A_FINDING
from scalana.graphs.arrays.types import FloatArray

STRANGE, STRANGER = 0.5, 0.95
"""Parts of a run's time at places that the reference run lacks, from which the report asks, or there is none."""


class ScalingError(ValueError):
    """The runs cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Size:
    """All runs of one size: medians over runs, seconds of an average rank without the start of the job."""

    ranks: int
    runs: int
    job_s: float
    """Wall-clock seconds of the job, its start included."""
    seconds: float
    """Work, waiting and transfer."""
    ideal_s: float
    work_s: float
    wait_s: float
    transfer_s: float
    core_wait_s: float
    """Time without a core, not part of ``seconds``."""
    setup_s: float
    """Imports and setting up communication, not part of ``seconds``."""

    @property
    def efficiency(self) -> float:
        """Ideal by real seconds."""
        return self.ideal_s / self.seconds if self.seconds > 0.0 else 1.0


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """The whole job at a size that was not run; seconds of an average rank without the start of the job."""

    ranks: int
    seconds: float
    low: float
    high: float
    ideal_s: float

    @property
    def efficiency(self) -> float:
        """Ideal by predicted seconds."""
        return self.ideal_s / self.seconds if self.seconds > 0.0 else 1.0


@dataclass(slots=True)
class Scaling:
    """What the comparison of sizes found."""

    table: CostTable
    ideal: Ideal
    noise: Noise
    sizes: list[Size]
    findings: list[Finding]
    """Largest loss first: what is lost for certain at the size asked for, or else at the largest size."""
    prediction: JobPrediction | None
    reference: Analysis
    """The run of the largest size to whose structure the findings belong."""
    places: list[PlaceLoss] = field(default_factory=list)
    efficiencies: tuple[SizeEfficiency, ...] = ()
    """Of every size of which they are known."""
    warnings: list[str] = field(default_factory=list)


def detect(
    runs: Sequence[RunCosts], reference: int, analysis: Analysis, *, stated: str | None = None, at: int | None = None
) -> Scaling:
    """Compare runs of one program at different numbers of ranks.

    Args:
        runs: Costs of every run, in any order; several may be of one size.
        reference: The run of the largest size whose analysis is ``analysis``.
        stated: ``weak`` or ``strong``; None to tell by the work.
        at: A number of ranks to predict for, None for no prediction.

    Raises:
        ScalingError: with less than two sizes, or runs of different programs.
    """
    if len({run.ranks for run in runs}) < 2:
        raise ScalingError(f"all runs have {runs[0].ranks} ranks: at least two sizes are needed" if runs else "no runs")
    table = cost_table(runs, reference)
    _check_same_program(table)
    ideal = find_ideal(table, stated)
    places, noise = place_losses(table, ideal, analysis.ppg.timeline)
    sizes = _sizes(table, places, ideal, noise)
    losses = sum(max(place.loss_s, 0.0) for place in places)
    with_model = len(sizes) >= SHOWS_THE_USUAL
    wanted = at if with_model else None
    worthy = [place for place in places if _is_worthy(place, sizes[-1].seconds)]
    findings = [finding_of(place, table, analysis, ideal, losses, wanted) for place in worthy[:MOST_FINDINGS]]
    if wanted is not None:
        findings.sort(key=lambda finding: -_certain_loss(finding))
    prediction = None
    if wanted is not None:
        expected = _predict_job(table, places, noise, wanted)
        best = float(ideal.seconds(sizes[0].ideal_s, sizes[0].ranks, wanted).reshape(-1)[0])
        prediction = JobPrediction(wanted, expected.seconds, expected.low, expected.high, best)
    return Scaling(
        table,
        ideal,
        noise,
        sizes,
        findings,
        prediction,
        analysis,
        places,
        size_efficiencies(table.runs, ideal, noise.count(len(table.runs))),
        _warnings(table, ideal, noise, sizes, at),
    )


def _is_worthy(place: PlaceLoss, seconds: float) -> bool:
    least = max(WORTH_A_FINDING * seconds, DEAD_BAND * place.largest_s)
    return bool(beyond_noise(place.loss_s, place.deviation_s, CERTAIN, least))


def _certain_loss(finding: Finding) -> float:
    """Seconds of an average rank above ideal at the size asked for, of which one can be sure: the low end of the range
    (a steep model that three noisy sizes also allow must not go before a loss that is sure), but no less than what was
    measured at the largest size, unless it is expected to become less."""
    costs = finding.evidence.scaling
    assert costs is not None  # all of these findings compare sizes
    measured = max(finding.saving_s - costs.deviation_s, 0.0)
    if costs.predicted is None:
        return measured
    return max(costs.predicted.low - costs.predicted.ideal, min(measured, costs.predicted.saving_s), 0.0)


def _sizes(table: CostTable, places: list[PlaceLoss], ideal: Ideal, noise: Noise) -> list[Size]:
    ranks, work_rows = table.ranks, ~table.setup
    sizes = np.unique(ranks)
    counts = noise.count(len(ranks))
    per_rank = {
        "work_s": table.work_s[work_rows].sum(axis=0) / ranks,
        "wait_s": table.caused_s[work_rows].sum(axis=0) / ranks,
        "transfer_s": table.transfer_s[work_rows].sum(axis=0) / ranks,
        "core_wait_s": table.core_wait_s.sum(axis=0) / ranks,
        "setup_s": table.cost_s[table.setup].sum(axis=0) / ranks,
        "seconds": table.cost_s[work_rows].sum(axis=0) / ranks,
        "job_s": np.array([run.seconds for run in table.runs]),
    }

    def median(values: FloatArray, size: float) -> float:
        runs = ranks == size
        return float(np.median(values[runs & counts if (runs & counts).any() else runs]))

    base = median(per_rank["seconds"], sizes[0])
    if not (counts & (ranks == sizes[0])).any():
        base = _predict_job(table, places, noise, float(sizes[0])).seconds
    return [
        Size(
            ranks=int(size),
            runs=int((ranks == size).sum()),
            ideal_s=float(ideal.seconds(base, sizes[0], size).reshape(-1)[0]),
            **{name: median(values, size) for name, values in per_rank.items()},
        )
        for size in sizes
    ]


def _predict_job(table: CostTable, places: list[PlaceLoss], noise: Noise, at: float) -> Prediction:
    """The sum of the predictions for places that matter, and of one for all the rest together."""
    total = table.cost_s[~table.setup].sum(axis=0) / table.ranks
    scale = float(total.max(initial=0.0))
    large = [
        place for place in places if place.fit is not None and float(place.seconds.max()) >= WORTH_A_FINDING * scale
    ]
    values = [place.fit.predict(at) for place in large if place.fit is not None]
    rest = np.maximum(total - np.sum([place.seconds for place in large], axis=0), 0.0)
    erratic = (table.cost_s - table.work_s)[~table.setup].sum(axis=0) / table.ranks
    erratic -= np.sum([place.seconds - place.work_s for place in large], axis=0)
    oversubscribed = np.array([run.oversubscribed for run in table.runs])
    error = np.hypot(FLOOR * total, NOISE_ON_SHARED_CORES * np.maximum(erratic, 0.0) * oversubscribed)
    without = np.flatnonzero(~noise.count(len(table.runs)))
    other = fit(table.ranks, rest, error, noise=noise.relative, noise_weight=noise.weight, without=without)
    assert other is not None
    values.append(other.predict(at))
    # The errors of places are independent: the distances to the ends of the ranges add up by squares.
    seconds = sum(value.seconds for value in values)
    down = math.hypot(*(value.seconds - value.low for value in values))
    up = math.hypot(*(value.high - value.seconds for value in values))
    return Prediction(seconds, max(0.0, seconds - down), seconds + up)


def _strange_shares(table: CostTable) -> list[float]:
    """Part of every run that lies where the reference has no place: it is of another program, or of other code."""
    seconds = np.where(table.setup[:, None], 0.0, table.cost_s)
    return (seconds[table.vertex < 0].sum(axis=0) / np.maximum(seconds.sum(axis=0), 1e-300)).tolist()


def _check_same_program(table: CostTable) -> None:
    """Raises ScalingError where a run has hardly a place in common with the reference."""
    shares = _strange_shares(table)
    if max(shares) > STRANGER:
        run, reference = table.runs[int(np.argmax(shares))], table.runs[table.reference]
        raise ScalingError(f"{run.name} and {reference.name} share hardly any code, so they are not of one program")


def _strangers(table: CostTable) -> list[str]:
    """Asks about runs most of which lies where the reference has no place."""
    return [
        advice.STRANGE.format(share=share, run=run.name, reference=table.runs[table.reference].name)
        for run, share in zip(table.runs, _strange_shares(table), strict=True)
        if share > STRANGE
    ]


def _warnings(table: CostTable, ideal: Ideal, noise: Noise, sizes: list[Size], at: int | None) -> list[str]:
    warnings = _strangers(table)
    if noise.disturbed is not None:
        run = table.runs[noise.disturbed.run]
        warnings.append(advice.DISTURBED.format(run=run.name, times=noise.disturbed.times, ranks=run.ranks))
    if np.isnan(ideal.exponent):
        warnings.append(advice.NO_SCALING)
    elif not ideal.certain:
        warnings.append(advice.ASSUMED.format(scaling=ideal.scaling, exponent=ideal.exponent))
    if at is not None and len(sizes) < SHOWS_THE_USUAL:
        warnings.append(advice.TWO_SIZES.format(at=at))
    if at is not None and at > 16 * sizes[-1].ranks:
        warnings.append(advice.FAR.format(at=at, times=at / sizes[-1].ranks))
    shares = {size.ranks: size.core_wait_s / max(size.seconds + size.core_wait_s, 1e-300) for size in sizes}
    oversubscribed = {ranks: share for ranks, share in shares.items() if share > CORES_SHARED}
    if oversubscribed:
        shown = ", ".join(f"{100 * share:.0f} % on {ranks}" for ranks, share in oversubscribed.items())
        warnings.append(advice.NO_CORE.format(shown=shown))
    outnumbered = sorted({run.ranks for run in table.runs if run.oversubscribed})
    if outnumbered and at is not None:
        warnings.append(advice.CROWDED.format(ranks=", ".join(map(str, outnumbered))))
    for run in table.runs:
        warnings += run.lacks
    return warnings
