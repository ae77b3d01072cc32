"""Whether a difference is beyond noise: decided here, by an effect and its standard error.

Whoever asks says how certain it must be (:mod:`~scalana.detectors.thresholds.certainty`), and what is too little
whatever the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.thresholds.limits import BLOCKS
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray

Amount = FloatArray | float


def beyond_noise(effect: Amount, error: Amount, certainty: float, least: Amount = 0.0) -> BoolArray:
    """Whether effects are larger than so many of their standard errors, and than what is too little anyhow; an error
    that is not known is none."""
    return np.asarray(effect > np.fmax(least, certainty * np.asarray(error)))


@dataclass(frozen=True, slots=True)
class Means:
    """Means of what repeats, by group."""

    number: IntArray
    """Repetitions ``[groups]``."""
    mean: FloatArray
    """``[groups]``"""
    error: FloatArray
    """Standard error of the mean, 0 where nothing repeats ``[groups]``."""


def means_of(group: IntArray, values: FloatArray) -> Means:
    """Means by group, as the repetitions show them; both ``[repetitions]``."""
    number = np.bincount(group)
    mean = weighted_count(group, values, len(number)) / np.maximum(number, 1)
    squares = weighted_count(group, (values - mean[group]) ** 2, len(number))
    return Means(number, mean, np.sqrt(squares / np.maximum(number * (number - 1), 1)))


def error_of_sums(target: IntArray, location: IntArray, seconds: FloatArray, targets: int) -> FloatArray:
    """Standard error of the sums of seconds by target, from their repetitions ``[targets]``.

    Rows are in the order of time where target and location are the same. The repetitions on a location are divided into
    up to :data:`BLOCKS` successive blocks, whose means vary by noise, and by slow changes of the machine, which
    single repetitions would not show.
    """
    if not len(target):
        return np.zeros(targets)
    group = target.astype(np.int64) * (int(location.max()) + 1) + location
    order = np.argsort(group, kind="stable")
    group, seconds = group[order], seconds[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    count = np.diff(np.append(starts, len(group)))
    number = np.repeat(np.arange(len(starts)), count)
    ordinal = np.arange(len(group)) - starts[number]
    blocks = np.minimum(count, BLOCKS)
    block = ordinal * blocks[number] // count[number]
    key = number * BLOCKS + block
    total = np.bincount(key, weights=seconds, minlength=len(starts) * BLOCKS).reshape(-1, BLOCKS)
    length = np.bincount(key, minlength=len(starts) * BLOCKS).reshape(-1, BLOCKS)
    mean = np.where(length > 0, total / np.maximum(length, 1), 0.0)
    centre = mean.sum(axis=1) / blocks
    spread = np.where(length > 0, (mean - centre[:, None]) ** 2, 0.0).sum(axis=1) / np.maximum(blocks - 1, 1)
    variance = np.where(blocks > 1, count.astype(np.float64) ** 2 * spread / blocks, 0.0)
    return np.sqrt(np.bincount(target[order][starts], weights=variance, minlength=targets))
