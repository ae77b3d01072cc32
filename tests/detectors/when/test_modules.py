"""Modules of a synthetic run: their times over ranks, and which of them a finding is in."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Where
from scalana.detectors.run import analyze
from scalana.detectors.when.module_times import MODULES
from scalana.detectors.when.module_work import WORK
from scalana.detectors.when.roofline import ROOFLINE, Ceilings, roofline
from scalana.report import data, text
from scalana.runtime.chosen_steps import Chosen, is_chosen
from scalana.runtime.record import layout
from scalana.runtime.record.format import SPAN_TYPE
from tests.graphs.runs import FILE, LIBRARY, MS, Rank, allreduce, build, make_ranks
from tests.known import with_section

ROOT = Path(__file__).resolve().parents[3]
STEPS = 20
TORCH = f"{LIBRARY}/torch/nn/modules/module.py", "Module._wrapped_call_impl", 1
NET = [(FILE, "<module>", 40), TORCH]
LAYER = [*NET, (FILE, "Net.forward", 12), TORCH]
EXPERT = [*LAYER, (FILE, "Layer.forward", 22), TORCH]
EXPERT_WORK = [*EXPERT, (FILE, "Expert.forward", 32)]
BACKWARD = [(FILE, "<module>", 42), (f"{LIBRARY}/torch/_tensor.py", "Tensor.backward", 1)]


def span(rank: Rank, name: str, kind: str, path: list[tuple[str, str, int]], begin: float, step: int, **more) -> None:
    attributes = {"direction": "forward", "class": kind, "root": "Net", **more}
    length = round((rank.now - begin) * MS)
    where = {"path": rank.path(path), "step": step, "attributes": attributes}
    if name.endswith("expert"):
        where["cpu_ns"] = length
    rank.writer.span(SPAN_TYPE["module"], name, round(begin * MS), length, **where)


def step(rank: Rank, number: int, slow: bool, elements: int) -> None:
    """Two layers with an expert each, and their backward, which takes as long."""
    timed = is_chosen(number)
    begin = rank.now
    for layer in range(2):
        inside = rank.now
        expert_ms = 40 if slow and layer else 10
        rank.work(LAYER, 5)
        expert = rank.now
        rank.work(EXPERT_WORK, expert_ms)
        if timed:
            span(rank, f"layers.{layer}.expert", "Expert", EXPERT, expert, number, elements=elements)
            span(rank, f"layers.{layer}", "Layer", LAYER, inside, number, elements=64)
    if timed:
        span(rank, "", "Net", NET, begin, number, elements=64)
    begin = rank.now
    for layer in (1, 0):
        inside = rank.now
        rank.work(BACKWARD, 15)
        if timed:
            span(rank, f"layers.{layer}", "Layer", BACKWARD, inside, number, direction="backward")
    if timed:
        span(rank, "", "Net", BACKWARD, begin, number, direction="backward")


def count(rank: Rank, slow: bool) -> None:
    """One product of 2 GFLOP in each expert, as it would be counted on two steps."""
    content = {
        "machine": {"cpu": "A", "cores": 4, "threads": 1, "torch": "2", "device": ""},
        "modules": [["Net", f"layers.{layer}.expert", "Expert", "forward"] for layer in range(2)],
        "kinds": [["aten::mm", "Float[1000,1000,];Float[1000,1000,];>Float[1000,1000,];"]],
        "steps": [2, 3],
        "rows": [
            [row, layer, 0, 1, *([(38 if slow and layer else 9) * MS] * 2)] for row in range(2) for layer in range(2)
        ],
    }
    Path(layout.operators_file(rank.file)).write_text(json.dumps(content))


def run(folder: Path, slow_rank: int = 1, elements: int = 64) -> Analysis:
    ranks = make_ranks(folder, 3)
    for number in range(STEPS):
        for rank in ranks:
            begin = rank.now
            step(rank, number, rank.rank == slow_rank, elements if rank.rank == slow_rank else 64)
            if number:
                rank.marked_step(number, begin, 10)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
        count(rank, rank.rank == slow_rank)
    return analyze(build(folder, command=["train"]))


def test_a_finding_names_the_module_that_takes_longer(tmp_path: Path) -> None:
    analysis = run(tmp_path, elements=192)
    finding = analysis.findings[0]
    assert finding.where == Where(module="layers.1.expert", module_class="Expert", direction="forward")
    assert finding.lost_s == pytest.approx(2 * STEPS * 0.030, rel=0.1)
    told = finding.evidence.as_dict()["module_time"]
    assert isinstance(told, dict)
    assert told["seconds_here"] == pytest.approx(0.040) and told["seconds_others"] == pytest.approx(0.010)
    assert told["cpu_here"] == pytest.approx(0.040) and told["cpu_others"] == pytest.approx(0.010)
    report = text.render(analysis, width=200)
    assert "forward of module layers.1.expert (Expert): 40 ms a step, on other ranks 10 ms" in report
    assert "its input has 3.0 times as many elements" in report


@pytest.mark.parametrize(
    ("backward_of", "forward_ms", "lines"),
    [
        ("layers.1.expert", 3, [42, 32]),
        ("layers.1", 3, [42, 32]),
        ("layers.1.expert", 10, [32, 42]),
        ("layers.0.expert", 3, [42]),
    ],
    ids=["one module", "one around it", "each worth it", "another"],
)
def test_forward_and_backward_of_one_cause_are_one_finding(
    tmp_path: Path, backward_of: str, forward_ms: int, lines: list[int]
) -> None:
    """Both passes of a module take longer on rank 1; the forward perhaps too little to be told by itself."""
    ranks = make_ranks(tmp_path, 2)
    for number in range(STEPS):
        for rank in ranks:
            begin, slow = rank.now, rank.rank == 1
            rank.work("load", 100)
            inside = rank.now
            rank.work(EXPERT_WORK, 40 + slow * forward_ms)
            if is_chosen(number):
                span(rank, "layers.1.expert", "Expert", EXPERT, inside, number)
            inside = rank.now
            rank.work(BACKWARD, 60 if slow else 40)
            if is_chosen(number):
                span(rank, backward_of, "Expert", BACKWARD, inside, number, direction="backward")
            rank.marked_step(number, begin)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    analysis = analyze(build(tmp_path, command=["train"]))
    (finding,) = analysis.findings
    passes = finding.evidence.passes or []
    assert [finding.line, *(one.line for one in passes)] == lines
    lost_ms = {42: 20, 32: forward_ms}
    assert finding.lost_s == pytest.approx(STEPS * sum(lost_ms[line] for line in lines) * 1e-3, rel=0.2)
    assert finding.saving_s == pytest.approx(finding.lost_s, rel=0.1)
    for one in passes:
        assert one.lost_s == pytest.approx(STEPS * lost_ms[one.line] * 1e-3, rel=0.2)
        assert f"of this are due to its {one.direction}, at" in text.render(analysis, width=200)


def test_modules_are_told_over_ranks_without_waiting(tmp_path: Path) -> None:
    analysis = run(tmp_path)
    told = data.document(analysis)["modules"]
    assert told["steps"] == [number for number in range(STEPS) if is_chosen(number)]
    modules = {(module["name"], module["class"]): module for module in told["modules"]}
    assert list(modules) == [
        ("", "Net"), ("layers.0", "Layer"), ("layers.0.expert", "Expert"), ("layers.1", "Layer"),
        ("layers.1.expert", "Expert"),
    ]  # fmt: skip
    net, expert = modules["", "Net"], modules["layers.1.expert", "Expert"]
    assert net["forward_s"] == pytest.approx({"least": 0.030, "median": 0.030, "most": 0.060})
    assert net["backward_s"] == pytest.approx({"least": 0.030, "median": 0.030, "most": 0.030})
    assert expert["forward_s"]["most"] == pytest.approx(0.040) and "backward_s" not in expert
    report = text.render(analysis, width=200)
    assert "layers.*.expert  2 x Expert" in report and "for an input of the same size" in report


def test_the_same_work_at_a_part_of_the_speed_is_said_and_is_below_the_ceiling(tmp_path: Path) -> None:
    analysis = run(tmp_path)
    told = analysis.findings[0].evidence.as_dict()["module_work"]
    assert isinstance(told, dict) and told["different"] == "time"
    assert told["flops_here"] == told["flops_others"] == 2e9 and told["speed"] == pytest.approx(0.25)
    assert "computes the same as on other ranks (2 GFLOP a step), at 0.25 of their speed" in text.render(analysis)
    assert analysis.section(WORK) is not None
    ceilings = Ceilings({"float32": 400e9}, ((1 << 26, 100e9),))
    analysis = with_section(analysis, ROOFLINE, roofline(analysis.section(WORK), dict.fromkeys(range(3), ceilings)))
    whole = data.document(analysis)
    jsonschema.validate(whole, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    by_name = {module["name"]: module.get("work", {}) for module in whole["modules"]["modules"]}
    expert, net = by_name["layers.0.expert"]["forward"], by_name[""]["forward"]
    assert expert["flops"] == 2e9 and net["flops"] == 4e9 and expert["bound"] == "compute"
    assert expert["seconds"] == pytest.approx(0.010) and expert["between_operators_s"] == pytest.approx(0.001)
    assert expert["least_s"] == pytest.approx(0.005) and expert["own_gain_s"] == pytest.approx(0.005)
    assert net["reached"] == pytest.approx(1 / 3, rel=1e-4)
    report = text.render(analysis, width=200)
    assert "Below what this machine can do" in report and "in layers.* (2 x Layer), mostly between operators" in report


def test_without_a_slow_rank_there_is_no_module_to_name(tmp_path: Path) -> None:
    analysis = run(tmp_path, slow_rank=-1)
    assert not analysis.findings and analysis.section(MODULES) is not None


def test_dear_steps_are_chosen_less_often_and_are_part_of_the_others_choice() -> None:
    cheap, dear = Chosen(), Chosen()
    cheap.cost(spent_ns=1_000, step_ns=1_000_000)
    dear.cost(spent_ns=300_000, step_ns=1_000_000)
    assert cheap.one_of == 16 and dear.one_of == 64
    usual, fewer = ({number for number in range(10_000) if number in choice} for choice in (cheap, dear))
    assert fewer < usual and len(usual) == pytest.approx(10_000 / 16, rel=0.1)
    assert len(fewer) == pytest.approx(10_000 / 64, rel=0.2)


def test_models_of_one_class_that_come_one_after_the_other_are_told_apart(tmp_path: Path) -> None:
    ranks = make_ranks(tmp_path, 2)
    for number in range(6 * STEPS):
        late, line = (0, 42) if number < 3 * STEPS else (1, 52)
        path = [(FILE, "<module>", line), BACKWARD[1]]
        for rank in ranks:
            begin = rank.now
            rank.work(NET, 10)
            if is_chosen(number):
                span(rank, "", "Net", NET, begin, number)
            begin = rank.now
            for layer in (1, 0):
                inside = rank.now
                rank.work(path, 60 if rank.rank and layer == late else 20)
                if is_chosen(number):
                    span(rank, f"layers.{layer}", "Layer", path, inside, number, direction="backward")
            if is_chosen(number):
                span(rank, "", "Net", path, begin, number, direction="backward")
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    found = {finding.line: finding.where for finding in analyze(build(tmp_path, command=["train"])).findings}
    for line, late in ((42, 0), (52, 1)):
        assert found[line] == Where(module=f"layers.{late}", module_class="Layer", direction="backward")
