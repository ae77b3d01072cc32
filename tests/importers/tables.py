"""Small tables of operations with a known cause, as a pipeline with one forward and one backward at a time has them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

STUDY = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "mb_id")
"""Columns of the straggler study of ByteDance."""


def even(replica: int, stage: int, step: int, microbatch: int) -> float:
    """How many times as long as usual an action takes."""
    del replica, stage, step, microbatch
    return 1.0


@dataclass(frozen=True)
class Row:
    """One operation; seconds."""

    rank: int
    replica: int
    stage: int
    step: int
    kind: str
    begin_s: float
    duration_s: float
    microbatch: int = -1
    sequence: int = 0


@dataclass(frozen=True)
class Job:
    """A job of some replicas of a pipeline: 1F1B, gradients over replicas, their norm over all ranks, an optimizer."""

    replicas: int = 2
    stages: int = 3
    microbatches: int = 4
    steps: int = 4
    times: Callable[[int, int, int, int], float] = even
    forward_s: float = 0.02
    reduce_s: float = 0.005
    optimizer_s: float = 0.003
    tensor_parallel: int = 1
    """So many ranks hold a stage of a replica, of which the table has the first."""

    def rank(self, replica: int, stage: int) -> int:
        """The rank of a worker: replicas of a stage are neighbours."""
        return (stage * self.replicas + replica) * self.tensor_parallel

    def order(self, stage: int) -> list[tuple[str, int]]:
        """Actions of a stage in a step: forward, and backwards in turn (Narayanan et al., SC 2021)."""
        ahead = min(self.stages - 1 - stage, self.microbatches)
        forwards = [("forward-compute", m) for m in range(self.microbatches)]
        backwards = [("backward-compute", m) for m in range(self.microbatches)]
        found = forwards[:ahead]
        for forward, backward in zip(forwards[ahead:], backwards, strict=False):
            found += [forward, backward]
        return found + backwards[self.microbatches - ahead :]

    def rows(self) -> list[Row]:
        """All operations."""
        now_s, found = 0.0, []
        for step in range(self.steps):
            rows, ends = [], {}
            for replica in range(self.replicas):
                part = self._actions(replica, step, now_s)
                rows += part
                for stage in range(self.stages):
                    ends[replica, stage] = max(r.begin_s + r.duration_s for r in part if r.stage == stage)
            last = dict(ends)
            for replica, stage in last:
                all_there = max(last[other, stage] for other in range(self.replicas)) + self.reduce_s
                begin_s = last[replica, stage]
                rows.append(self._row(replica, stage, step, "grads-reduce-scatter", begin_s, all_there - begin_s))
                ends[replica, stage] = all_there
            met_s = max(ends.values())
            for (replica, stage), end_s in ends.items():
                rows.append(self._row(replica, stage, step, "optimizer-clip-main-grad", end_s, met_s - end_s))
                rows.append(self._row(replica, stage, step, "optimizer", met_s, self.optimizer_s))
            now_s = met_s + self.optimizer_s
            found += rows
        return found

    def _row(self, replica: int, stage: int, step: int, kind: str, begin_s: float, duration_s: float,
             microbatch: int = -1) -> Row:  # fmt: skip
        return Row(self.rank(replica, stage), replica, stage, step, kind, begin_s, duration_s, microbatch)

    def _actions(self, replica: int, step: int, now_s: float) -> list[Row]:
        """Actions of a replica in a step, each as soon as its rank and its input are there; and its receives."""
        free, done, rows = [now_s] * self.stages, {}, []
        left = [self.order(stage) for stage in range(self.stages)]
        while any(left):
            for stage in range(self.stages):
                while left[stage]:
                    kind, m = left[stage][0]
                    forward = kind == "forward-compute"
                    before = stage - 1 if forward else stage + 1
                    need = (kind, before, m) if 0 <= before < self.stages else None
                    if need is not None and need not in done:
                        break
                    came_s = done[need] if need is not None else free[stage]
                    begin_s = max(free[stage], came_s)
                    if need is not None:
                        name = "forward-recv" if forward else "backward-recv"
                        rows.append(self._row(replica, stage, step, name, free[stage], begin_s - free[stage]))
                    length_s = self.forward_s * (1 if forward else 2) * self.times(replica, stage, step, m)
                    rows.append(self._row(replica, stage, step, kind, begin_s, length_s, m))
                    free[stage] = done[kind, stage, m] = begin_s + length_s
                    left[stage].pop(0)
        return rows


def study_text(rows: Sequence[Row], order: Sequence[str] = STUDY) -> str:
    """A CSV with the columns of the straggler study, in some order."""
    cells = [
        {
            "dp_rank": row.replica, "stage": row.stage, "rank": row.rank, "step": row.step, "optype": row.kind,
            "start_ts": row.begin_s, "duration": row.duration_s, "seq_id": row.sequence, "mc": 0,
            "mb_id": row.microbatch,
        }
        for row in rows
    ]  # fmt: skip
    return text_of(cells, order)


def text_of(cells: Sequence[dict[str, object]], order: Sequence[str]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, order)
    writer.writeheader()
    writer.writerows(cells)
    return out.getvalue()
