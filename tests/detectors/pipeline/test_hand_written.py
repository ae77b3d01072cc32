"""Pipelines written by hand, from calls to findings: simulated ones for width, and real jobs of torch and MPI."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalana
from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.detectors.pipeline.diagnosis.attribution import attribute
from scalana.detectors.pipeline.measured.replayable import read_rows
from scalana.detectors.pipeline.model.actions import Action
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.schedules import BY_NAME, stage_placement
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.columns.gather import Communicator
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.window import window
from tests.attempts import attempts
from tests.detectors.jobs import structure
from tests.detectors.pipeline.examples import rows_of, uniform
from tests.detectors.pipeline.own_orders import RULES, own_order
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns
from tests.long import also_rows
from tests.needs import torch_or_skip
from tests.runtime.mpi.conftest import Mpi, mpi  # noqa: F401  (a fixture)
from tests.tools.fork_server import launcher

ROOT = Path(__file__).parents[3]
JOB = ROOT / "tests" / "tools" / "messages_job.py"
PROGRAMS = Path(__file__).parent / "programs"
F_MS, B_MS = 20.0, 40.0

Work = Callable[[int, str, int, int], list[tuple[str, float]]]
"""What a stage works for an action at a microbatch of a step: names and ms."""


def plain(stage: int, kind: str, microbatch: int, step: int) -> list[tuple[str, float]]:
    return [(kind, F_MS if kind == "F" else B_MS)]


def order_of(name: str, stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    every = range(microbatches)
    if name in ("gpipe", "forward"):
        return [("F", m) for m in every] + [("B", m) for m in every if name == "gpipe"]
    ahead = min(stages - 1 - stage, microbatches)
    order = [("F", m) for m in range(ahead)]
    for m in range(microbatches - ahead):
        order += [("F", ahead + m), ("B", m)]
    return order + [("B", m) for m in range(microbatches - ahead, microbatches)]


def program(
    name: str = "1f1b",
    stages: int = 4,
    microbatches: int = 8,
    steps: int = 5,
    work: Work = plain,
    latency_ms: dict[tuple[int, int], float] | None = None,
    before_ms: dict[int, float] | None = None,
    ranks: list[int] | None = None,
    evaluate: bool = False,
    chunks: int = 1,
) -> list[list[tuple]]:
    """Actions of the ranks that run a pipeline, for the simulator; ``before_ms`` is loading of data before a step.
    ``stages`` are those of one chunk."""
    latency_ms, before_ms = latency_ms or {}, before_ms or {}
    ranks = list(range(stages)) if ranks is None else ranks
    lists = []
    for stage in range(stages):
        actions: list[tuple] = []

        def one(kind: str, m: int, step: int, stage: int = stage, actions: list[tuple] = actions) -> None:
            way = 1 if kind == "F" else -1
            source, target = stage - way, stage + way
            if 0 <= source < stages * chunks:
                actions.append(("recv", ranks[source % stages], latency_ms.get((source, stage), 0.0)))
            actions.extend(("work", what, ms) for what, ms in work(stage, kind, m, step))
            if 0 <= target < stages * chunks:
                actions.append(("send", ranks[target % stages]))

        for step in range(steps):
            actions.append(("work", "load", before_ms.get(stage, 0.5)))
            if chunks > 1:
                for action in BY_NAME[name].orders(stages, microbatches, chunks)[stage]:
                    one(action.kind.name, action.microbatch, step, action.stage)
            for kind, m in order_of(name, stage, stages, microbatches) if chunks == 1 else ():
                one(kind, m, step)
            if name == "forward":
                actions.append(("coll", "barrier", list(range(stages)), -1, 0.2))
            else:
                actions.append(("work", "adapt", 2.0))
            if evaluate and step % 2:
                for m in range(3):
                    one("F", m, step)
        lists.append(actions)
    everyone: list[list[tuple]] = [[] for _ in range(max(ranks) + 1)]
    for stage, actions in enumerate(lists):
        everyone[ranks[stage]] = actions
    return everyone


def spans_of(worked: list[tuple], ranks: int) -> Spans:
    """Steps of an optimizer and loading of data as the spans that torch's recorders make."""
    kinds = {"adapt": ("optimizer", "SGD"), "load": ("data", "DataLoader")}
    spans = [Span(rank, *kinds[what], *when) for what, rank, *when in worked if what in kinds]
    return as_columns(spans, range(ranks))


