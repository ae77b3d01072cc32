"""Every schedule of torch, recorded: what ran, in which order, and that nothing of it changed."""

from __future__ import annotations

import json
from bisect import bisect
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana.graphs.spans.actions import KINDS, Actions, Pipeline, find_pipelines
from scalana.graphs.spans.span_columns import Spans
from tests.graphs.runs import build
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

ONE_STAGE, CHUNKED = ("GPipe", "1F1B"), ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")
V_SHAPED = ("ZBVZeroBubble", "DualPipeV")
EVERY = ",".join((*ONE_STAGE, *CHUNKED, *V_SHAPED, "CSV"))
STEPS, MICROBATCHES = 3, 4


class Job:
    """The small model trained by some schedules."""

    def __init__(self, folder: Path, ranks: int, names: str) -> None:
        recorded = jobs.forked(ranks, "pipelining.py", names, record=folder)
        assert recorded.returncode == 0, recorded.stderr
        self.stderr, self.told = recorded.stderr, json.loads(recorded.stdout)
        self.folder, self.ranks = folder, ranks
        self.records = jobs.ranks(folder)
        self.spans: Spans = build(folder).spans
        self.pipelines = {one.schedule: one for one in find_pipelines(self.spans)}

    def pipeline(self, name: str) -> Pipeline:
        return self.pipelines["_PipelineScheduleRuntime" if name == "CSV" else name]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("two") / "run", 2, EVERY)


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("four") / "run", 4, "1F1B,ZBVZeroBubble")


def said(actions: Actions) -> list[str]:
    columns = zip(actions.stage.tolist(), actions.kind.tolist(), actions.microbatch.tolist(), strict=True)
    return [f"{stage}{KINDS[kind]}{microbatch}" for stage, kind, microbatch in columns]


def order_1f1b(stage: int, stages: int) -> list[str]:
    """By its definition: torch's own description of it is shifted."""
    ahead = min(MICROBATCHES, stages - stage)
    order = [f"{stage}F{m}" for m in range(ahead)]
    for m in range(MICROBATCHES):
        order.append(f"{stage}B{m}")
        if m + ahead < MICROBATCHES:
            order.append(f"{stage}F{m + ahead}")
    return order


def check_order(job: Job, name: str) -> None:
    """Each action once a step on its rank, in the order of the schedule, none within another."""
    pipeline = job.pipeline(name)
    assert pipeline.ranks == tuple(range(job.ranks)) and pipeline.engine == "torch"
    assert pipeline.microbatches == MICROBATCHES and pipeline.runs.number.tolist() == list(range(STEPS))
    for rank in range(job.ranks):
        told = job.told[rank][name]
        order = order_1f1b(rank, job.ranks) if name == "1F1B" else told["order"]
        for step in range(STEPS):
            actions = pipeline.actions
            actions = actions.take((actions.rank == rank) & (actions.step == step))
            assert said(actions) == order
            assert (actions.begin_s[1:] >= actions.end_s[:-1]).all() and (actions.end_s > actions.begin_s).all()
            held = np.array(told["held"])
            assert (held[actions.chunk] == actions.stage).all()
            check_waits(actions, pipeline.stages, set(told["held"]))


def check_waits(actions: Actions, stages: int, here: set[int]) -> None:
    """What comes from another rank was waited for, and nothing else."""
    source = actions.stage + np.where(actions.kind == 0, -1, 1)
    expected = (source >= 0) & (source < stages) & (actions.kind != KINDS.index("W"))
    if stages > 2 and len(here) > 1:  # of the same rank
        expected &= ~np.isin(source, list(here))
    assert (~np.isnan(actions.wait_begin_s) == expected).all()
    waited = actions.take(expected)
    assert (waited.wait_begin_s <= waited.wait_end_s).all() and (waited.wait_end_s <= waited.begin_s).all()


@pytest.mark.parametrize("name", [*ONE_STAGE, *CHUNKED, *V_SHAPED, "CSV"])
def test_every_action_of_every_schedule(two_ranks: Job, name: str) -> None:
    check_order(two_ranks, name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["1F1B", "ZBVZeroBubble"])
def test_four_ranks(four_ranks: Job, name: str) -> None:
    check_order(four_ranks, name)


def test_losses_and_gradients_are_the_same_to_the_last_bit(two_ranks: Job) -> None:
    plain = jobs.forked(two_ranks.ranks, "pipelining.py", EVERY)
    assert plain.returncode == 0 and plain.stderr == two_ranks.stderr
    assert two_ranks.told == json.loads(plain.stdout)
    assert all(len(results["results"]) == STEPS for told in two_ranks.told for results in told.values())


def test_overlapped_pairs_are_told(two_ranks: Job) -> None:
    actions = two_ranks.pipeline("DualPipeV").actions
    assert actions.joined.any() and (actions.kind[actions.joined] == 0).all()
    after = np.flatnonzero(actions.joined) + 1
    assert (actions.kind[after] == KINDS.index("B")).all() and (actions.rank[after] == actions.rank[after - 1]).all()
    assert not any(two_ranks.pipeline(name).actions.joined.any() for name in (*ONE_STAGE, *CHUNKED, "CSV"))


