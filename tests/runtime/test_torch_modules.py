"""Modules of torch are timed on some steps, and nothing that a program computes or says changes by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import scalana
from scalana.graphs.spans.modules import DIRECTIONS, module_calls
from scalana.graphs.structure.psg import VertexKind

from . import jobs

pytestmark = pytest.mark.slow

WAYS = ("plain", "checkpointed", "hooked", "replicated", "sharded", "compiled")


class Outcome(NamedTuple):
    """A program that ran with and without recording."""

    plain: str
    recorded: str
    report: scalana.Report


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("run")
    command = [jobs.PROGRAMS / "module_steps.py", *WAYS]
    without, recorded = jobs.with_torch(*command), jobs.with_torch(*command, record=folder)
    said = [f"{one.returncode}\n{one.stdout}\n{one.stderr}" for one in (without, recorded)]
    return Outcome(*said, scalana.analyze(folder))


def test_nothing_that_a_program_computes_or_says_changes(outcome: Outcome) -> None:
    assert outcome.recorded == outcome.plain
    assert outcome.plain.startswith("0\n") and "graphs" in outcome.plain
    assert not [warning for warning in outcome.report.warnings if "torch" in warning]


def test_modules_have_their_names_and_directions(outcome: Outcome) -> None:
    calls = module_calls(outcome.report.ppg.spans)
    seen = {
        (calls.modules[module].root, calls.modules[module].name, calls.modules[module].kind, DIRECTIONS[way])
        for module, way in zip(calls.module.tolist(), calls.direction.tolist(), strict=True)
    }
    for name, kind in (("", "Net"), ("embedding", "Embedding"), ("blocks.1", "Block"), ("blocks.0.down", "Linear")):
        for way in DIRECTIONS[:2]:
            assert ("Net", name, kind, way) in seen
    assert ("Net", "blocks.0", "Block", "recompute") in seen
    assert ("Net", "", "DistributedDataParallel", "forward") in seen
    assert ("Net", "", "OptimizedModule", "backward") in seen
    assert {root for root, *_ in seen} == {"Net"}


def test_the_forwards_of_a_step_lie_within_that_of_the_model(outcome: Outcome) -> None:
    spans = outcome.report.ppg.spans
    calls = module_calls(spans)
    forward = calls.direction == DIRECTIONS.index("forward")
    start, end = spans.start_s(calls.row), spans.end_s(calls.row)
    modules = calls.modules  # a wrapper is no part of what was first called without it
    inner = [one.parent if one.parent >= 0 and modules[one.parent].name != one.name else -1 for one in modules]
    parent = np.array(inner)[calls.module]
    assert (calls.step >= 1).all() and (end >= start).all()
    for number in np.flatnonzero(forward & (parent >= 0)).tolist():
        around = forward & (calls.module == parent[number]) & (calls.step == calls.step[number])
        assert (around & (start <= start[number]) & (end >= end[number])).any()


def test_the_backward_of_a_block_lasts_until_the_one_before_it_begins(outcome: Outcome) -> None:
    spans = outcome.report.ppg.spans
    calls = module_calls(spans)
    start, end = spans.start_s(calls.row), spans.end_s(calls.row)
    names = np.array([module.name for module in calls.modules])[calls.module]
    backward = calls.direction == DIRECTIONS.index("backward")
    checked = 0
    for step in np.unique(calls.step[backward]).tolist():
        rows = {name: np.flatnonzero(backward & (names == name) & (calls.step == step)) for name in set(names.tolist())}
        if any(len(rows[name]) != 1 for name in ("blocks.1", "blocks.0", "blocks.1.down", "blocks.1.norm")):
            continue
        later, earlier, last, first = (
            rows[name][0] for name in ("blocks.1", "blocks.0", "blocks.1.down", "blocks.1.norm")
        )
        assert start[later] <= start[last] <= start[first] < end[later]
        assert start[earlier] <= end[later] < end[earlier]
        checked += 1
    assert checked >= 8


def test_graphs_that_are_compiled_stand_below_the_call_of_what_was_compiled(outcome: Outcome) -> None:
    psg = outcome.report.ppg.psg
    operators = [vertex for vertex in psg.vertices if vertex.kind is VertexKind.OP and vertex.place.name == "linear"]
    compiled = [vertex for vertex in operators if psg[vertex.parent].place.name.endswith("blocks.0.up")]
    assert compiled
    source = (jobs.PROGRAMS / "module_steps.py").read_text(encoding="utf-8").splitlines()
    helper = [vertex for vertex in psg.vertices if vertex.kind is VertexKind.OP and vertex.place.name == "tanh"]
    assert any("torch.tanh" in source[vertex.place.line - 1] for vertex in helper)
    assert all(psg.module_of(vertex.index) for vertex in compiled)


def test_no_second_of_a_run_is_lost_or_counted_twice_by_its_models(outcome: Outcome) -> None:
    ppg = outcome.report.ppg
    locations = ppg.timeline.locations
    whole = float((locations.end_s - locations.start_s)[locations.is_main].sum())
    assert float(ppg.metrics["time_s"].sum()) == pytest.approx(whole, rel=1e-6)
    spans = ppg.spans
    assert float(ppg.metrics["span_s"].sum()) == pytest.approx(float((spans.end_s() - spans.start_s()).sum()), rel=1e-6)
    assert len({len(values) for values in ppg.metrics.values()}) == 1 and len(ppg.metrics["time_s"]) == len(ppg.psg)
