"""Pipelines beside others, failing stages, and a torch whose internals are elsewhere."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from scalana.detectors.when.step_marks import steps_of
from scalana.graphs.spans.actions import find_pipelines
from scalana.runtime import session
from scalana.runtime.pipeline import torch_pipelining
from tests.graphs.runs import build
from tests.needs import torch_or_skip
from tests.runtime import jobs


@pytest.mark.long
@pytest.mark.slow
def test_replicas_are_pipelines_of_their_own_and_schedules_mark_steps(tmp_path: Path) -> None:
    torch_or_skip()
    done = jobs.forked(4, "pipelining_replicas.py", "4", record=tmp_path / "run")
    assert done.returncode == 0, done.stderr
    records = jobs.ranks(tmp_path / "run")
    ppg = build(tmp_path / "run")
    pipelines = find_pipelines(ppg.spans)
    assert [one.ranks for one in pipelines] == [(0, 2), (1, 3)]
    for one in pipelines:
        assert (one.schedule, one.stages, one.microbatches) == ("1F1B", 2, 4)
        # The evaluation is a run between, without backwards; before the next training torch prepares anew.
        assert one.runs.trains.tolist() == [True, True, False, True, True]
        assert one.runs.infers.tolist()[:2] == [True, False]
        actions = one.actions
        assert [(actions.step == run).sum() for run in range(5)] == [16, 16, 8, 16, 16]
        assert not actions.kind[actions.step == 2].any()
    for record in records:
        rows = [row for row in range(len(record.spans)) if record.names[record.spans.name[row]] == "step"]
        assert [record.spans.step[row] for row in rows] == [1, 2], "the first run begins step 0, the second ends it"
        runs = [row for row in range(len(record.spans)) if record.names[record.spans.name[row]] == "RUN"]
        assert [record.spans.step[row] for row in runs] == [-1, 1, 1, 2, 3]
    steps = steps_of(ppg)
    assert steps is not None and steps.source == "schedule"


FAILING = """
import sys
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)

class Fails(nn.Module):
    calls = 0
    def forward(self, x):
        Fails.calls += 1
        if Fails.calls == 4:
            raise KeyError("planted")
        return x * torch.nn.Parameter(torch.ones(2))

stage = PipelineStage(Fails(), 0, 1, torch.device("cpu"))
schedule = ScheduleGPipe(stage, 2, loss_fn=lambda y, t: y.sum())
batch = torch.ones(2, 2)
schedule.step(batch, target=batch)
try:
    schedule.step(batch, target=batch)
except RuntimeError as error:
    print(type(error).__name__, repr(error.__cause__), repr(error.__context__), str(error).split())
Fails.calls = 10
schedule.step(batch, target=batch)
print("goes on")
"""


@pytest.mark.slow
def test_an_exception_of_a_stage_passes_unchanged(tmp_path: Path) -> None:
    torch_or_skip()
    told = []
    for record in (None, tmp_path / "run"):
        done = jobs.with_torch("-c", FAILING, tmp_path / f"store{len(told)}", record=record)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert told[0] == told[1] and "KeyError('planted')" in told[0] and "goes on" in told[0]
    (pipeline,) = find_pipelines(build(tmp_path / "run").spans)
    count = [(pipeline.actions.step == run).sum() for run in range(3)]
    assert count == [4, 1, 4], "the failing forward is an action, too; the run after it is whole"


class _Stage:
    stage_index = 0

    def forward_one_chunk(self, fwd_chunk_id: int) -> str:
        return f"forward {fwd_chunk_id}"

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[Any]:
        return [object()]  # takes no attribute


def test_what_is_not_where_it_was_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    torch_pipelining.patch_stage(types.SimpleNamespace())
    assert notes == ["torch.distributed.pipelining: _PipelineStageBase not found: actions are not recorded"]
    notes.clear()
    module = types.SimpleNamespace(_PipelineStageBase=_Stage)
    torch_pipelining.patch_stage(module)
    assert notes[0] == (
        "torch.distributed.pipelining: _Stage.backward_one_chunk not found: actions of kinds B and I are not recorded"
    )
    assert len(notes) == 6 and not any("forward_one_chunk" in note for note in notes)
    notes.clear()
    torch_pipelining.patch_schedules(types.SimpleNamespace(__name__="schedules"))
    assert len(notes) == 3 and "_wait_batch_p2p not found" in notes[1]
    assert _Stage().forward_one_chunk(fwd_chunk_id=3) == "forward 3"
    assert len(_Stage().get_fwd_send_ops(1)) == 1


def test_what_cannot_be_recorded_does_not_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    monkeypatch.setattr(session, "core", object())
    monkeypatch.setattr(torch_pipelining._patches, "_noted", set())

    class Stage(_Stage):
        def forward_one_chunk(self, *numbers: int, **named: int) -> str:
            return f"forward {numbers} {named}"

        stage_index = property(lambda self: 1 / 0)  # type: ignore[assignment]

    torch_pipelining.patch_stage(types.SimpleNamespace(_PipelineStageBase=Stage))
    notes.clear()
    assert Stage().forward_one_chunk() == "forward () {}"
    assert Stage().forward_one_chunk(1, odd=2) == "forward (1,) {'odd': 2}"
    assert len(Stage().get_fwd_send_ops(1)) == 1
    library = torch_pipelining._patches.library
    assert notes == [
        f"{library}: an action of kind F was not recorded: StopIteration: ",
        f"{library}: messages of kind SEND_F are not distinguished: ZeroDivisionError: division by zero",
    ], "each kind once"