def test_what_a_run_says_of_itself(two_ranks: Job) -> None:
    for name in ("GPipe", "ZBVZeroBubble"):
        pipeline = two_ranks.pipeline(name)
        runs = pipeline.runs
        assert runs.infers.tolist() == [True, False, False] and runs.trains.all()
        assert (runs.optimizer_s > 0).all() and (runs.enter_s < runs.leave_s).all()
        actions, later = pipeline.training()
        assert set(actions.step.tolist()) == {1, 2} and later.number.tolist() == [1, 2]
        assert (pipeline.actions.cpu_s > 0).all()
    assert (two_ranks.pipeline("GPipe").runs.gradients_s > 0).all()
    spans, rows = two_ranks.spans, two_ranks.spans.rows("action", "RUN")
    told = [spans.attributes(row) for row in rows.tolist()]
    assert {one["held"] for one in told if one["schedule"] == "LoopedBFS"} == {"0,2", "1,3"}
    assert all(one["loss"] == one["trains"] == 1 and one["ranks"] == "0,1" for one in told)
    assert len({one["pipeline"] for one in told}) == 8
    planned = [one["order"] for one in told if one["schedule"] == "ZBVZeroBubble" and "order" in one]
    assert len(planned) == 2 and planned[0].startswith("0F0 0F1")


def test_messages_are_posted_for_a_stage_and_a_microbatch(two_ranks: Job) -> None:
    spans = two_ranks.spans
    runs = [row for row in spans.rows("action", "RUN").tolist() if spans.attributes(row)["schedule"] == "GPipe"]
    start, end, process = spans.table.start_ns, spans.table.end_ns, spans.process
    for name in ("SEND_F", "RECV_F", "SEND_B", "RECV_B"):
        rows = spans.rows("transfer", name)
        inner = [
            (process[rows] == process[run]) & (start[rows] >= start[run]) & (end[rows] <= end[run]) for run in runs
        ]
        of_run = [rows[inside] for inside in inner]
        assert sum(map(len, of_run)) == STEPS * MICROBATCHES
        microbatches = [tuple(sorted(spans.integers("microbatch")[inside].tolist())) for inside in of_run]
        assert set(microbatches) == {(), tuple(range(MICROBATCHES))}, "one of the ranks has them all"
    posted, waited = (len(spans.rows(kind, "RECV_F")) for kind in ("transfer", "wait"))
    assert posted == waited


def test_layers_are_timed_in_some_runs(two_ranks: Job) -> None:
    names = ("first", "layers.a", "layers.b.0", "layers.b.1")
    for name in (*ONE_STAGE, "Interleaved1F1B"):
        layers = two_ranks.pipeline(name).layers
        stages = two_ranks.pipeline(name).stages
        assert layers is not None and layers.names == names * stages
        assert layers.cut.tolist() == list(range(0, 4 * stages + 1, 4))
        assert (layers.cost_s[:2] > 0).all() and (layers.cost_s[2:] == 0).all()
    split = two_ranks.pipeline("ZBVZeroBubble").layers
    assert split is not None and (split.cost_s[2, 4:] > 0).all() and (split.cost_s[3] > 0).all()
    spans, kinds = two_ranks.spans, ("F", "B", "I", "W")
    modules = spans.rows("module")
    actions = np.concatenate([spans.rows("action", kind) for kind in kinds])
    whole: dict[tuple[Any, ...], float] = {}
    for rows, sign in ((actions, 1), (modules, -1)):
        kind = [spans.names[n] for n in (spans.table.name[rows] if sign > 0 else spans.texts("action")[rows]).tolist()]
        step = [int(number) for number in run_starts(spans, rows)]
        stage, microbatch = spans.integers("stage")[rows].tolist(), spans.integers("microbatch")[rows].tolist()
        seconds = (sign * (spans.end_s(rows) - spans.start_s(rows))).tolist()
        for key, value in zip(zip(step, stage, kind, microbatch, strict=True), seconds, strict=True):
            whole[key] = whole.get(key, 0.0) + value
    assert min(whole.values()) > -1e-9, "layers take no longer than their action"


def run_starts(spans: Spans, rows: np.ndarray) -> list[int]:
    """The begin of the run in which each row lies: a name for it."""
    runs = spans.rows("action", "RUN")
    begins = []
    for row in rows.tolist():
        same = runs[
            (spans.process[runs] == spans.process[row]) & (spans.table.start_ns[runs] <= spans.table.start_ns[row])
        ]
        begins.append(int(spans.table.start_ns[same].max()))
    return begins


def test_steps_end_with_the_optimizer(two_ranks: Job) -> None:
    for record in two_ranks.records:
        steps = [row for row in range(len(record.spans)) if record.names[record.spans.name[row]] == "step"]
        ends = [record.spans.start_ns[row] + record.spans.duration_ns[row] for row in steps]
        optimizer = [row for row in range(len(record.spans)) if record.names[record.spans.name[row]] == "SGD"]
        done = [record.spans.start_ns[row] + record.spans.duration_ns[row] for row in optimizer]
        number = [bisect(done, end) for end in ends]  # steps of optimizers that were over
        assert len(ends) >= STEPS - 1 and number[0] == 2  # nobody knows when the first step began
        assert all(before < after for before, after in pairwise(number))
