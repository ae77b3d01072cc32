"""Scaling loss by place: what every place costs at every size, against ideal, and what it will cost at another size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.detectors.runs.costs import CostTable
from scalana.detectors.runs.scaling.disturbed import Disturbed, find_disturbed
from scalana.detectors.runs.scaling.ideal import Ideal
from scalana.detectors.runs.scaling.models import Fit, fit
from scalana.detectors.thresholds.certainty import ASSUMED_WEIGHT
from scalana.detectors.thresholds.differences import NOISE_OF_A_RUN, NOISE_ON_SHARED_CORES, UNEXPLAINED_NOISE
from scalana.detectors.thresholds.factors import FAR_MORE
from scalana.detectors.thresholds.shares import FLOOR, SHARE_OF_ITS_OWN, SLIGHT, WORTH_A_FINDING
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Noise:
    """How much runs of one size differ."""

    relative: float
    weight: float
    """Measurements that stand behind it."""
    repeated: bool
    """Whether it was seen in repeated runs; otherwise it is assumed."""
    disturbed: Disturbed | None = None
    """A run that counts for nothing, since all of it took longer than the other sizes let expect."""

    def count(self, runs: int) -> np.ndarray:
        """Which runs count ``[runs]``."""
        return np.arange(runs) != (self.disturbed.run if self.disturbed is not None else -1)


@dataclass(slots=True)
class PlaceLoss:
    """One place over all runs. Seconds are those of an average rank."""

    code_location: CodeLocation
    rows: list[int]
    """Rows of the cost table."""
    work_s: FloatArray
    """``[runs]``"""
    caused_s: FloatArray
    """Waiting that comes from here ``[runs]``."""
    transfer_s: FloatArray
    """``[runs]``"""
    error_s: FloatArray
    """Standard error known from repetitions within a run, and of what need not come again ``[runs]``."""
    matters: bool
    """Whether it costs enough, at more than one size, to ask how it grows."""
    smallest_s: float = 0.0
    """At the smallest size: the median of its runs, or by the model where none of them counts."""
    largest_s: float = 0.0
    """The same at the largest size."""
    ideal_s: float = 0.0
    """At the largest size."""
    deviation_s: float = 0.0
    """Standard deviation of ``largest_s - ideal_s``, by the noise of the runs."""
    fit: Fit | None = None
    """None where there are too few sizes, and of places that cost next to nothing."""

    @property
    def seconds(self) -> FloatArray:
        """Everything that the place costs ``[runs]``."""
        return np.asarray(self.work_s + self.caused_s + self.transfer_s)

    @property
    def loss_s(self) -> float:
        """Seconds of an average rank above ideal, at the largest size."""
        return self.largest_s - self.ideal_s


def noise_of(table: CostTable, disturbed: Disturbed | None = None) -> Noise:
    """Relative noise from repeated runs of one size: variances pooled over sizes, and over places weighted by work."""
    ranks = table.ranks
    count = Noise(NOISE_OF_A_RUN, ASSUMED_WEIGHT, False, disturbed).count(len(ranks))
    rows = np.flatnonzero((table.kind == TargetKind.OWN) & ~table.setup & (table.work_s.min(axis=1) > 0.0))
    variance, degrees = np.zeros(len(rows)), 0
    for size in np.unique(ranks):
        runs = np.flatnonzero((ranks == size) & count)
        if len(runs) > 1 and len(rows):
            logs = np.log(table.work_s[np.ix_(rows, runs)])
            variance += ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            degrees += len(runs) - 1
    if not degrees:
        return Noise(NOISE_OF_A_RUN, ASSUMED_WEIGHT, False, disturbed)
    work = table.work_s[rows].sum(axis=1)
    pooled = float(variance @ work) / max(float(work.sum()), 1e-300)
    weight = ASSUMED_WEIGHT + degrees
    return Noise(float(np.sqrt((ASSUMED_WEIGHT * NOISE_OF_A_RUN**2 + pooled) / weight)), weight, True, disturbed)


def place_losses(table: CostTable, ideal: Ideal, timeline: Timeline) -> tuple[list[PlaceLoss], Noise]:
    """Every place with its loss, largest first, and the noise; the start of the job is left out. ``timeline`` is
    that of the reference run."""
    psg = table.runs[table.reference].psg
    per_rank = table.cost_s / table.ranks
    loss = _median_at(per_rank, table.ranks, table.ranks.max()) - ideal.seconds(
        _median_at(per_rank, table.ranks, table.ranks.min()), table.ranks.min(), table.ranks.max()
    )
    groups = group_rows(table, loss, timeline, psg, by_caller=True)
    total = per_rank[~table.setup].sum(axis=0)
    places = [_place(table, code_location, rows, total) for code_location, rows in _of_lines(groups, loss, psg).items()]
    asked = [(place.seconds, place.error_s) for place in places if place.matters]
    noise = noise_of(table, find_disturbed(table.ranks, asked, NOISE_OF_A_RUN, ASSUMED_WEIGHT))
    for place in places:
        _judge(place, table, ideal, noise)
    return sorted(places, key=lambda place: -place.loss_s), noise


def _place(table: CostTable, code_location: CodeLocation, rows: list[int], total_s: FloatArray) -> PlaceLoss:
    """What a place costs in each run. ``total_s`` is what an average rank took."""
    ranks = table.ranks
    work, caused, transfer = (
        part[rows].sum(axis=0) / ranks for part in (table.work_s, table.caused_s, table.transfer_s)
    )
    error = np.sqrt((table.error_s[rows] ** 2).sum(axis=0)) / ranks
    oversubscribed = np.array([run.oversubscribed for run in table.runs])
    if code_location.kind is TargetKind.UNRESOLVED:
        error = np.hypot(error, np.where(oversubscribed, NOISE_ON_SHARED_CORES, UNEXPLAINED_NOISE) * caused)
    error = np.hypot(error, FLOOR * total_s)
    seconds = work + caused + transfer
    seen = len(np.unique(ranks[seconds > FAR_MORE * FLOOR * total_s]))  # one size alone says nothing about growth
    matters = bool(seconds.max() >= WORTH_A_FINDING * total_s.min() and seen >= 2)
    return PlaceLoss(code_location, rows, work, caused, transfer, error, matters)


def _judge(place: PlaceLoss, table: CostTable, ideal: Ideal, noise: Noise) -> None:
    """Fit a model to a place, and compare it with ideal."""
    ranks, seconds = table.ranks, place.seconds
    count = noise.count(len(ranks))
    if place.matters:
        oversubscribed = np.array([run.oversubscribed for run in table.runs])
        error = np.hypot(
            place.error_s, NOISE_ON_SHARED_CORES * place.transfer_s * oversubscribed
        )  # it happened, but need not go on so
        place.fit = fit(
            ranks, seconds, error, noise=noise.relative, noise_weight=noise.weight, without=np.flatnonzero(~count)
        )

    def at(size: float) -> tuple[float, float]:
        """Seconds on so many ranks, and their standard deviation."""
        runs = (ranks == size) & count
        if not runs.any():
            runs = ranks == size
            if place.fit is not None:
                expected = float(place.fit.model(size))
                return expected, _deviation(expected, place.error_s, runs, noise.relative)
        middle = float(np.median(seconds[runs]))
        return middle, _deviation(middle, place.error_s, runs, noise.relative)

    smallest, largest = float(ranks.min()), float(ranks.max())
    factor = float(ideal.seconds(1.0, smallest, largest).reshape(-1)[0])
    place.smallest_s, base_deviation = at(smallest)
    place.largest_s, top_deviation = at(largest)
    place.ideal_s = place.smallest_s * factor
    place.deviation_s = float(np.hypot(top_deviation, factor * base_deviation))


def _deviation(seconds: float, error: FloatArray, runs: np.ndarray, relative: float) -> float:
    return float(np.hypot(relative * seconds, error[runs].mean()) / np.sqrt(runs.sum()))


def _median_at(values: FloatArray, ranks: FloatArray, size: float) -> FloatArray:
    """Median over the runs of one size ``[rows]``."""
    return np.asarray(np.median(values[:, ranks == size], axis=1))


def group_rows(
    table: CostTable, loss: FloatArray, timeline: Timeline, psg: PSG, *, by_caller: bool = False
) -> dict[CodeLocation, list[int]]:
    """Rows by place: a line, or the loop or function around several lines that lose together.

    A line that is reached by several call paths is one place, but for the paths on which it loses nothing: a helper
    that scales where one caller uses it must not hide what another one loses in it. ``by_caller``: functions that each
    lose a large part of it in the same helper are told apart too.
    """
    leaves = {
        row: CodeLocation(TargetKind(int(table.kind[row])), int(table.vertex[row]), int(table.line[row]))
        for row in np.flatnonzero((table.vertex >= 0) & ~table.setup).tolist()
    }
    rows = [row for row, leaf in leaves.items() if leaf.kind is TargetKind.OWN and loss[row] > 0.0]
    named = named_places([leaves[row] for row in rows], [-1] * len(rows), loss[rows].tolist(), timeline, psg)
    place_of = dict(zip(rows, named, strict=True))
    losing = loss > SLIGHT * (table.cost_s / table.ranks).max(axis=1, initial=0.0)
    code_locations: dict[bool, dict[CodeLocation, list[int]]] = {True: defaultdict(list), False: defaultdict(list)}
    for row, leaf in leaves.items():
        place = place_of.get(row, leaf) if losing[row] else leaf
        code_locations[bool(losing[row])][place].append(row)
    caller = _callers(code_locations[True], loss, psg) if by_caller else {}
    result = _join_contexts(code_locations[True], psg, caller)
    for code_location, quiet in _join_contexts(code_locations[False], psg).items():
        place = code_location if code_location in result else _container(code_location, result, psg) or code_location
        result.setdefault(place, []).extend(quiet)
    return result


def _of_lines(groups: dict[CodeLocation, list[int]], loss: FloatArray, psg: PSG) -> dict[CodeLocation, list[int]]:
    """Rows by place, the work and the communication of one line together where both lose: it is named once, for what
    loses more."""
    lost = {code_location: float(loss[rows].sum()) for code_location, rows in groups.items()}
    result: dict[CodeLocation, list[int]] = {}
    main: dict[object, CodeLocation] = {}
    for code_location in sorted(groups, key=lambda code_location: -lost[code_location]):
        line = _key(code_location, psg)[1:3], _caller(code_location, psg)
        first = main.setdefault(line, code_location) if lost[code_location] > 0.0 else code_location
        together = {first.kind, code_location.kind} == {TargetKind.OWN, TargetKind.TRANSFER}
        result.setdefault(first if together else code_location, []).extend(groups[code_location])
    return result


def _container(code_location: CodeLocation, code_locations: Collection[CodeLocation], psg: PSG) -> CodeLocation | None:
    """The loop or function among ``code_locations`` that a line lies in, the innermost if there are several."""
    if code_location.kind is not TargetKind.OWN or code_location.line < 0:
        return None
    above = (code_location.vertex, *(vertex.index for vertex in psg.ancestors(code_location.vertex)))
    return next(
        (other for vertex in above if (other := CodeLocation(code_location.kind, vertex, -1)) in code_locations), None
    )


def _callers(code_locations: dict[CodeLocation, list[int]], loss: FloatArray, psg: PSG) -> dict[CodeLocation, str]:
    """The calling functions of code locations that each have a large part of what their place loses."""
    lost = {code_location: float(loss[rows].sum()) for code_location, rows in code_locations.items()}
    total: dict[object, float] = defaultdict(float)
    by_caller: dict[tuple[object, str], float] = defaultdict(float)
    caller = {code_location: _caller(code_location, psg) for code_location in code_locations}
    for code_location, seconds in lost.items():
        total[_key(code_location, psg)] += seconds
        by_caller[_key(code_location, psg), caller[code_location]] += seconds
    return {
        code_location: caller[code_location]
        for code_location in code_locations
        if by_caller[_key(code_location, psg), caller[code_location]]
        >= SHARE_OF_ITS_OWN * total[_key(code_location, psg)]
    }


def _caller(code_location: CodeLocation, psg: PSG) -> str:
    """The function that calls the one around a place, "" for none."""
    around = (code_location.vertex, *(vertex.index for vertex in psg.ancestors(code_location.vertex)))
    functions = [vertex for vertex in around if psg[vertex].kind is VertexKind.FUNCTION]
    return psg[functions[1]].place.name if len(functions) > 1 else ""


def _join_contexts(
    code_locations: dict[CodeLocation, list[int]], psg: PSG, caller: Mapping[CodeLocation, str] = MappingProxyType({})
) -> dict[CodeLocation, list[int]]:
    """Join rows of one place that is reached by several call paths, and lines with the container that they lie in.
    ``caller`` tells places apart that are the same otherwise."""
    inside: dict[CodeLocation, CodeLocation] = {}
    by_place: dict[object, CodeLocation] = {}
    for code_location in sorted(code_locations, key=lambda s: s.line >= 0):
        first = by_place.setdefault((_key(code_location, psg), caller.get(code_location)), code_location)
        around = _container(code_location, code_locations, psg)
        inside[code_location] = inside.get(around, around) if around is not None else first
    joined: dict[CodeLocation, list[int]] = defaultdict(list)
    for code_location, rows in code_locations.items():
        joined[inside[code_location]] += rows
    return dict(joined)


def _key(code_location: CodeLocation, psg: PSG) -> tuple[object, ...]:
    place = psg[code_location.vertex].place
    return (
        code_location.kind,
        place.file,
        code_location.line if code_location.line >= 0 else place.line,
        code_location.line >= 0,
    )


def targets_of(table: CostTable, rows: list[int], run: int) -> IntArray:
    """The targets of one run's blame table that lie in ``rows`` of the cost table."""
    keys = {(int(table.kind[row]), int(table.vertex[row]), int(table.line[row])) for row in rows}
    costs = table.runs[run]
    found = [
        target
        for target, key in enumerate(zip(costs.kind.tolist(), costs.vertex.tolist(), costs.line.tolist(), strict=True))
        if key in keys
    ]
    return np.array(found, dtype=np.int64)
