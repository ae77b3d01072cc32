"""Pipelines whose actions run on devices, far behind their hosts: modelled runs with exact times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.analysis import Analysis
from scalana.detectors.annotate.advice import GROWS
from scalana.detectors.pipeline.diagnosis.attribution import SHARES
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.run import analyze
from scalana.graphs.arrays.types import FloatArray
from scalana.runtime.record.format import LANE_STREAM, SPAN_TYPE
from tests.detectors.pipeline.examples import one_after_the_other, rows_of, uniform
from tests.graphs.runs import MS, build, make_ranks

RANKS, MICROBATCHES, STEPS = 2, 8, 6
LAUNCH_MS = 0.2
"""What a host takes for an action: it is done with a step long before its device is."""


@dataclass
class Job:
    """What the devices of a job take, and which of it was marked."""

    costs: FloatArray
    marked: dict[int, range | list[int]] | None = None
    """Steps, by rank; None for all."""
    late_ms: float = 0.0
    """So long rank 1 has nothing to do before each backward, as its host comes late with it."""
    gap_ms: float = 0.0
    """The same, but its host has launched the backward long before."""
    loss_ms: float = 0.0
    """The same, and what it does is the loss."""
    latency_s: float = 0.0
    layers: tuple[tuple[float, ...], ...] = ()
    """Of each stage, the part of its actions that each of its layers takes, as marked; the rest comes after them."""

    steps: int = STEPS
    long_ms: float = 0.0
    """Every third microbatch takes so much longer on stage 1, in each step as much more."""

    def _of_step(self, costs: FloatArray, step: int) -> FloatArray:
        spread = np.repeat(costs[:, :, None], MICROBATCHES, axis=2)
        spread[Kind.F, 1, ::3] += (step + 1) * self.long_ms * 1e-3
        return spread

    def write(self, folder: Path) -> None:
        """Write the records of its ranks."""
        folder.mkdir(parents=True)
        before_s = (self.late_ms + self.gap_ms + self.loss_ms) / 1e3
        costs = self.costs.copy()
        costs[Kind.B, 1] += before_s
        program = BY_NAME["1F1B"].program(RANKS, MICROBATCHES, 1)
        every = [self._of_step(costs, step) for step in range(self.steps)]
        one = [rows_of(program, of_step, "torch-1f1b", 1, self.latency_s) for of_step in every]
        rows = one_after_the_other(one, 0.05)
        for rank in make_ranks(folder, RANKS):
            writer, mine = rank.writer, rank.rank
            stream = writer.lane(LANE_STREAM, "stream 7", 0)
            path = rank.path("load" if mine else "step")
            for step in range(self.steps):
                of_step = np.flatnonzero(rows.step == step)
                begun = 2000.0 + rows.begin_s[of_step].min() * 1e3
                now = begun - 1.0
                entered = now
                order = of_step[rows.rank[of_step] == mine]
                for row in order[np.argsort(rows.begin_s[order])]:
                    kind, microbatch = Kind(int(rows.kind[row])).name, int(rows.microbatch[row])
                    begin = 2000.0 + rows.begin_s[row] * 1e3
                    waits = before_s * 1e3 if kind == "B" and mine == 1 else 0.0
                    end, begin = 2000.0 + rows.end_s[row] * 1e3, begin + waits
                    if self.late_ms and waits:
                        now = begin - 0.01
                    if not np.isnan(rows.wait_begin_s[row]):
                        told = {"stage": mine, "microbatch": microbatch}
                        self._span(writer, "wait", f"RECV_{kind}", now, 0.01, path, told, step)
                        now += 0.01
                    told = {"stage": mine, "microbatch": microbatch, "chunk": 0}
                    self._span(writer, "action", kind, now, LAUNCH_MS, path, told, step)
                    if self.loss_ms and kind == "F" and mine == 1:
                        self._span(writer, "action", "LOSS", now + LAUNCH_MS, 0.01, path, told, step)
                    if self.marked is None or step in self.marked[mine]:
                        queued = round((begin - now - 0.005) * MS)
                        told = {"kind": "action", "stage": mine, "microbatch": microbatch, "queued_ns": queued}
                        told["behind_ns"] = round((end - now - LAUNCH_MS) * MS)
                        self._span(writer, "device", kind, begin, end - begin, path, told, step, stream)
                        at = begin
                        for layer, part in enumerate(self.layers[mine] if self.layers else ()):
                            told = {"kind": "module", "stage": mine, "microbatch": microbatch, "action": kind}
                            told["queued_ns"] = told["behind_ns"] = round((at - now - 0.005) * MS)
                            self._span(writer, "device", f"{layer}", at, part * (end - begin), path, told, step, stream)
                            at += part * (end - begin)
                    now += LAUNCH_MS + 0.02
                told = {
                    "engine": "torch", "schedule": "1F1B", "stages": RANKS, "microbatches": MICROBATCHES, "held": 1,
                    "ranks": "0,1", "pipeline": 0, "number": step, "trains": 1, "infers": 0,
                }  # fmt: skip
                self._span(writer, "action", "RUN", entered, now - entered, path, told, step)
            rank.work("mask", 1000.0 + rows.end_s.max() * 1e3 + 100.0)
            rank.end()

    @staticmethod
    def _span(writer, kind, name, at_ms, length_ms, path, told, step, lane=0) -> None:
        writer.span(
            SPAN_TYPE[kind], name, round(at_ms * MS), round(length_ms * MS),
            path=path, step=step, attributes=told, **({"lane": lane} if lane else {}),
        )  # fmt: skip

    def analysed(self, folder: Path) -> Analysis:
        """What is said of it."""
        self.write(folder / "run")
        return analyze(build(folder / "run", command=["train.py"], ranks=RANKS))


def even() -> FloatArray:
    return uniform(RANKS, 10e-3, 20e-3, 0.0, 0.0)


def slow_stage() -> FloatArray:
    costs = even()
    costs[:, 1] *= 2
    return costs


def kinds(analysis: Analysis) -> list[str]:
    return [finding.kind for finding in analysis.findings]


def one_of(analysis: Analysis):
    (pipeline,) = analysis.sections["pipeline"]
    found = pipeline.diagnosis.attribution
    assert sum(found.shares[name] for name in SHARES) == pytest.approx(1.0)
    return pipeline, found


def test_a_stage_that_takes_twice_as_long_on_its_device_is_the_imbalance(tmp_path: Path) -> None:
    analysis = Job(slow_stage()).analysed(tmp_path)
    pipeline, found = one_of(analysis)
    assert pipeline.recorded.on_device
    # Fill and drain through stage 0, and stage 1 all the time.
    assert found.step_s == pytest.approx(30e-3 + 8 * 60e-3, rel=1e-3)
    assert abs(found.replay_error) < 0.02
    assert found.shares["compute"] == pytest.approx(8 * 45 / 510, rel=1e-3)
    assert found.shares["imbalance"] == pytest.approx((510 - 9 * 45) / 510, abs=0.01)
    assert found.shares["host"] == 0.0 and abs(found.shares["unexplained"]) < 0.02
    assert [stage.load for stage in found.stages] == pytest.approx([2 / 3, 4 / 3], rel=1e-3)
    assert kinds(analysis)[:1] == ["pipeline-imbalance"]
    finding = analysis.findings[0]
    assert finding.ranks == [1] and finding.where.stage == 1 and "pipeline-host" not in kinds(analysis)
    assert finding.function == "load"  # where rank 1 launches its actions, and rank 0 does not
    # The first step is none of them.
    assert finding.lost_s == pytest.approx(found.seconds["imbalance"] * RANKS * (STEPS - 1))
    equal = next(one for one in pipeline.diagnosis.predictions if one.change == "equal-load")
    assert equal.step_s == pytest.approx(9 * 45e-3, rel=0.02)


def test_steps_that_do_not_follow_each_other_are_all_looked_at(tmp_path: Path) -> None:
    some = [0, 1, 2, 4]
    pipeline, found = one_of(Job(slow_stage(), {0: some, 1: [*some, 5]}).analysed(tmp_path))
    assert len(pipeline.diagnosis.measured.steps) == 3 and pipeline.recorded.steps == STEPS - 1
    assert found.step_s == pytest.approx(510e-3, rel=1e-3) and abs(found.replay_error) < 0.02
    assert any("3 of 5 steps" in note for note in pipeline.diagnosis.measured.notes)


def test_messages_that_devices_wait_for_are_the_links(tmp_path: Path) -> None:
    pipeline, found = one_of(Job(even(), latency_s=5e-3).analysed(tmp_path))
    assert abs(found.replay_error) < 0.02 and found.shares["host"] == 0.0
    assert found.shares["link"] == pytest.approx(1 - 270e-3 / found.step_s, abs=0.02)


def test_a_pipeline_that_is_marked_on_no_common_step_is_that_of_its_hosts(tmp_path: Path) -> None:
    analysis = Job(slow_stage(), {0: [1, 2], 1: [3, 4]}).analysed(tmp_path)
    pipeline, found = one_of(analysis)
    assert not pipeline.recorded.on_device
    assert any("launch times of the hosts" in note for note in pipeline.diagnosis.measured.notes)
    assert found.shares["host"] == 0.0 and found.shares["unexplained"] > 0.5
    assert not [kind for kind in kinds(analysis) if kind.startswith("pipeline-")]
    assert not pipeline.diagnosis.predictions


def test_a_device_that_waits_for_its_host_is_the_hosts(tmp_path: Path) -> None:
    analysis = Job(even(), late_ms=15.0).analysed(tmp_path)
    pipeline, found = one_of(analysis)
    assert abs(found.replay_error) < 0.02
    assert found.shares["host"] * found.step_s == pytest.approx(8 * 15e-3, rel=0.1)
    assert "pipeline-host" in kinds(analysis)
    finding = next(one for one in analysis.findings if one.kind == "pipeline-host")
    assert finding.ranks == [1]


def test_a_gap_that_nothing_tells_of_is_unexplained(tmp_path: Path) -> None:
    analysis = Job(even(), gap_ms=15.0).analysed(tmp_path)
    _, found = one_of(analysis)
    assert found.shares["host"] == 0.0
    assert found.shares["unexplained"] * found.step_s == pytest.approx(8 * 15e-3, rel=0.1)
    assert not [kind for kind in kinds(analysis) if kind.startswith("pipeline-")]


def test_the_loss_is_part_of_the_forward_before_it(tmp_path: Path) -> None:
    _, found = one_of(Job(even(), loss_ms=15.0).analysed(tmp_path))
    assert abs(found.replay_error) < 0.02 and found.shares["host"] == 0.0
    assert found.stages[1].forward_s == pytest.approx(25e-3, rel=1e-3)
    assert found.stages[0].forward_s == pytest.approx(10e-3, rel=1e-3)


def test_layers_have_the_times_of_their_devices_and_what_is_none_is_said(tmp_path: Path) -> None:
    parts = (0.5, 0.5), (0.25, 0.25, 0.25)
    pipeline, found = one_of(Job(slow_stage(), layers=parts).analysed(tmp_path))
    layers = pipeline.recorded.layers
    assert layers.names == tuple("01012") and layers.cut.tolist() == [0, 2, 5]
    assert layers.cost_s[Kind.F] == pytest.approx([5e-3, 5e-3, 5e-3, 5e-3, 5e-3], rel=1e-3)
    assert layers.cost_s[Kind.B] == pytest.approx([10e-3, 10e-3, 10e-3, 10e-3, 10e-3], rel=1e-3)
    # What comes after the layers of stage 1 counts as if it were part of them.
    scaled = pipeline.diagnosis.layers
    assert scaled.cost_s.sum(axis=0) == pytest.approx([15e-3, 15e-3, 20e-3, 20e-3, 20e-3], rel=1e-3)
    assert scaled.share == pytest.approx([1.0, 0.75], rel=1e-3)
    assert any("stage 1 75%" in note and "stage 0" not in note for note in pipeline.diagnosis.measured.notes)
    split = next(one for one in pipeline.diagnosis.predictions if one.change == "repartition")
    assert split.cut == (0, 3, 5)  # 50 ms and 40 ms a microbatch
    assert 8 * 50e-3 < split.step_s < 9 * 50e-3 < found.step_s == pytest.approx(510e-3, rel=0.01)


def test_layers_that_make_up_their_stages_leave_nothing_to_say(tmp_path: Path) -> None:
    pipeline, _ = one_of(Job(slow_stage(), layers=((0.5, 0.5), (0.5, 0.25, 0.25))).analysed(tmp_path))
    assert pipeline.diagnosis.layers.share == pytest.approx([1.0, 1.0], rel=1e-3)
    assert not any("layers" in note for note in pipeline.diagnosis.measured.notes)


@pytest.mark.parametrize("marked", [None, {rank: [step for step in range(46) if step % 2] for rank in range(RANKS)}])
def test_a_straggler_that_grows_from_step_to_step_is_told_so(
    marked: dict[int, range | list[int]] | None, tmp_path: Path
) -> None:
    steps = 46
    analysis = Job(even(), marked, steps=steps, long_ms=1.0).analysed(tmp_path)
    (finding,) = [one for one in analysis.findings if one.kind == "pipeline-straggler"]
    told = finding.evidence.as_dict()["over_steps"]
    seen = steps - 1 if marked is None else steps // 2  # without the first
    assert (finding.ranks, told["shape"], told["cost"], told["of"]) == ([1], "line", "work", seen)
    # Three microbatches of a step, by 1 ms more in each.
    assert told["per_step_s"] == pytest.approx(3e-3, rel=0.1) and told["last_step"] == steps - 1
    assert told["so_far_s"] == pytest.approx(3e-3 * steps * (steps + 1) / 2, rel=0.1)
    assert ("stands_for" in told) == (marked is not None) and GROWS in finding.advice
    steady = Job(slow_stage(), marked, steps=steps).analysed(tmp_path / "steady")
    assert not any("over_steps" in one.evidence.as_dict() for one in steady.findings)