def analysed(actions: list[list[tuple]], trains: bool = True, of_torch: bool = False) -> Analysis:
    worked: list[tuple] = []
    timeline, names = simulate(actions, worked=worked)
    psg = structure(names)
    ranks = timeline.ranks
    seconds = float(timeline.locations.end_s.max())
    run = RunInfo(seconds=seconds, ranks=ranks, calls_of_rank=[0] * ranks, comm_s_of_rank=[0.0] * ranks)
    if of_torch:
        run.communicators.append(Communicator("0", tuple(range(ranks))))
    spans = spans_of(worked if trains else [], ranks)
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans))


def shares(analysis: Analysis) -> dict[str, float]:
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert pipeline.recorded.inferred
    assert abs(pipeline.diagnosis.attribution.replay_error) < 0.02
    return dict(pipeline.diagnosis.attribution.shares)


def faults(analysis: Analysis) -> list[tuple[str, list[int], str]]:
    """Kind, ranks and the place's name of findings that blame somebody."""
    told = [finding for finding in analysis.findings if finding.ranks]
    return [(finding.kind, finding.ranks, analysis.ppg.psg[finding.vertex].place.name) for finding in told]


@pytest.mark.parametrize(
    "name, stages, trains", [("1f1b", 3, False), ("1f1b", 4, True), ("1f1b", 2, True), ("gpipe", 4, True)]
)
def test_a_balanced_one_blames_nobody(name: str, stages: int, trains: bool) -> None:
    analysis = analysed(program(name, stages), trains)
    assert faults(analysis) == []
    found = shares(analysis)
    ideal = (stages - 1) / (8 + stages - 1)
    assert found["schedule"] == pytest.approx(ideal, abs=0.02)
    assert found["imbalance"] == pytest.approx(0, abs=0.01) and found["straggler"] == pytest.approx(0, abs=0.01)
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert pipeline.diagnosis.schedule == {"1f1b": "1F1B", "gpipe": "GPipe"}[name]
    assert [stage.load for stage in pipeline.diagnosis.attribution.stages] == pytest.approx([1] * stages, abs=0.02)


def slow(which: int, factor: float) -> Work:
    def work(stage: int, kind: str, microbatch: int, step: int) -> list[tuple[str, float]]:
        usual = plain(stage, kind, microbatch, step)
        return usual + ([("slow", usual[0][1] * (factor - 1))] if stage == which else [])

    return work


@pytest.mark.parametrize("name", ["1f1b", "gpipe"])
@pytest.mark.parametrize("which", [0, 1, 3])
def test_a_slow_stage_is_told_with_its_line(name: str, which: int) -> None:
    analysis = analysed(program(name, work=slow(which, 1.75), ranks=[2, 0, 3, 1]))
    rank = [2, 0, 3, 1][which]
    assert faults(analysis)[:1] == [("pipeline-imbalance", [rank], "slow")]
    costs = uniform(4, F_MS / 1e3, B_MS / 1e3, 0, 0)
    costs[:, which] *= 1.75
    order = BY_NAME[{"1f1b": "1F1B", "gpipe": "GPipe"}[name]].program(4, 8)
    known = attribute(read_rows(rows_of(order, costs, steps=4, between_s=0.0025), ENGINES["ideal"])).shares
    found = shares(analysis)
    for cause in ("compute", "schedule", "imbalance", "straggler", "link"):
        assert found[cause] == pytest.approx(known[cause], abs=0.02), cause


@pytest.mark.slow
def test_several_stages_a_rank() -> None:
    analysis = analysed(program("Interleaved1F1B", chunks=2))
    assert faults(analysis) == []
    assert shares(analysis)["schedule"] == pytest.approx(3 / (2 * 8 + 3), abs=0.02)
    analysis = analysed(program("Interleaved1F1B", chunks=2, work=slow(5, 2.0), ranks=[2, 0, 3, 1]))
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert (pipeline.diagnosis.schedule, pipeline.diagnosis.measured.program.stages) == ("Interleaved1F1B", 8)
    assert faults(analysis)[:1] == [("pipeline-imbalance", [0], "slow")]
    told = [stage.load for stage in pipeline.diagnosis.attribution.stages]
    assert told == pytest.approx([(2 if s == 5 else 1) / 1.125 for s in range(8)], abs=0.05)


def in_a_v(name: str, slow: int, halves: bool = False, ranks: int = 4, steps: int = 5) -> list[list[tuple]]:
    """Two stages a rank in a V, in the order of a published schedule; backwards whole, or their halves apart. Messages
    have tags: a neighbour asks for them in another order than they are sent."""
    return worked_off(BY_NAME[name].orders(ranks, 8, 2), slow, halves, steps)


