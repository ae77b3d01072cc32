"""Cutting layers into stages: contiguous parts of about the same cost.

A cut is the first layer of every stage and the number of layers ``[stages + 1]``; every stage has at least one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


def even_cut(layers: int, stages: int) -> IntArray:
    """The same number of layers everywhere, the first stages one more where it does not come out even."""
    sizes = np.full(stages, layers // stages)
    sizes[: layers % stages] += 1
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def smallest_maximum(cost: FloatArray, stages: int) -> tuple[IntArray, float]:
    """The cut whose most expensive stage is cheapest, and what that costs: exact, O(layers^2 x stages).

    Among cuts with that maximum, the one with the least sum of squares.

    Raises:
        ValueError: with fewer layers than stages.
    """
    layers = len(cost)
    if layers < stages:
        raise ValueError(f"{layers} layers cannot be cut into {stages} stages")
    upto = np.concatenate([[0.0], np.cumsum(cost)])
    best = np.full((stages + 1, layers + 1), np.inf)
    best[0, 0] = 0.0
    for s in range(1, stages + 1):
        for end in range(s, layers - stages + s + 1):
            best[s, end] = np.maximum(best[s - 1, :end], upto[end] - upto[:end]).min()
    bound = float(best[stages, layers])
    squares = np.full((stages + 1, layers + 1), np.inf)
    squares[0, 0] = 0.0
    chosen = np.zeros((stages + 1, layers + 1), np.int64)
    for s in range(1, stages + 1):
        for end in range(s, layers - stages + s + 1):
            part = upto[end] - upto[:end]
            value = np.where(part <= bound * (1 + 1e-12), squares[s - 1, :end] + part**2, np.inf)
            chosen[s, end] = int(value.argmin())
            squares[s, end] = value[chosen[s, end]]
    cut = [layers]
    for s in range(stages, 0, -1):
        cut.append(int(chosen[s, cut[-1]]))
    return np.array(cut[::-1], np.int64), bound


def stage_costs(layer_costs: FloatArray, cut: IntArray) -> FloatArray:
    """Costs of stages ``[4, stages]`` from those of layers ``[4, layers]``."""
    return np.add.reduceat(layer_costs, cut[:-1], axis=1)


def every_cut(layers: int, stages: int) -> Iterator[IntArray]:
    """All cuts there are."""
    for inner in combinations(range(1, layers), stages - 1):
        yield np.array([0, *inner, layers], np.int64)


def cuts(layers: int, stages: int) -> int:
    """How many cuts there are."""
    return comb(layers - 1, stages - 1)


def neighbours(cut: IntArray) -> Iterator[IntArray]:
    """Cuts that differ by one layer moved: to a neighbouring stage, or from any stage to any other through those
    between."""
    count = len(cut) - 1
    sizes = np.diff(cut)
    for source in range(count):
        if sizes[source] < 2:
            continue
        for target in range(count):
            if target != source:
                moved = sizes.copy()
                moved[source] -= 1
                moved[target] += 1
                yield np.concatenate([[0], np.cumsum(moved)]).astype(np.int64)


def descend(start: IntArray, value: Callable[[IntArray], float], tries: int = 2000) -> tuple[IntArray, float]:
    """The best cut that is reached by moving one layer at a time as long as that helps, and its value."""
    best, least = start, value(start)
    improved = True
    while improved and tries > 0:
        improved = False
        for cut in neighbours(best):
            tries -= 1
            at = value(cut)
            if at < least * (1 - 1e-9):
                best, least, improved = cut, at, True
                break
            if tries <= 0:
                break
    return best, least
