"""Scaling loss by place: what every place costs at every size, against ideal, and what it will cost at another size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.candidates import Container, Spot, containers, promote, spots_of_lines
from scalana.detectors.runs.costs import CostTable
from scalana.detectors.runs.scaling.disturbed import Disturbed, find_disturbed
from scalana.detectors.runs.scaling.ideal import Ideal
from scalana.detectors.runs.scaling.models import NOISE, NOISE_WEIGHT, Fit, fit
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.psg import PSG, VertexKind

ERRATIC = 0.3
"""Relative noise of lateness that the samples do not explain: what is not understood need not come again."""
CROWDED = 0.5
"""The same where ranks outnumber cores; there also of what communication takes, for the question of how it grows."""
FLOOR = 0.002
"""Part of an average rank's seconds that any place may be off by: nothing is the same to the microsecond."""
APART = 0.25
"""Part of what a helper loses that one of its callers must lose in it to be told apart from the others."""
SEEN = 2.0
"""Times the floor from which something was seen of a place at a size."""
WORTH = 0.01
"""Part of an average rank's seconds below which nothing is worth a finding or a model."""
LOSES = 0.05
"""Part of what a line costs on one call path, from which it loses there."""


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

    spot: Spot
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
    count = Noise(NOISE, NOISE_WEIGHT, False, disturbed).count(len(ranks))
    rows = np.flatnonzero((table.kind == TargetKind.OWN) & ~table.setup & (table.work_s.min(axis=1) > 0.0))
    variance, degrees = np.zeros(len(rows)), 0
    for size in np.unique(ranks):
        runs = np.flatnonzero((ranks == size) & count)
        if len(runs) > 1 and len(rows):
            logs = np.log(table.work_s[np.ix_(rows, runs)])
            variance += ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
            degrees += len(runs) - 1
    if not degrees:
        return Noise(NOISE, NOISE_WEIGHT, False, disturbed)
    work = table.work_s[rows].sum(axis=1)
    pooled = float(variance @ work) / max(float(work.sum()), 1e-300)
    weight = NOISE_WEIGHT + degrees
    return Noise(float(np.sqrt((NOISE_WEIGHT * NOISE**2 + pooled) / weight)), weight, True, disturbed)


def place_losses(table: CostTable, ideal: Ideal) -> tuple[list[PlaceLoss], Noise]:
    """Every place with its loss, largest first, and the noise; the start of the job is left out."""
    psg = table.runs[table.reference].psg
    per_rank = table.cost_s / table.ranks
    loss = _median_at(per_rank, table.ranks, table.ranks.max()) - ideal.seconds(
        _median_at(per_rank, table.ranks, table.ranks.min()), table.ranks.min(), table.ranks.max()
    )
    groups = group_rows(table, loss, psg, by_caller=True)
    total = per_rank[~table.setup].sum(axis=0)
    places = [_place(table, spot, rows, total) for spot, rows in groups.items()]
    asked = [(place.seconds, place.error_s) for place in places if place.matters]
    noise = noise_of(table, find_disturbed(table.ranks, asked, NOISE, NOISE_WEIGHT))
    for place in places:
        _judge(place, table, ideal, noise)
    return sorted(places, key=lambda place: -place.loss_s), noise


def _place(table: CostTable, spot: Spot, rows: list[int], total_s: FloatArray) -> PlaceLoss:
    """What a place costs in each run. ``total_s`` is what an average rank took."""
    ranks = table.ranks
    work, caused, transfer = (
        part[rows].sum(axis=0) / ranks for part in (table.work_s, table.caused_s, table.transfer_s)
    )
    error = np.sqrt((table.error_s[rows] ** 2).sum(axis=0)) / ranks
    oversubscribed = np.array([run.oversubscribed for run in table.runs])
    if spot.kind is TargetKind.UNRESOLVED:
        error = np.hypot(error, np.where(oversubscribed, CROWDED, ERRATIC) * caused)
    error = np.hypot(error, FLOOR * total_s)
    seconds = work + caused + transfer
    seen = len(np.unique(ranks[seconds > SEEN * FLOOR * total_s]))  # one size alone says nothing about growth
    matters = bool(seconds.max() >= WORTH * total_s.min() and seen >= 2)
    return PlaceLoss(spot, rows, work, caused, transfer, error, matters)


