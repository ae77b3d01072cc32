"""Replicas of a pipeline that others wait for, where gradients are reduced over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.pipeline.diagnosis.attribution import Attribution
from scalana.detectors.pipeline.measured.recorded import Recorded
from scalana.detectors.thresholds.shares import MAJORITY, WORTH_IF_ONCE
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True)
class Awaited:
    """One pipeline that others wait for."""

    pipeline: int
    """Place in the list of pipelines."""
    waiting: tuple[int, ...]
    """Places of those that wait for it."""
    lost_s: float
    """Rank-seconds of their waiting in a step."""
    here_s: float
    """Seconds of a step of it without reducing gradients."""
    others_s: float
    """The same of the slowest one that waits."""
    stages: tuple[int, ...]
    """Stages that take longer than in those that wait, the worst first."""

    @property
    def saving_s(self) -> float:
        """Seconds of a step that it would be shorter if it were as fast as the others."""
        return max(self.here_s - self.others_s, 0.0)


def find_awaited(
    pipelines: Sequence[tuple[Recorded, Attribution]], timeline: Timeline, waits: WaitStates
) -> list[Awaited]:
    """Pipelines that others wait for in reducing gradients, for a part of a step that is worth it."""
    lost_s = _waiting(pipelines, timeline, waits)
    step_s = np.array([found.step_s for _, found in pipelines])
    ranks = np.array([len(recorded.ranks) for recorded, _ in pipelines])
    alone_s = step_s - np.array([found.seconds["gradients"] for _, found in pipelines])
    total = lost_s.sum(axis=1)
    waits_for = [
        int(lost_s[p].argmax())
        if total[p] >= WORTH_IF_ONCE * step_s[p] * ranks[p] and lost_s[p].max() >= MAJORITY * total[p]
        else -1
        for p in range(len(pipelines))
    ]
    found = []
    for q in sorted(set(waits_for) - {-1}):
        waiting = [p for p, awaited in enumerate(waits_for) if awaited == q]
        others_s = float(alone_s[waiting].max())
        if alone_s[q] - others_s < WORTH_IF_ONCE * step_s[q]:
            continue
        lost = float(lost_s[waiting, q].sum())
        stages = _heavy([pipelines[p][1] for p in waiting], pipelines[q][1])
        found.append(Awaited(q, tuple(waiting), lost, float(alone_s[q]), others_s, stages))
    return found


def _waiting(pipelines: Sequence[tuple[Recorded, Attribution]], timeline: Timeline, waits: WaitStates) -> FloatArray:
    """Rank-seconds in a step that each pipeline waits for the ranks of each other ``[pipelines, pipelines]``."""
    of_rank = np.full(timeline.ranks + 1, -1, np.int64)
    for q, (recorded, _) in enumerate(pipelines):
        of_rank[list(recorded.ranks)] = q
    lost_s = np.zeros((len(pipelines), len(pipelines)))
    for p, (recorded, _) in enumerate(pipelines):
        calls = recorded.reductions
        culprit = waits.culprit[calls]
        rank = np.where(culprit >= 0, timeline.locations.rank[timeline.calls.location[culprit]], timeline.ranks)
        known = of_rank[rank] >= 0
        np.add.at(lost_s[p], of_rank[rank][known], waits.wait_s[calls][known])
        lost_s[p] /= max(len(np.unique(recorded.rows.step)), 1)
    np.fill_diagonal(lost_s, 0.0)
    return lost_s


def _heavy(waiting: list[Attribution], awaited: Attribution) -> tuple[int, ...]:
    """The stages of one pipeline that take longer than the same ones of others."""
    here = np.array([s.forward_s + s.backward_s + s.weight_s for s in awaited.stages])
    others = np.array([[s.forward_s + s.backward_s + s.weight_s for s in one.stages] for one in waiting]).mean(axis=0)
    if len(here) != len(others) or (here <= others).all():
        return ()
    more = here - others
    return tuple(int(s) for s in np.argsort(-more, kind="stable") if more[s] >= MAJORITY * more.max())
