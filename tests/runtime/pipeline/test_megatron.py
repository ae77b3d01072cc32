"""Schedules of Megatron-core, where ``make pipeline`` has put it (or ``SCALANA_TEST_MEGATRON`` names its folder)."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana.graphs.spans.actions import Pipeline
from scalana.runtime import session
from scalana.runtime.pipeline import megatron
from scalana.runtime.pipeline.runs import Plan, Run
from tests.attempts import attempts
from tests.runtime.pipeline import engine_jobs
from tests.runtime.pipeline.engine_jobs import RANKS, STEPS, Job, said

MICROBATCHES, LAYERS = 4, 4

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


def job_in(folder: Path, arguments: str) -> Job:
    return engine_jobs.recorded(folder, "megatron", "megatron_pipeline.py", *arguments.split())


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.long), "2 overlap"])
def arguments(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def chunks(arguments: str) -> int:
    return int(arguments[0])


@pytest.fixture(scope="module")
def job(arguments: str, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return job_in(tmp_path_factory.mktemp("megatron") / "run", arguments)


def check(pipeline: Pipeline, chunks: int, head: bool) -> None:
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
    of_stage = tuple(f"decoder.layers.{n}" for n in range(LAYERS // chunks))
    assert layers is not None and layers.names == of_stage * pipeline.stages + ("output_layer",) * head
    assert (layers.cost_s[:2] > 0).all()


@pytest.mark.slow
def test_schedules_are_recorded_and_unchanged(job: Job, chunks: int) -> None:
    assert job.same
    for head, pipeline in enumerate(job.pipelines):
        check(pipeline, chunks, bool(head))


@pytest.mark.slow
def test_the_planted_head_is_told(job: Job, arguments: str, tmp_path: Path) -> None:
    for number in attempts(2):
        job = job if number == 0 else job_in(tmp_path / "run", arguments)
        told = engine_jobs.wrong(job.report, "Split the ")
        if not told:
            return
    raise AssertionError("\n".join(told))


def test_what_is_not_where_it_was_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(session, "note", notes.append)
    empty = types.SimpleNamespace()
    megatron.patch_schedules(empty)
    megatron.patch_messages(empty)
    megatron.patch_gradients(empty)
    assert len(notes) == 6 and all(" not found: " in note for note in notes)
    assert notes[3] == ("megatron.core.pipeline_parallel: backward_step not found: actions of kind B are not recorded")


class Work:
    """A request, which ends when it is waited for."""

    waited = False

    def wait(self) -> None:
        self.waited = True


def communicated(monkeypatch: pytest.MonkeyPatch, shapes: bool, overlaps: bool) -> tuple[list[Any], Any, Any]:
    """Send the output of microbatch 3, and receive: the spans, the result, and what stands for the schedule."""
    spans: list[Any] = []
    clock = iter(range(10, 1000, 10))
    core = types.SimpleNamespace(
        now=lambda: next(clock),
        intern=lambda text: text,
        span_types=["wait", "transfer"],
        span=lambda kind, _lane, name, begin, end, _cpu, _path, attributes: spans.append(
            (core.span_types[kind], name, begin, end, dict(zip(attributes[::2], attributes[1::2], strict=True)))
        ),
    )
    monkeypatch.setattr(session, "core", core)
    output, received = object(), object()
    schedule = megatron.Schedule(2, 0)
    schedule.outputs[id(output)] = (0, 3)
    monkeypatch.setattr(megatron.runs, "current", Run(schedule, Plan((), {}, []), 0, None))

    class P2PCommunicator:
        config = types.SimpleNamespace(variable_seq_lengths=shapes)

        def _communicate(self, **named: Any) -> Any:
            requests = module._p2p_ops()
            if not named["wait_on_reqs"]:
                return received, None, requests
            for request in requests.values():
                request.wait()
            return received, None, None

    posted = {"send_next": Work(), "recv_prev": Work()}
    module = types.SimpleNamespace(
        P2PCommunicator=P2PCommunicator, _p2p_ops=lambda: dict(posted), _batched_p2p_ops=list
    )
    megatron.patch_messages(module)
    sends = {"tensor_send_next": output, "tensor_send_prev": None}
    result = P2PCommunicator()._communicate(**sends, recv_prev=True, recv_next=False, wait_on_reqs=not overlaps)
    assert result[0] is received and all(work.waited != overlaps for work in posted.values())
    return spans, result, schedule


def test_a_wait_begins_when_all_messages_are_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, result, schedule = communicated(monkeypatch, shapes=False, overlaps=False)
    assert spans == [("transfer", "SEND_F", 10, 20, {"stage": 0, "microbatch": 3})]
    assert schedule.received == {id(result[0]): (20, 30, 1)}
    # Where shapes go before, these are waited for, too.
    spans, result, schedule = communicated(monkeypatch, shapes=True, overlaps=False)
    assert spans == [] and schedule.received == {id(result[0]): (10, 30, 1)}


def test_waits_that_come_later_are_recorded_then(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, (tensor, _, requests), schedule = communicated(monkeypatch, shapes=False, overlaps=True)
    assert len(spans) == 1 and not schedule.received
    requests["recv_prev"].wait()
    assert schedule.received == {id(tensor): (40, 50, 0)}
    requests["send_next"].wait()
    assert spans[1:] == [("wait", "SEND_F", 60, 70, {"stage": 0, "microbatch": 3})]
    assert requests["send_next"].waited and requests["recv_prev"].waited