def _judge(place: PlaceLoss, table: CostTable, ideal: Ideal, noise: Noise) -> None:
    """Fit a model to a place, and compare it with ideal."""
    ranks, seconds = table.ranks, place.seconds
    count = noise.count(len(ranks))
    if place.matters:
        oversubscribed = np.array([run.oversubscribed for run in table.runs])
        error = np.hypot(
            place.error_s, CROWDED * place.transfer_s * oversubscribed
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


def group_rows(table: CostTable, loss: FloatArray, psg: PSG, *, by_caller: bool = False) -> dict[Spot, list[int]]:
    """Rows by place: a line, or the loop or function around several lines that lose together.

    A line that is reached by several call paths is one place, but for the paths on which it loses nothing: a helper
    that scales where one caller uses it must not hide what another one loses in it. ``by_caller``: functions that each
    lose a large part of it in the same helper are told apart too.
    """
    leaves: dict[int, Spot] = {}
    chains: dict[int, list[Container]] = {}
    within: dict[tuple[int, int], dict[Spot, float]] = defaultdict(lambda: defaultdict(float))
    per_rank = (table.cost_s / table.ranks).max(axis=1, initial=0.0)
    losing = loss > LOSES * per_rank
    for row in np.flatnonzero((table.vertex >= 0) & ~table.setup).tolist():
        vertex = int(table.vertex[row])
        leaf = leaves[row] = Spot(TargetKind(int(table.kind[row])), vertex, int(table.line[row]))
        if leaf.kind is TargetKind.OWN:
            if vertex not in chains:
                chains[vertex] = list(containers(vertex, psg))
            for container in chains[vertex]:
                within[0, container.vertex][leaf] += max(float(loss[row]), 0.0)
    of_line = spots_of_lines(within)
    spots: dict[bool, dict[Spot, list[int]]] = {True: defaultdict(list), False: defaultdict(list)}
    for row, leaf in leaves.items():
        promoted = leaf.kind is TargetKind.OWN and losing[row]
        spot = promote(leaf, 0, chains[leaf.vertex], within, of_line, psg) if promoted else leaf
        spots[bool(losing[row])][spot].append(row)
    caller = _callers(spots[True], loss, psg) if by_caller else {}
    result = _join_contexts(spots[True], psg, caller)
    for spot, rows in _join_contexts(spots[False], psg).items():
        place = spot if spot in result else _container(spot, result, psg) or spot
        result.setdefault(place, []).extend(rows)
    return result


def _container(spot: Spot, spots: Collection[Spot], psg: PSG) -> Spot | None:
    """The loop or function among ``spots`` that a line lies in, the innermost if there are several."""
    if spot.kind is not TargetKind.OWN or spot.line < 0:
        return None
    above = (spot.vertex, *(vertex.index for vertex in psg.ancestors(spot.vertex)))
    return next((other for vertex in above if (other := Spot(spot.kind, vertex, -1)) in spots), None)


def _callers(spots: dict[Spot, list[int]], loss: FloatArray, psg: PSG) -> dict[Spot, str]:
    """The calling functions of spots that each have a large part of what their place loses."""
    lost = {spot: float(loss[rows].sum()) for spot, rows in spots.items()}
    total: dict[object, float] = defaultdict(float)
    by_caller: dict[tuple[object, str], float] = defaultdict(float)
    caller = {spot: _caller(spot, psg) for spot in spots}
    for spot, seconds in lost.items():
        total[_key(spot, psg)] += seconds
        by_caller[_key(spot, psg), caller[spot]] += seconds
    return {
        spot: caller[spot]
        for spot in spots
        if by_caller[_key(spot, psg), caller[spot]] >= APART * total[_key(spot, psg)]
    }


def _caller(spot: Spot, psg: PSG) -> str:
    """The function that calls the one around a place, "" for none."""
    around = (spot.vertex, *(vertex.index for vertex in psg.ancestors(spot.vertex)))
    functions = [vertex for vertex in around if psg[vertex].kind is VertexKind.FUNCTION]
    return psg[functions[1]].place.name if len(functions) > 1 else ""


def _join_contexts(
    spots: dict[Spot, list[int]], psg: PSG, caller: Mapping[Spot, str] = MappingProxyType({})
) -> dict[Spot, list[int]]:
    """Join rows of one place that is reached by several call paths, and lines with the container that they lie in.
    ``caller`` tells places apart that are the same otherwise."""
    inside: dict[Spot, Spot] = {}
    by_place: dict[object, Spot] = {}
    for spot in sorted(spots, key=lambda s: s.line >= 0):
        first = by_place.setdefault((_key(spot, psg), caller.get(spot)), spot)
        around = _container(spot, spots, psg)
        inside[spot] = inside.get(around, around) if around is not None else first
    joined: dict[Spot, list[int]] = defaultdict(list)
    for spot, rows in spots.items():
        joined[inside[spot]] += rows
    return dict(joined)


def _key(spot: Spot, psg: PSG) -> object:
    place = psg[spot.vertex].place
    return spot.kind, place.file, spot.line if spot.line >= 0 else place.line, spot.line >= 0


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
