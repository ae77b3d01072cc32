"""Functions of statistics that numpy lacks, for arrays: the normal distribution and the incomplete gamma function."""

from __future__ import annotations

import math

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.types import FloatArray

_TERMS = 2000
_EXACT = 1e-14


@compiled
def _normal_cdf(values: FloatArray) -> FloatArray:
    result = np.empty(len(values))
    for number in range(len(values)):
        result[number] = 0.5 * math.erfc(-values[number] / math.sqrt(2.0))
    return result


@compiled
def _gamma_cdf(shape: float, values: FloatArray) -> FloatArray:
    """The regularised lower incomplete gamma function: a series below the mean, a continued fraction (Lentz) above."""
    result = np.zeros(len(values))
    for number in range(len(values)):
        x = values[number]
        if x <= 0.0:
            continue
        scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
        if x < shape + 1.0:
            term = 1.0 / shape
            total = term
            for n in range(1, _TERMS):
                term *= x / (shape + n)
                total += term
                if term < total * _EXACT:
                    break
            result[number] = total * scale
            continue
        b = x + 1.0 - shape
        c, d = 1e300, 1.0 / b
        h = d
        for n in range(1, _TERMS):
            a = -n * (n - shape)
            b += 2.0
            d = 1.0 / (a * d + b)
            c = b + a / c
            h *= d * c
            if abs(d * c - 1.0) < _EXACT:
                break
        result[number] = 1.0 - h * scale
    return result


def normal_cdf(values: FloatArray) -> FloatArray:
    """Of the standard normal distribution ``[values]``.

    >>> normal_cdf(np.array([0.0, 1.96])).round(3).tolist()
    [0.5, 0.975]
    """
    return np.asarray(_normal_cdf(np.ascontiguousarray(values, np.float64)))


def gamma_cdf(shape: float, values: FloatArray) -> FloatArray:
    """Of the gamma distribution with scale 1 ``[values]``.

    >>> gamma_cdf(1.0, np.array([1.0])).round(6).tolist()
    [0.632121]
    """
    return np.asarray(_gamma_cdf(float(shape), np.ascontiguousarray(values, np.float64)))


def normal_quantile(parts: FloatArray) -> FloatArray:
    """Where the standard normal distribution reaches some parts of one, by Newton's method from a logistic guess
    ``[parts]``.

    >>> normal_quantile(np.array([0.5, 0.975])).round(3).tolist()
    [0.0, 1.96]
    """
    parts = np.clip(parts, 1e-15, 1.0 - 1e-15)
    found = np.log(parts / (1.0 - parts)) / 1.702
    found = np.clip(found, -8.0, 8.0)
    for _ in range(60):
        density = np.exp(-0.5 * found**2) / math.sqrt(2.0 * math.pi)
        step = (normal_cdf(found) - parts) / np.maximum(density, 1e-300)
        found = found - np.clip(step, -0.5, 0.5)
        if np.abs(step).max(initial=0.0) < 1e-12:
            break
    return np.asarray(found)
