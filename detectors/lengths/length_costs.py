"""What sequences cost, fitted from the run itself: ``base + a * (sum of L) + b * (sum of L^2)`` of a rank in a step.

The second term is attention, the first everything else that is done for each token. Where all ranks always have equal
tokens, the first cannot be separated from the base: all of the base is then taken to be for tokens, as in transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from scalana.detectors.thresholds.certainty import DECISIVE, OUTLYING
from scalana.detectors.thresholds.factors import SAME_SIZE
from scalana.detectors.thresholds.shares import MAJORITY, MINOR, TOO_SMALL
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.steps.steps import spread_of


@dataclass(frozen=True, slots=True)
class LengthCost:
    """Seconds of a rank in a step."""

    base_s: float
    token_s: float
    """For each token."""
    square_s: float
    """For each square of a length."""
    explained: float
    """Part of the variance that it explains (R^2)."""
    evidence: float
    """By how much its criterion is below that of no cost of lengths at all."""
    assumed: bool = False
    """Whether the cost of a token is not fitted, but the base divided by the tokens."""

    @property
    def is_certain(self) -> bool:
        """Whether lengths explain most of how the seconds differ, and not by chance."""
        return self.explained >= MAJORITY and self.evidence >= DECISIVE

    def seconds(self, tokens: FloatArray, squares: FloatArray) -> FloatArray:
        """What some sequences cost beyond the base."""
        return np.asarray(self.token_s * tokens + self.square_s * squares)


def fitted(seconds: FloatArray, tokens: FloatArray, squares: FloatArray) -> LengthCost | None:
    """Fit the cost to what ranks took in steps, by least squares over those that are no outliers; each ``[samples]``.

    Of the models whose costs are above 0, and whose base is not below it, the one with the best criterion of Schwarz
    (1978). None where no model has such costs.
    """
    best = _best(seconds, tokens, squares)
    if best is None:
        return None
    rest = seconds - best.base_s - best.seconds(tokens, squares)
    equal = float(tokens.std()) <= (SAME_SIZE - 1.0) * float(tokens.mean())
    far = np.abs(rest - np.median(rest)) > OUTLYING * max(spread_of(rest), TOO_SMALL * float(np.abs(seconds).mean()))
    best = (_best(seconds[~far], tokens[~far], squares[~far]) or best) if far.any() else best
    if not equal or best.token_s > 0.0 or best.base_s <= 0.0:
        return best
    return replace(best, base_s=0.0, token_s=best.base_s / float(tokens.mean()), assumed=True)


def _best(seconds: FloatArray, tokens: FloatArray, squares: FloatArray) -> LengthCost | None:
    size, centred = len(seconds), seconds - seconds.mean()
    whole = float((centred**2).sum())
    means = np.maximum([tokens.mean(), squares.mean()], 1e-300)
    columns = np.stack((tokens / means[0], squares / means[1]), axis=1) - 1.0
    varied = np.flatnonzero(columns.std(axis=0) > TOO_SMALL).tolist()
    found: list[tuple[float, LengthCost]] = []
    for chosen in (*combinations(varied, 1), *combinations(varied, 2)):
        at = list(chosen)
        cost = np.zeros(2)
        cost[at] = np.linalg.lstsq(columns[:, at], centred, rcond=None)[0]
        base_s = float(seconds.mean() - cost.sum())
        if (cost[at] <= 0.0).any() or base_s < -MINOR * float(seconds.mean()):
            continue  # nothing takes less than no time: what is a little longer does not take twice as long for that
        rest = float(((centred - columns @ cost) ** 2).sum())
        criterion = size * float(np.log(max(rest, 1e-300) / size)) + len(at) * float(np.log(size))
        token_s, square_s = (cost / means).tolist()
        none = size * float(np.log(max(whole, 1e-300) / size))
        explained = 1.0 - rest / max(whole, 1e-300)
        found.append((criterion, LengthCost(base_s, token_s, square_s, explained, none - criterion)))
    return min(found, key=lambda each: each[0])[1] if found else None


def explained_by_ranks(seconds: FloatArray, here: BoolArray) -> float:
    """Part of the variance that is explained if some ranks take longer, whatever they compute; each ``[samples]``."""
    whole = float(((seconds - seconds.mean()) ** 2).sum())
    rest = sum(float(((part - part.mean()) ** 2).sum()) for part in (seconds[here], seconds[~here]) if len(part))
    return 1.0 - rest / max(whole, 1e-300)
