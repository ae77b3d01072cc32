"""Rounds of marked steps as they would be without marks.

A host that records marks takes longer for what lies between its launches: where kernels are short, a marked step takes
up to three times as long as others. Other steps say what a step takes. A mark then costs as much as makes the replay of
marked steps without their marks take as long as these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.detectors.whatif.device_rounds import Parts, Round
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.steps import Steps


def unmarked_step_s(steps: Steps, marked: IntArray) -> float | None:
    """What a step of the steady state takes on average that is not among those with these numbers, nor the first after
    one of these, in which devices catch up with what their hosts did late; None where there is none. Where hosts launch
    steps ahead, only all of them together say what one takes."""
    start_s, end_s = steps.on_all_ranks()
    takes_s = np.diff(np.concatenate((start_s, end_s[-1:])), axis=0).mean(axis=1)
    usual = ~np.isin(steps.number, marked) & ~np.isin(steps.number - 1, marked)
    usual |= steps.ahead
    usual[: steps.warm_up] = False
    usual &= np.isfinite(takes_s)
    return float(takes_s[usual].mean()) if usual.any() else None


def without_marks(rounds: Sequence[Round], step_s: float | None) -> list[Round]:
    """Rounds without what marks cost; ``step_s`` is what a step takes without marks, None where that is not known. None
    are left where other steps take less for another reason: marked ones then say nothing of them."""
    cost_s = mark_cost_s(rounds, step_s) if step_s is not None else 0.0
    if cost_s is None:
        return []
    return [_without(one, _removed_s(one, cost_s)) for one in rounds] if cost_s > 0.0 else list(rounds)


def mark_cost_s(rounds: Sequence[Round], step_s: float) -> float | None:
    """What a mark costs a host, if a step takes so long without any; None where marks do not explain what marked steps
    take longer."""
    steps = sum(one.steps for one in rounds)

    def takes_s(cost_s: float) -> float:
        return sum(one.moments.changed_round_s(_removed_s(one, cost_s)) for one in rounds) / steps

    low_s, high_s = 0.0, max((_most_s(one) for one in rounds), default=0.0)
    most_s, least_s = takes_s(low_s), takes_s(high_s)
    enough_s = max(step_s, least_s) + SAME_TIME_S
    if least_s > (1.0 + ORDINARY) * step_s:
        return None
    if most_s <= enough_s:
        return 0.0
    while most_s - least_s > SAME_TIME_S:
        middle_s = 0.5 * (low_s + high_s)
        middle_takes_s = takes_s(middle_s)
        if middle_takes_s <= enough_s:
            high_s, least_s = middle_s, middle_takes_s
        else:
            low_s, most_s = middle_s, middle_takes_s
    return high_s


def _most_s(of: Round) -> float:
    """What a mark costs at most: all of the time in which it was recorded."""
    some = of.marks > 0
    return float((of.moments.links.seconds[some] / of.marks[some]).max(initial=0.0))


def _removed_s(of: Round, cost_s: float) -> FloatArray:
    """Seconds that go from each link without its marks ``[links]``."""
    return np.asarray(np.clip(cost_s * of.marks, 0.0, np.maximum(of.moments.links.seconds, 0.0)))


def _without(of: Round, removed_s: FloatArray) -> Round:
    """A round without some seconds of what hosts do between their launches ``[links]``."""
    seconds = of.moments.links.seconds
    left = np.append(1.0 - removed_s / np.maximum(seconds, 1e-300), 1.0)
    moments = of.moments.shortened(removed_s)
    idle_s = np.maximum(of.idle_s - (of.moments.round_s - moments.round_s), 0.0)
    share = np.ones(len(of.begin_s))
    ranks = np.unique(of.host.rank)
    if len(ranks) == len(idle_s):
        share[ranks] = idle_s / np.maximum(of.idle_s, 1e-300)
    return replace(
        of,
        moments=moments,
        host=_scaled(of.host, left[of.host.link]),
        launches=_scaled(of.launches, left[of.launches.link]),
        idle=_scaled(of.idle, share[of.idle.rank]),
        idle_s=idle_s,
    )


def _scaled(parts: Parts, by: FloatArray) -> Parts:
    return replace(parts, seconds=parts.seconds * by)
