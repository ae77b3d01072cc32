"""Actions that a program tells by itself, and how they are put together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.spans.actions import KINDS, find_pipelines
from tests.graphs.runs import build
from tests.runtime import jobs

PROGRAM = """
import scalana, sys, time
from scalana import pipeline

rank, marks = int(sys.argv[1]), sys.argv[2] == "marks"
stage, replica = rank % 2, rank // 2
for step in range(3):
    for microbatch in range(2):
        if stage:
            with pipeline.action("RECV_F", stage, microbatch):
                time.sleep(0.001)
        with scalana.pipeline.action("F", stage=stage, microbatch=microbatch):
            with scalana.span("batch", kind="data"):
                time.sleep(0.001)
            time.sleep(0.002)
        if not stage:
            with pipeline.action("SEND_F", stage, microbatch):
                time.sleep(0.001)
    for microbatch in range(2):
        handle = pipeline.begin("B", stage=stage, microbatch=microbatch)
        time.sleep(0.001)
        handle.end(tokens=5)
    if marks:
        scalana.step()
"""


def recorded(folder: Path, marks: str) -> None:
    for rank in range(4):
        extra = {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank), "PYTHONPATH": str(jobs.ROOT)}
        done = jobs.run([sys.executable, "-c", PROGRAM, str(rank), marks], folder, extra)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("marks", ["marks", "none"])
def test_actions_that_a_program_tells(marks: str, tmp_path: Path) -> None:
    recorded(tmp_path / "run", marks)
    jobs.ranks(tmp_path / "run")
    spans = build(tmp_path / "run").spans
    pipelines = find_pipelines(spans)
    # The second rank that holds a stage belongs to the second pipeline.
    assert [one.ranks for one in pipelines] == [(0, 1), (2, 3)]
    # Before the first mark nobody knows which step it is.
    steps = [1, 2] if marks == "marks" else [0, 1, 2]
    for one in pipelines:
        assert (one.engine, one.schedule, one.stages, one.microbatches) == ("", "", 2, 2)
        assert one.runs.number.tolist() == steps and one.runs.trains.all() and np.isnan(one.runs.enter_s).all()
        actions = one.actions
        told = list(zip(actions.step.tolist(), actions.stage.tolist(), actions.kind.tolist(), strict=True))
        expected = [(step, stage, kind) for stage in (0, 1) for step in steps for kind in (0, 0, 1, 1)]
        assert told == expected and actions.rank.tolist() == actions.stage.tolist()
        assert (np.isnan(actions.wait_begin_s) == ((actions.stage == 0) | (actions.kind > 0))).all()
        sent = actions.send_wait_s >= 0.001
        assert (sent == ((actions.stage == 0) & ((actions.kind == 1) ^ (actions.microbatch == 1)))).all()
        assert (actions.end_s - actions.begin_s >= 0.001).all()
        # What is loaded in a forward is no part of it.
        assert ((actions.load_s >= 0.001) == (actions.kind == 0)).all()
        assert np.allclose(actions.begin_s - actions.load_s, spans.start_s(actions.span), atol=1e-6)
        assert all(KINDS[kind] in "FB" for kind in actions.kind.tolist())


def test_it_is_exported_and_costs_nothing() -> None:
    assert "pipeline" in scalana.__all__ and "pipeline" in dir(scalana)
    program = "import sys, scalana; assert 'scalana.pipeline' not in sys.modules; scalana.pipeline.action; "
    program += (
        "heavy = {'numpy', 'torch', 'scalana.runtime.pipeline.torch_pipelining'} & set(sys.modules); assert not heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=jobs.ROOT, timeout=60)


def test_nothing_happens_where_nothing_is_recorded() -> None:
    with scalana.pipeline.action("F", stage=2, microbatch=5) as entered:
        pass
    entered.end()
    scalana.pipeline.begin("W", 0).end(more=1)
    with pytest.raises(ZeroDivisionError), scalana.pipeline.action("F", 0):
        1 / 0  # noqa: B018