def worked_off(orders: list[list[Action]], slow: int, halves: bool = False, steps: int = 5) -> list[list[tuple]]:
    """The same for what each rank does in a step."""
    ranks = len(orders)
    place, last = stage_placement("v", ranks, 2), 2 * ranks - 1
    lists = []
    for rank, order in enumerate(orders):
        actions: list[tuple] = []
        for _ in range(steps):
            actions.append(("work", "load", 0.5))
            for action in order:
                kind, stage = action.kind.name, action.stage
                usual_ms = {"F": F_MS, "B": B_MS, "I": B_MS / (1 + halves), "W": B_MS / 2 * halves}[kind]
                way, tag = (1, 0) if kind == "F" else (-1, 1)
                source, target = stage - way, stage + way
                alone = kind == "W"
                if not alone and 0 <= source <= last and place[source] != rank:
                    actions.append(("recv", place[source], 0.0, tag))
                if usual_ms:
                    actions.append(("work", kind, usual_ms))
                if usual_ms and stage == slow:
                    actions.append(("work", "slow", usual_ms))
                if not alone and 0 <= target <= last and place[target] != rank:
                    actions.append(("send", place[target], tag))
            actions.append(("work", "adapt", 2.0))
        lists.append(actions)
    return lists


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ranks, most", [(2, 4), (2, 16), (3, 6), (4, 8)])
def test_an_order_of_ones_own_in_a_v_blames_nobody_but_a_slow_rank(rule: str, ranks: int, most: int) -> None:
    orders = own_order(ranks, 8, RULES[rule], most).orders()
    assert faults(analysed(worked_off(orders, -1))) == []
    slow_one = faults(analysed(worked_off(orders, 2 * ranks - 1)))  # the last stage stands on rank 0
    assert {(tuple(ranks), name) for _, ranks, name in slow_one} <= {((0,), "slow")}
    assert slow_one or ranks == 2 or most == 6


@pytest.mark.parametrize("name, halves", [("ZBV", False), ("DualPipeV", False), ("DualPipeV", True)])
def test_two_stages_a_rank_in_the_order_of_a_published_schedule(name: str, halves: bool) -> None:
    analysis = analysed(in_a_v(name, 5, halves))
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert pipeline.diagnosis.measured.program.stages == 8
    assert set(pipeline.diagnosis.measured.microbatches.tolist()) == {8} and shares(analysis)["imbalance"] > 0.1
    loads = [stage.load for stage in pipeline.diagnosis.attribution.stages]
    assert int(np.argmax(loads)) == 5 and loads[5] > 1.5
    assert faults(analysis)[:1] == [("pipeline-imbalance", [2], "slow")]


def test_forwards_alone() -> None:
    analysis = analysed(program("forward", microbatches=12), trains=False, of_torch=True)
    assert faults(analysis) == []
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert pipeline.recorded.schedule == "forwards alone"
    assert pipeline.diagnosis.measured.microbatches.tolist() == [12] * 4  # the barriers between
    assert shares(analysis)["schedule"] == pytest.approx(3 / 15, abs=0.03)
    analysis = analysed(program("forward", microbatches=12, work=slow(2, 1.75)), trains=False, of_torch=True)
    assert faults(analysis)[:1] == [("pipeline-imbalance", [2], "slow")]
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert not {one.change for one in pipeline.diagnosis.predictions} & {"schedule", "plan", "microbatches"}
    assert "pipeline" not in analysed(program("forward", microbatches=12), trains=False).sections  # a sweep of MPI's


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("microbatches, steps", [(12, 1), (4, 5)])
def test_that_forwards_fill_and_drain_is_nobodys_fault(stages: int, microbatches: int, steps: int) -> None:
    def found(work: Work) -> list[tuple[str, list[int], str]]:
        actions = program("forward", stages, microbatches, steps, work)
        return faults(analysed(actions, trains=False, of_torch=True))

    assert found(plain) == []
    for which in (0, stages - 1):  # who is slow is told, and nothing besides
        told = found(slow(which, 1.75))
        assert told and {(tuple(ranks), name) for _, ranks, name in told} <= {((which,), "slow"), ((which,), "barrier")}
        assert stages == 2 or told == [("pipeline-imbalance", [which], "slow")]
    # Two ranks may be anything that is made and used up.
    assert stages > 2 or "pipeline" not in analysed(program("forward", 2, 12), trains=False, of_torch=True).sections


