"""Findings of a pipeline: the place of a culprit, what it costs, and what would change it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, PipelineTime
from scalana.detectors.finding import Finding, Hop, Series, Where
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.pipeline import advice
from scalana.detectors.pipeline.diagnosis.culprit_places import Place, Places, between, windows_of
from scalana.detectors.pipeline.diagnosis.culprits import Culprit
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis
from scalana.detectors.pipeline.diagnosis.engine_flags import in_words_of
from scalana.detectors.pipeline.diagnosis.replicas import Awaited
from scalana.detectors.pipeline.measured.recorded import Recorded
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.factors import COSTLY_LAYER
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.graphs.arrays.types import FloatArray, IntArray

KIND_OF = {"data": "host"}
"""The kind of finding of a cause, where it is not its own."""


class FindingMaker:
    """Makes findings of one pipeline."""

    def __init__(self, recorded: Recorded, diagnosis: Diagnosis, places: Places, wait_s: float) -> None:
        self.recorded, self.diagnosis, self.places, self.wait_s = recorded, diagnosis, places, wait_s
        measured = diagnosis.measured
        rows = recorded.rows
        origin = float(rows.begin_s[np.isin(rows.step, measured.steps)].min() - measured.begin_s.min())
        self.begin_s = measured.begin_s + origin
        self.end_s = self.begin_s + measured.duration_s
        if recorded.on_device:  # places are those of hosts
            order = np.lexsort((rows.begin_s, rows.step, rows.rank))
            order = order[np.isin(rows.step[order], measured.steps)]
            self.begin_s, self.end_s = recorded.hosts_s[order].T
        self.steps = recorded.steps
        if recorded.on_device:  # hosts hardly wait there
            found = diagnosis.attribution
            self.wait_s = (found.step_s - found.seconds["compute"]) * self.steps * len(recorded.ranks)

    def of_culprit(self, culprit: Culprit) -> Verdict:
        """A cause with a culprit."""
        ranks = [self.recorded.ranks[rank] for rank in culprit.ranks]
        kind = KIND_OF.get(culprit.cause, culprit.cause)
        finding = self._finding(kind, ranks, self._place(culprit), culprit.lost_s, self._time(culprit))
        finding = replace(finding, saving_s=culprit.saving_s * self.steps, series=self._series(culprit))
        finding = replace(finding, advice=self._advice(culprit, finding))
        if culprit.stages:
            stage = culprit.stages[0]
            where = Where(stage=stage, module=self.module(stage))
            finding = replace(finding, where=where, path=self._path(culprit, finding))
        steps = self._steps_of(culprit.ranks[0])
        if culprit.cause == "data" and len(steps):
            loads = np.flatnonzero(self._loading(culprit.ranks[0]) > 0)
            return Verdict(finding, Extent(tuple(ranks), loads, windows_s=np.array([[steps[0, 0], steps[-1, 1]]])))
        return Verdict(finding, Extent(tuple(ranks), windows_s=steps))

    def _time(self, culprit: Culprit) -> PipelineTime:
        """What is known of a culprit, with the stage and the ranks of the job."""
        time = replace(culprit.evidence, stage=culprit.stages[0]) if culprit.stages else culprit.evidence
        if time.links is None:
            return time
        links = [[self.recorded.ranks[end] for end in pair] for pair in time.links]
        return replace(time, links=links, link=" and ".join(advice.LINK.format(*ends) for ends in links))

    def _series(self, culprit: Culprit) -> Series | None:
        """What a culprit costs in each step, where that is known."""
        if culprit.by_step is None:
            return None
        number = self.diagnosis.measured.steps
        number = self.recorded.numbers[number] if self.recorded.on_device else number
        stands_for = np.full(len(number), self.steps / len(number) if self.recorded.on_device else 1.0)
        return Series("work", number, culprit.by_step, stands_for)

    def schedule(self) -> list[Verdict]:
        """What another schedule would bring at no more memory; none where it brings little."""
        diagnosis, found = self.diagnosis, self.diagnosis.attribution
        saving, other = diagnosis.avoidable
        if (
            other is None
            or saving < WORTH_IF_ONCE * found.step_s
            or found.seconds["schedule"] < WORTH_IF_ONCE * found.step_s
        ):
            return []
        time = PipelineTime(
            idle_s=found.seconds["schedule"], step_s=found.step_s, other=other.text, other_s=found.step_s - saving
        )
        finding = self._finding("schedule", [], None, saving, time)
        words = in_words_of(self.recorded.engine, other, diagnosis.layers)
        said = advice.RUN_INSTEAD.format(other=other.text) + (f": {words}." if words else ".")
        if other.program is not None and (other.program.kind == Kind.W).any() and not diagnosis.splits_backward:
            said += advice.SPLITS_BACKWARD
        nobody = Extent((), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return [Verdict(replace(finding, saving_s=saving * self.steps, advice=said), nobody)]

    def replica(self, awaited: Awaited, other: FindingMaker) -> Verdict:
        """A whole pipeline that takes longer than its replicas, one of which is ``other``."""
        program = self.diagnosis.measured.program
        stages = awaited.stages or tuple(range(program.stages))
        holders = [int(program.rank_of_stage[stage]) for stage in stages]
        ranks = [self.recorded.ranks[holder] for holder in holders]
        here, usual = (
            one._work(one.diagnosis.measured.program.stage == stages[0]) / len(one.diagnosis.measured.steps)
            for one in (self, other)
        )
        place = None if self.recorded.on_device else self.places.more(ranks[0], here, usual)
        time = PipelineTime(here_s=awaited.here_s, others_s=awaited.others_s)
        finding = self._finding("replica", ranks, place, awaited.lost_s / len(self.recorded.ranks), time)
        where = Where(stage=stages[0], module=self.module(stages[0]))
        finding = replace(finding, saving_s=awaited.saving_s * self.steps, where=where)
        return Verdict(finding, Extent(tuple(ranks), windows_s=self._steps_of(holders[0])))

    def worker(
        self, ranks: list[int], stage: int, other: FindingMaker, time: PipelineTime, costs: tuple[float, float]
    ) -> Verdict:
        """Workers that take longer than those of the same stage in other replicas, one of which is ``other``.

        ``costs`` are rank-seconds that are lost in the run, and seconds that it would be shorter.
        """
        here, usual = (
            one._work(one.diagnosis.measured.program.stage == stage) / len(one.diagnosis.measured.steps)
            for one in (self, other)
        )
        place = None if self.recorded.on_device else self.places.more(ranks[0], here, usual)
        finding = self._finding("replica", ranks, place, 0.0, time)
        finding = replace(finding, saving_s=costs[1], where=Where(stage=stage, module=self.module(stage)))
        finding = replace(finding, advice=advice.SLOW_WORKER)
        holder = int(self.diagnosis.measured.program.rank_of_stage[stage])
        extent = Extent(tuple(ranks), windows_s=self._steps_of(holder))
        return Verdict(self.shared(replace(finding, lost_s=costs[0])), extent)

    def lengths(self, ranks: list[int], time: PipelineTime, costs: tuple[float, float]) -> Verdict:
        """Microbatches of unequal length; ``costs`` as in :meth:`worker`."""
        finding = self._finding("lengths", ranks, None, 0.0, time)
        finding = replace(finding, lost_s=costs[0], saving_s=costs[1], advice=BY_NAME[finding.kind].advice)
        finding = self.shared(finding)
        nobody = Extent((), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Verdict(finding, nobody)

    def shared(self, finding: Finding) -> Finding:
        """A finding with the share of all waiting that it costs."""
        return replace(finding, lost_share=min(finding.lost_s / self.wait_s, 1.0) if self.wait_s > 0 else 0.0)

    def _finding(self, cause: str, ranks: list[int], place: Place | None, lost_s: float, time: PipelineTime) -> Finding:
        psg, steps = self.places.blamed.psg, self.steps
        kind = f"pipeline-{cause}"
        lost = lost_s * steps * len(self.recorded.ranks)
        code_location, evidence = CodeLocation(TargetKind.OWN, self.recorded.vertex_of(ranks), -1), Evidence()
        if place is not None:
            candidate, leaf = place
            code_location = candidate.code_location
            evidence = replace(Evidence(callers=callers(code_location.vertex, psg)), leaf=leaf)
        return replace(
            finding_at(code_location, ranks, lost, psg, kind),
            lost_share=min(lost / self.wait_s, 1.0) if self.wait_s > 0 else 0.0,
            evidence=replace(evidence, pipeline=time),
        )

    # ---- places ----

    def _place(self, culprit: Culprit) -> Place | None:
        look = {"imbalance": self._of_stage, "straggler": self._of_long, "host": self._of_host, "data": self._of_data}
        if self.recorded.on_device and culprit.stages:  # where a host is long says nothing of its device
            return None
        return look[culprit.cause](culprit) if culprit.cause in look else None

    def _of_stage(self, culprit: Culprit) -> Place | None:
        """What a stage does for a microbatch that others do less."""
        program = self.diagnosis.measured.program
        of_stage = np.stack([self._work(program.stage == stage) for stage in range(program.stages)])
        stage = culprit.stages[0]
        others = np.delete(of_stage, [s for s in culprit.stages if s != stage], axis=0)
        others = np.delete(of_stage, list(culprit.stages), axis=0) if len(culprit.stages) < program.stages else others
        rank = self.recorded.ranks[int(program.rank_of_stage[stage])]
        return self.places.more(rank, of_stage[stage], others.mean(axis=0))

    def _of_long(self, culprit: Culprit) -> Place | None:
        """What a rank does in long actions that it does not in its usual ones."""
        assert culprit.actions is not None
        program = self.diagnosis.measured.program
        rank = culprit.ranks[0]
        long = culprit.actions & (program.rank == rank)
        usual = ~culprit.actions & (program.rank == rank)
        per = [self._work(chosen) / max(int(chosen.sum()), 1) for chosen in (long, usual)]
        return self.places.more(self.recorded.ranks[rank], *per)

    def _of_host(self, culprit: Culprit) -> Place | None:
        """What a rank does between its actions that others do less."""
        of_rank = []
        for rank in range(len(self.recorded.ranks)):
            inner = between(
                self._actions(np.asarray(self.diagnosis.measured.program.rank == rank)), self._steps_of(rank)
            )
            of_rank.append(self.places.work_in({self.recorded.ranks[rank]: inner}))
        return self._more_than_others(culprit, np.stack(of_rank))

    def _of_data(self, culprit: Culprit) -> Place | None:
        """What a rank does while it waits for data that others do less."""
        return self._more_than_others(culprit, np.stack([self._loading(r) for r in range(len(self.recorded.ranks))]))

    def _loading(self, rank: int) -> FloatArray:
        """What a rank does while it waits for data, between its steps where that is not known ``[activities]``."""
        if self.recorded.loading_s:
            windows = self.recorded.loading_s[rank]
        else:
            steps = self._steps_of(rank)
            windows = np.stack([steps[:-1, 1], steps[1:, 0]], axis=1)
        return self.places.work_in({self.recorded.ranks[rank]: windows})

    def _more_than_others(self, culprit: Culprit, of_rank: FloatArray) -> Place | None:
        others = np.delete(of_rank, list(culprit.ranks), axis=0)
        usual = others.mean(axis=0) if len(others) else np.zeros(of_rank.shape[1])
        return self.places.more(self.recorded.ranks[culprit.ranks[0]], of_rank[culprit.ranks[0]], usual)

    def _actions(self, chosen: np.ndarray) -> FloatArray:
        return windows_of(self.begin_s, self.end_s, chosen)

    def _work(self, chosen: np.ndarray) -> FloatArray:
        """Seconds of activities in some actions ``[activities]``."""
        program = self.diagnosis.measured.program
        windows = {
            self.recorded.ranks[rank]: self._actions(chosen & (program.rank == rank))
            for rank in np.unique(program.rank[chosen]).tolist()
        }
        return self.places.work_in(windows)

    def _steps_of(self, rank: int) -> FloatArray:
        """When a rank was in the steps that were looked at ``[steps, 2]``."""
        rows = self.recorded.windows_s[:, rank]
        rows = rows[~np.isnan(rows).any(axis=1)]
        mine = self.diagnosis.measured.program.rank == rank
        begin, end = self.begin_s[mine].min(), self.end_s[mine].max()
        return np.asarray(rows[(rows[:, 1] >= begin) & (rows[:, 0] <= end)])

    # ---- words ----

    def module(self, stage: int) -> str:
        """The layer of a stage that costs more than layers usually do, or its first and last; "" if none is known."""
        layers = self.diagnosis.layers
        if layers is None:
            return ""
        cost = layers.cost_s.sum(axis=0)
        first, end = int(layers.cut[stage]), int(layers.cut[stage + 1])
        heaviest = first + int(cost[first:end].argmax())
        if end - first == 1 or cost[heaviest] >= COSTLY_LAYER * float(np.median(cost)):
            return layers.names[heaviest]
        return f"{layers.names[first]} to {layers.names[end - 1]}"

    def _path(self, culprit: Culprit, finding: Finding) -> list[Hop]:
        """From the rank that waits most for the stage to the stage."""
        waiting: FloatArray = self.diagnosis.attribution.roots.waiting_s[:, list(culprit.stages)].sum(axis=1)
        waiting = np.where(np.isin(np.arange(len(waiting)), culprit.ranks), 0.0, waiting)
        steps = self.steps / len(self.diagnosis.measured.steps)
        worst: IntArray = np.flatnonzero(waiting > 0.1 * waiting.max())
        rank = self.recorded.ranks[int(waiting.argmax())]
        psg, vertex = self.places.blamed.psg, self.recorded.vertex_of([rank])
        hops = []
        if vertex >= 0 and len(worst):
            place = psg[vertex].place
            total = float(waiting.sum()) * steps
            function = psg.function_of(vertex)
            hops.append(Hop(rank, place.file, place.line, function, psg[vertex].kind.value, "recv", total, len(worst)))
        last = Hop(finding.ranks[0], finding.file, finding.line, finding.function, finding.vertex_kind, "", 0.0)
        return [*hops, last]

    def _advice(self, culprit: Culprit, finding: Finding) -> str:
        cures = {one.change: one for one in self.diagnosis.predictions}
        if culprit.cause == "imbalance" and culprit.evidence.split is not None:
            words = in_words_of(self.recorded.engine, cures["repartition"], self.diagnosis.layers)
            return advice.SPLIT_LAYERS.format(split=culprit.evidence.split) + (f": {words}." if words else ".")
        if culprit.cause == "imbalance" and culprit.evidence.wall is not None:
            return advice.TOO_LARGE.format(wall=culprit.evidence.wall)
        if culprit.cause == "link" and culprit.evidence.links is None:
            return advice.ALL_LINKS
        if culprit.cause == "data":
            return advice.LOAD_AHEAD
        return BY_NAME[finding.kind].advice
