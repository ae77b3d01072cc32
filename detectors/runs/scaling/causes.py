"""From places that lose to findings: what kind of loss it is, on which ranks, and the way from the symptom to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import CpuSplit, Evidence, ScalingForecast, SizeCosts
from scalana.detectors.finding import Finding, Hop
from scalana.detectors.kinds import SCALING_KINDS
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.candidates import Candidate
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.rollup.paths import path_to
from scalana.detectors.runs.advice import SHARE_WAITING
from scalana.detectors.runs.costs import CostTable
from scalana.detectors.runs.scaling.ideal import STRONG, Ideal
from scalana.detectors.runs.scaling.loss import PlaceLoss, targets_of
from scalana.detectors.thresholds.differences import FLAT
from scalana.detectors.thresholds.shares import MINOR, NOTABLE
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.runtime.operations import BY_CODE

_ADVICE = {kind.name: kind.advice for kind in SCALING_KINDS}


def finding_of(
    place: PlaceLoss, table: CostTable, analysis: Analysis, ideal: Ideal, all_losses_s: float, at: int | None
) -> Finding:
    """The finding for one place. ``analysis`` is that of the reference run, ``all_losses_s`` the loss of all places,
    seconds of an average rank; ``at`` a number of ranks for which to predict."""
    psg = analysis.ppg.psg
    code_location, place_of = place.code_location, psg[place.code_location.vertex].place
    targets = targets_of(table, place.rows, table.reference)
    work, caused = _by_rank(targets, analysis)
    caused *= place.caused_s[table.reference] * len(caused) / max(float(caused.sum()), 1e-300)  # without turns on cores
    ranks = float(table.ranks.max())
    kind, by_waiting = _kind(place, table, ideal, work), _loses_by_waiting(place, table)
    line, end_line = code_location.lines(place_of)
    evidence = Evidence(scaling=_size_costs(place, table, ideal, at))
    if place.code_location.kind is TargetKind.OWN:
        leaf = leaf_below(code_location, _seconds(targets, analysis), analysis.ppg.timeline, psg)
        evidence = replace(evidence, cpu=CpuSplit(_cpu_share(targets, analysis)), leaf=leaf)
    finding = Finding(
        kind=kind,
        vertex=code_location.vertex,
        file=place_of.file,
        line=line,
        end_line=max(end_line, line),
        function=psg.function_of(code_location.vertex),
        vertex_kind=psg[code_location.vertex].kind.value,
        ranks=_ranks(kind, work, caused if by_waiting else np.zeros(0), int(ranks)),
        lost_s=place.loss_s * ranks,
        lost_share=place.loss_s / all_losses_s if all_losses_s > 0.0 else 0.0,
        saving_s=place.loss_s,
        evidence=replace(evidence, callers=callers(code_location.vertex, psg)),
        advice=SHARE_WAITING if kind == "non-scalable" and by_waiting else _ADVICE[kind],
    )
    first = finding.ranks[0] if finding.ranks else -1
    root = Hop(first, finding.file, line, finding.function, finding.vertex_kind, "", 0.0)
    if kind == "communication":
        code = psg[code_location.vertex].operation
        root = replace(root, operation=BY_CODE[code].name if code in BY_CODE and code else "")
    entries = np.flatnonzero(np.isin(analysis.blame.target, targets)).tolist()
    if caused.sum() < NOTABLE * (caused.sum() + work.sum()) or kind == "communication":
        entries = []  # nobody waits for it: there is no way from a symptom
    rows = np.array(entries, dtype=np.int64)
    candidate = Candidate(analysis.blamed, code_location, rows, float(caused.sum()), finding.ranks)
    path = path_to(candidate, root) if entries else [root]
    return replace(finding, path=path)


def _kind(place: PlaceLoss, table: CostTable, ideal: Ideal, work: FloatArray) -> str:
    """What the loss is: late ranks that are not resolved, communication by itself, one rank's work, everybody's."""
    if place.code_location.kind is TargetKind.UNRESOLVED:
        return "unresolved"
    if place.code_location.kind is TargetKind.TRANSFER:
        return "communication"
    busiest = float(work.max(initial=0.0))
    if len(work) > 1 and (work.sum() - busiest) / (len(work) - 1) < MINOR * busiest:
        return "serial"
    divided = abs(_power(table.ranks, place.work_s)) >= FLAT
    if ideal.scaling == STRONG and not divided and not _loses_by_waiting(place, table):
        return "replicated"
    return "non-scalable"


def _loses_by_waiting(place: PlaceLoss, table: CostTable) -> bool:
    """Whether it loses at the largest size by what it makes others wait, more than by what it takes itself."""
    largest = table.ranks == table.ranks.max()
    return float(np.median(place.caused_s[largest])) > 0.5 * place.loss_s


def _power(ranks: FloatArray, seconds: FloatArray) -> float:
    """Slope in log-log between the smallest and the largest size."""
    first, last = (float(np.median(seconds[ranks == size])) for size in (ranks.min(), ranks.max()))
    if first <= 0.0 or last <= 0.0:
        return float("inf")
    return float(np.log(last / first) / np.log(ranks.max() / ranks.min()))


def _ranks(kind: str, work: FloatArray, caused: FloatArray, ranks: int) -> list[int]:
    """The ranks that it is about: those that cause the waiting, where that is what is lost, else those that work."""
    if kind == "communication":
        return list(range(ranks))
    if kind == "serial":
        return [int(np.argmax(work))]
    amount = caused if caused.any() else work
    return np.flatnonzero(amount >= NOTABLE * max(float(amount.max(initial=0.0)), 1e-300)).tolist()


def _by_rank(targets: IntArray, analysis: Analysis) -> tuple[FloatArray, FloatArray]:
    """Own work in some targets, and waiting that they cause, by rank ``[ranks]``."""
    timeline, table = analysis.ppg.timeline, analysis.blame
    rank = timeline.locations.rank
    hit = table.numbering.activity_mask(targets)[timeline.own.activity]
    own = timeline.own
    work = weighted_count(
        rank[burst_locations(timeline)[own.burst[hit]]], (own.seconds - own.core_wait_s)[hit], timeline.ranks
    )
    hit = np.isin(table.target, targets)
    caused = weighted_count(rank[table.location[hit]], table.seconds[hit], timeline.ranks)
    return work, caused


def _seconds(targets: IntArray, analysis: Analysis) -> list[tuple[int, float]]:
    """The activities among some targets, with the seconds of each."""
    own, activities = analysis.ppg.timeline.own, targets[targets < analysis.blame.numbering.activities]
    seconds = weighted_count(own.activity, own.seconds, analysis.blame.numbering.activities)
    return list(zip(activities.tolist(), seconds[activities].tolist(), strict=True))


def _cpu_share(targets: IntArray, analysis: Analysis) -> float:
    """Part of the work in some targets that is spent on a CPU, or ready to."""
    own = analysis.ppg.timeline.own
    hit = analysis.blame.numbering.activity_mask(targets)[own.activity]
    seconds, busy_s = float(own.seconds[hit].sum()), float((own.cpu_s + own.core_wait_s)[hit].sum())
    return busy_s / seconds if seconds > 0.0 else 1.0


def _size_costs(place: PlaceLoss, table: CostTable, ideal: Ideal, at: int | None) -> SizeCosts:
    """The numbers behind the finding. Seconds are those of an average rank, by size."""
    ranks = table.ranks
    sizes = np.unique(ranks)

    def by_size(values: FloatArray) -> list[float]:
        return [float(np.median(values[ranks == size])) for size in sizes]

    costs = SizeCosts(
        sizes=[int(size) for size in sizes],
        seconds=by_size(place.seconds),
        ideal=ideal.seconds(np.full(len(sizes), place.smallest_s), float(sizes[0]), sizes).tolist(),
        work=by_size(place.work_s),
        waiting_caused=by_size(place.caused_s),
        transfer=by_size(place.transfer_s),
        deviation_s=place.deviation_s,
    )
    if place.fit is None:
        return costs
    return replace(
        costs,
        model=str(place.fit.model),
        growth=place.fit.model.growth,
        confidence=place.fit.confidence,
        left_out=[table.runs[run].name for run in place.fit.outliers] or None,
        predicted=predicted(place, ideal, float(sizes[0]), at) if at is not None else None,
    )


def predicted(place: PlaceLoss, ideal: Ideal, smallest: float, at: int) -> ScalingForecast:
    """What the place will cost on ``at`` ranks: seconds of an average rank, and rank-seconds lost, with a range."""
    assert place.fit is not None
    expected = place.fit.predict(at)
    base = float(place.fit.model(smallest))
    best = float(ideal.seconds(base, smallest, at).reshape(-1)[0])
    return ScalingForecast(
        ranks=at,
        seconds=expected.seconds,
        low=expected.low,
        high=expected.high,
        ideal=best,
        saving_s=expected.seconds - best,
        lost_s=(expected.seconds - best) * at,
    )