def test_what_two_ranks_do_longer_than_usual_is_told() -> None:
    """Before the first tensor, one makes something else: that the other waits for it is no fill."""
    actions = program("forward", 2, 12, 3, before_ms={0: 200.0})
    told = faults(analysed(actions, trains=False, of_torch=True))
    assert [(ranks, name) for _, ranks, name in told] == [([0], "load")]


@pytest.mark.slow
def test_a_straggler_a_slow_link_and_late_data_are_told() -> None:
    def straggles(stage: int, kind: str, microbatch: int, step: int) -> list[tuple[str, float]]:
        usual = plain(stage, kind, microbatch, step)
        return usual + ([("straggles", usual[0][1] * 1.5)] if stage == 1 and microbatch % 3 == 0 else [])

    analysis = analysed(program(work=straggles))
    assert faults(analysis)[:1] == [("pipeline-straggler", [1], "straggles")]
    analysis = analysed(program(latency_ms={(1, 2): 20.0}))
    (told,) = analysis.findings[:1]
    assert (told.kind, told.ranks) == ("pipeline-link", [1, 2])
    assert told.evidence.as_dict()["latency_s"] == pytest.approx(0.02, rel=0.05)
    balanced_s = np.diff([shares(analysed(program()))["link"], shares(analysis)["link"]])
    assert balanced_s > 0.05
    analysis = analysed(program(before_ms={0: 150.0}))
    assert faults(analysis) == [("pipeline-host", [0], "load")]
    assert shares(analysis)["data"] == pytest.approx(0.15 / (0.15 + 11 * 0.06 + 0.002), abs=0.02)


def test_replicas_are_pipelines_of_their_own_and_a_slow_one_is_named() -> None:
    def slower(stage: int, kind: str, microbatch: int, step: int) -> list[tuple[str, float]]:
        return [*plain(stage, kind, microbatch, step), ("more", 10.0)]

    both = [*program(stages=2), *program(stages=2, work=slower, ranks=[2, 3])[2:]]
    for rank, actions in enumerate(both):
        group = [rank % 2, rank % 2 + 2]
        at = [n for n, action in enumerate(actions) if action[:2] == ("work", "adapt")]
        for n in reversed(at):
            actions.insert(n, ("coll", "allreduce", group, -1, 20.0))
    analysis = analysed(both)
    one, other = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert (one.recorded.ranks, other.recorded.ranks, one.awaits, other.awaits) == ((0, 1), (2, 3), (2, 3), ())
    assert faults(analysis) == [("pipeline-replica", [2, 3], "more")]
    step_s = other.diagnosis.attribution.step_s
    assert step_s == pytest.approx(9 * 0.08 + 0.0225, rel=0.01)
    assert one.diagnosis.attribution.shares["gradients"] * step_s == pytest.approx(9 * 0.02 + 0.02, abs=0.005)
    assert other.diagnosis.attribution.shares["gradients"] * step_s == pytest.approx(0.02, abs=0.005)


def test_a_part_of_a_run_is_the_pipeline_that_the_whole_shows() -> None:
    worked: list[tuple] = []
    timeline, names = simulate(program("gpipe", work=slow(1, 1.75)), worked=worked)
    ends = np.array([[end for name, rank, _, end in worked if name == "adapt" and rank == r] for r in range(4)])
    part = window(timeline, ends[:, 1], ends[:, 2])
    psg = structure(names)
    run = RunInfo(seconds=1.0, ranks=4, calls_of_rank=[0] * 4, comm_s_of_rank=[0.0] * 4)
    analysis = analyze(PPG(psg, part, timeline_metrics(part, len(psg)), run, spans_of(worked, 4)))
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert pipeline.diagnosis.measured.steps.tolist() == [2]
    assert faults(analysis)[:1] == [("pipeline-imbalance", [1], "slow")]


def test_evaluations_between_steps_are_set_aside() -> None:
    analysis = analysed(program(evaluate=True, steps=6))
    (pipeline,) = analysis.sections["pipeline"]  # type: ignore[attr-defined]
    assert set(pipeline.diagnosis.measured.microbatches.tolist()) == {8}
    assert [f for f in faults(analysis) if f[0].startswith("pipeline")] == []


def test_a_sweep_in_one_direction_and_forwards_alone_are_no_pipeline() -> None:
    forwards = [[a for a in actions if a[:2] != ("work", "B")] for actions in program(steps=1)]
    one_way = [
        [a for a in actions if not (a[0] == "send" and a[1] < r) and not (a[0] == "recv" and a[1] > r)]
        for r, actions in enumerate(forwards)
    ]
    assert "pipeline" not in analysed(one_way).sections
    assert "pipeline" not in analysed(program("gpipe"), trains=False).sections
    assert "pipeline" not in analysed(program("gpipe", 2), trains=False).sections
    assert "pipeline" not in analysed(program("1f1b", 2, steps=2), trains=False).sections


