"""Schedules of Megatron-core, where ``make pipeline`` has put it (or ``SCALANA_TEST_MEGATRON`` names its folder)."""

from __future__ import annotations

import json
import os
import types
from pathlib import Path

import numpy as np
import pytest

from scalana.graphs.spans.actions import KINDS, Actions, Pipeline, find_pipelines
from scalana.graphs.spans.columns import Spans
from scalana.runtime import session
from scalana.runtime.pipeline import megatron
from tests.graphs.runs import build
from tests.runtime import jobs

STEPS, MICROBATCHES, RANKS = 4, 4, 2
FOLDER = Path(os.environ.get("SCALANA_TEST_MEGATRON", jobs.ROOT / "build" / "pipeline" / "megatron"))

ORDERS = {
    1: [["0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"], ["0F0 0F1 0F2 0F3", "1F0 1F1 1F2 1F3"]],
    2: [
        [
            "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
            "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
        ],
        ["0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3", "1F0 1F1 3F0 3F1 1F2 1F3 3F2 3F3"],
    ],
}
"""By chunks a rank, of training and of evaluation, on each rank: the schedules of Megatron-core (Narayanan et al.,
2021), two microbatches of a chunk after each other."""


def said(actions: Actions) -> str:
    columns = zip(actions.stage.tolist(), actions.kind.tolist(), actions.microbatch.tolist(), strict=True)
    return " ".join(f"{stage}{KINDS[kind]}{microbatch}" for stage, kind, microbatch in columns)


def check(pipeline: Pipeline, spans: Spans, chunks: int) -> None:
    assert (pipeline.engine, pipeline.ranks) == ("megatron", (0, 1))
    assert (pipeline.stages, pipeline.microbatches) == (RANKS * chunks, MICROBATCHES)
    assert pipeline.schedule == ("1F1B" if chunks == 1 else "Interleaved1F1B")
    assert pipeline.runs.trains.tolist() == [True] * (STEPS - 1) + [False]
    every = pipeline.actions
    for step in range(STEPS):
        for rank in range(RANKS):
            actions = every.take((every.step == step) & (every.rank == rank))
            assert said(actions) == ORDERS[chunks][step == STEPS - 1][rank]
            assert (actions.begin_s[1:] >= actions.end_s[:-1]).all()
            assert (actions.chunk == actions.stage // RANKS).all()
    needs = np.where(every.kind == 0, every.stage > 0, every.stage < pipeline.stages - 1)
    assert (~np.isnan(every.wait_begin_s) == needs).all()
    waited = every.take(needs)
    assert (waited.wait_begin_s <= waited.wait_end_s).all() and (waited.wait_end_s <= waited.begin_s).all()
    assert (pipeline.runs.gradients_s[:-1] > 0).all() and (pipeline.runs.gradients_s[-1] == 0).all()
    assert (pipeline.runs.optimizer_s > 0).all()
    layers = pipeline.layers
    assert layers is not None and layers.names == ("decoder.layers.0", "decoder.layers.1") * pipeline.stages
    assert (layers.cost_s[:2] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [1, 2])
def test_schedules_are_recorded_and_unchanged(chunks: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not (FOLDER / "megatron").is_dir():
        pytest.skip(f"no Megatron-core in {FOLDER}: make pipeline")
    extra = {"PYTHONPATH": str(FOLDER)}
    plain = jobs.forked(RANKS, "megatron_pipeline.py", str(chunks), extra=extra)
    recorded = jobs.forked(RANKS, "megatron_pipeline.py", str(chunks), extra=extra, record=tmp_path / "run")
    assert plain.returncode == recorded.returncode == 0, plain.stderr + recorded.stderr
    assert json.loads(plain.stdout) == json.loads(recorded.stdout)
    jobs.ranks(tmp_path / "run")
    spans = build(tmp_path / "run").spans
    (pipeline,) = find_pipelines(spans)
    check(pipeline, spans, chunks)


def test_what_is_not_where_it_was_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    empty = types.SimpleNamespace()
    megatron.patch_schedules(empty)
    megatron.patch_messages(empty)
    megatron.patch_gradients(empty)
    assert len(notes) == 6 and all("is not where it was" in note for note in notes)
    assert notes[3] == (
        "megatron.core.pipeline_parallel: backward_step is not where it was: actions of kind B are not recorded"
    )
