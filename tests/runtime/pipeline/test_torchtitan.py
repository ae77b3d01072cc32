"""What torchtitan's ``pipeline_llm`` builds and its trainer does, where ``make pipeline`` has put it (or
``SCALANA_TEST_TORCHTITAN`` names its folder)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from scalana.graphs.spans.actions import find_pipelines
from tests.graphs.runs import build
from tests.needs import torch_or_skip
from tests.runtime import jobs

RANKS, STEPS, MICROBATCHES = 2, 4, 4
FOLDER = Path(os.environ.get("SCALANA_TEST_TORCHTITAN", jobs.ROOT / "build" / "pipeline" / "torchtitan"))
LAYERS = {
    "1F1B": ("tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "norm", "output"),
    "Interleaved1F1B": ("tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "norm", "output"),
}
"""torchtitan counts the embedding and the output as a layer each, and spreads what it counts."""


@pytest.mark.long
@pytest.mark.slow
def test_what_torchtitan_builds_is_recorded_and_unchanged(tmp_path: Path) -> None:
    torch_or_skip()
    if not (FOLDER / "torchtitan").is_dir():
        pytest.skip(f"no torchtitan in {FOLDER}: make pipeline")
    extra = {"PYTHONPATH": str(FOLDER)}
    plain = jobs.forked(RANKS, "titan_pipeline.py", ",".join(LAYERS), extra=extra)
    recorded = jobs.forked(RANKS, "titan_pipeline.py", ",".join(LAYERS), extra=extra, record=tmp_path / "run")
    assert plain.returncode == recorded.returncode == 0, plain.stderr + recorded.stderr
    assert plain.stdout.splitlines()[-1] == recorded.stdout.splitlines()[-1]
    jobs.ranks(tmp_path / "run")
    pipelines = find_pipelines(build(tmp_path / "run").spans)
    assert [one.schedule for one in pipelines] == list(LAYERS)
    for one in pipelines:
        assert (one.engine, one.ranks, one.microbatches) == ("torchtitan", (0, 1), MICROBATCHES)
        # The last run is the evaluation.
        assert one.runs.trains.tolist() == [True] * (STEPS - 1) + [False]
        assert one.runs.infers.tolist()[:2] == [True, False]
        actions = one.actions
        forwards = np.array([((actions.step == step) & (actions.kind == 0)).sum() for step in range(STEPS)])
        backwards = np.array([((actions.step == step) & (actions.kind == 1)).sum() for step in range(STEPS)])
        assert (forwards == one.stages * MICROBATCHES).all()
        assert (backwards == one.stages * MICROBATCHES * one.runs.trains).all()
        assert (one.runs.optimizer_s > 0).all()
        assert one.layers is not None and one.layers.names == LAYERS[one.schedule]