# ---- real jobs ----


def report(folder: Path, *options: str, ranks: int = 4) -> dict[str, Any]:
    torch_or_skip()
    job = [*launcher(ranks), str(JOB), *options]
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *job]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=ROOT)
    found: dict[str, Any] = json.loads(scalana.analyze(folder).to_json())
    return found


@pytest.mark.slow
@pytest.mark.measured
def test_a_real_job_whose_stage_straggles(tmp_path: Path) -> None:
    """Shapes before tensors, evaluations, and a straggler: the line that sleeps for it."""
    line = next(n for n, text in enumerate(JOB.read_text().splitlines(), 1) if text.endswith("# straggler"))
    found = report(tmp_path / "run", "--shapes", "--straggler", "1:2.5:3", "--steps", "3", "--evaluate")
    (pipeline,) = found["pipeline"]
    assert (pipeline["engine"], pipeline["inferred"], pipeline["schedule"]) == ("messages", True, "1F1B")
    assert (pipeline["stages"], pipeline["microbatches"], pipeline["ranks"]) == (4, 8, [0, 1, 2, 3])
    assert sum(pipeline["shares"].values()) == pytest.approx(1, abs=1e-4)
    causes = [(f["kind"], f["ranks"], f["root"]["line"]) for f in found["findings"] if f["ranks"]]
    assert causes[:1] == [("pipeline-straggler", [1], line)] and pipeline["shares"]["straggler"] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "order, ranks, stage, rank",
    [("v", 4, 5, 2), *also_rows(("interleaved", 2, 2, 0), ("v", 2, 2, 1), ("zbv", 4, 5, 2))],
)
def test_real_jobs_of_several_stages_a_rank(order: str, ranks: int, stage: int, rank: int, tmp_path: Path) -> None:
    lines = [n for n, text in enumerate(JOB.read_text().splitlines(), 1) if text.endswith("# works")]
    options = f"--order {order} --chunks 2 --f-ms 20 --b-ms 40 --slow {stage}:3 --steps 3".split()
    options += ["--isend"] if order == "zbv" else []
    for number in attempts(2):
        found = report(tmp_path / str(number), *options, ranks=ranks)
        told = [(p["stages"], p["microbatches"], p["ranks"]) for p in found["pipeline"]]
        causes = [
            (f["kind"], f["ranks"], f["root"].get("stage"), f["root"]["line"]) for f in found["findings"] if f["ranks"]
        ]
        right = told == [(2 * ranks, 8, list(range(ranks)))]
        if right and causes[:1] in [[("pipeline-imbalance", [rank], stage, line)] for line in lines]:
            return
    raise AssertionError((told, causes))


@pytest.mark.slow
@pytest.mark.long
def test_a_real_job_that_decodes_one_microbatch_at_a_time(tmp_path: Path) -> None:
    options = ["--order", "decode", "--nmb", "1", "--tokens", "12", "--steps", "2", "--slow", "2:2"]
    for number in attempts(2):
        found = report(tmp_path / str(number), *options)
        (pipeline,) = found["pipeline"]
        assert (pipeline["inferred"], pipeline["stages"]) == (True, 4)
        loads = [stage["load"] for stage in pipeline["stage"]]
        # Three ranks wait whatever the split; on a loaded machine some of that is the host's.
        if loads == pytest.approx([0.8, 0.8, 1.6, 0.8], abs=0.1) and pipeline["shares"]["schedule"] > 0.5:
            return
    raise AssertionError((loads, pipeline["shares"]))


@pytest.mark.slow
def test_a_real_mpi_program(mpi: Mpi) -> None:  # noqa: F811
    source = PROGRAMS / "one_f_one_b.c"
    line = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if "/* slow */" in text)
    compiled = mpi.compile(source)
    for number in attempts(2):
        found = scalana.analyze(mpi.record(4, compiled, name=f"run{number}"))
        (pipeline,) = found.analysis.sections["pipeline"]
        assert pipeline.recorded.inferred and pipeline.diagnosis.schedule == "1F1B"
        told = [(finding.kind, finding.ranks, finding.line) for finding in found.findings if finding.ranks]
        if told[:1] == [("pipeline-imbalance", [2], line)]:
            return
    raise AssertionError(told)
