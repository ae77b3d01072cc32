"""The pipeline engine of DeepSpeed, where ``make pipeline`` has put it (or ``SCALANA_TEST_DEEPSPEED`` names its
folder)."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.runtime import session
from scalana.runtime.pipeline import deepspeed
from tests.attempts import attempts
from tests.runtime.pipeline import engine_jobs
from tests.runtime.pipeline.engine_jobs import RANKS, STEPS, Job, said

MICROBATCHES, LAYERS = 6, 4


def job_in(folder: Path) -> Job:
    return engine_jobs.recorded(folder, "deepspeed", "deepspeed_pipeline.py")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return job_in(tmp_path_factory.mktemp("deepspeed") / "run")


@pytest.mark.slow
def test_every_instruction_is_recorded_and_nothing_changed(job: Job) -> None:
    assert job.same and len(job.pipelines) == 2
    orders = [" ".join(map(str, order)) for order in BY_NAME["1F1B"].program(RANKS, MICROBATCHES).orders()]
    for pipeline in job.pipelines:
        assert (pipeline.engine, pipeline.schedule, pipeline.ranks) == ("deepspeed", "1F1B", (0, 1))
        assert (pipeline.stages, pipeline.microbatches) == (RANKS, MICROBATCHES)
        assert pipeline.runs.trains.tolist() == [True] * (STEPS - 1) + [False]
        every = pipeline.actions
        for step in range(STEPS):
            for rank in range(RANKS):
                actions = every.take((every.step == step) & (every.rank == rank))
                forwards = " ".join(action for action in orders[rank].split() if "F" in action)
                assert said(actions) == (orders[rank] if step < STEPS - 1 else forwards)
                assert (actions.begin_s[1:] >= actions.end_s[:-1]).all()
        needs = np.where(every.kind == 0, every.stage > 0, every.stage < RANKS - 1)
        assert (~np.isnan(every.wait_begin_s) == needs).all()
        waited = every.take(needs)
        assert (waited.wait_begin_s <= waited.wait_end_s).all() and (waited.wait_end_s <= waited.begin_s).all()
        # The first and the last stage load, of every microbatch, before its forward.
        assert ((every.load_s > 0) == (every.kind == 0)).all()
        # The first stage sends a forward's output before its next action.
        assert (every.send_wait_s[(every.stage == 0) & (every.kind == 1) & (every.microbatch == 0)] > 0).all()
        assert (pipeline.runs.gradients_s[:-1] > 0).all() and (pipeline.runs.gradients_s[-1] == 0).all()
        assert (pipeline.runs.optimizer_s[:-1] > 0).all() and (pipeline.runs.optimizer_s[-1] == 0).all()
    names = [one.layers.names if one.layers is not None else () for one in job.pipelines]
    assert [len(one) for one in names] == [LAYERS * RANKS, LAYERS * RANKS + 1]
    assert names[1] == tuple(f"layers.{n}" for n in range(LAYERS * RANKS + 1))


@pytest.mark.slow
def test_the_planted_head_is_told_with_its_line_and_cure(job: Job, tmp_path: Path) -> None:
    for number in attempts(2):
        job = job if number == 0 else job_in(tmp_path / "run")
        told = engine_jobs.wrong(job.report, "Split the layers 6/3 over the stages: PipelineModule with parts at")
        if not told:
            return
    raise AssertionError("\n".join(told))


def test_what_is_not_where_it_was_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    deepspeed.patch_engine(types.SimpleNamespace())
    assert notes == ["deepspeed.runtime.pipe: PipelineEngine not found: its pipelines are not recorded"]
    notes.clear()

    class PipelineEngine:
        def _exec_schedule(self, planned: Any) -> list[str]:
            return [function(self, buffer_id=1) for function in self._INSTRUCTION_MAP.values()]

    class ForwardPass:
        """An instruction."""

    PipelineEngine._INSTRUCTION_MAP = {ForwardPass: lambda self, buffer_id: f"forward {buffer_id}"}  # type: ignore[attr-defined]
    deepspeed.patch_engine(types.SimpleNamespace(PipelineEngine=PipelineEngine))
    assert notes[0] == (
        "deepspeed.runtime.pipe: the instruction BackwardPass not found: actions of kind B are not recorded"
    )
    assert len(notes) == 9 and not any("ForwardPass" in note for note in notes)
    # Without what it asks an engine for, nothing is recorded, and nothing changes.
    monkeypatch.setattr(session, "core", object())
    monkeypatch.setattr(deepspeed._patches, "_noted", set())
    notes.clear()
    assert PipelineEngine()._exec_schedule(None) == ["forward 1"]
    assert len(notes) == 1 and "a run of a schedule was not recorded" in notes[0]
