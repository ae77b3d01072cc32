"""Time in code that inductor wrote lies at the lines that its kernels came from, and is compared there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scalana.detectors.annotate.compiled import InCompiledCode
from scalana.detectors.evidence import ModuleWorkCompared
from scalana.detectors.facts import Facts
from scalana.detectors.run import analyze
from scalana.frontend.models.recorded import with_models
from scalana.graphs.ppg import PPG
from scalana.graphs.structure.psg import VertexKind
from scalana.report.data import document
from scalana.report.findings.inside import in_compiled
from scalana.report.text.paint import Paint
from scalana.report.text.sections import section_lines
from scalana.report.topics import compiled
from scalana.runtime.record.layout import models_file
from tests.graphs.runs import FILE, LIBRARY, Rank, allreduce, build, make_ranks

STEPS = 20
MODULE = f"{LIBRARY}/torch/nn/modules/module.py", "Module._wrapped_call_impl", 1
EVAL = f"{LIBRARY}/torch/_dynamo/eval_frame.py", "_fn", 1
COMPILER = f"{LIBRARY}/torch/_dynamo/convert_frame.py", "ConvertFrame.__call__", 1
AUTOGRAD = f"{LIBRARY}/torch/autograd/graph.py", "_engine_run_backward", 1
FORWARD, BACKWARD, OTHER = (f"/tmp/torchinductor_me/{start}/c{start}{'x2' * 24}7.py" for start in ("ab", "cd", "ef"))
CALLED = [(FILE, "<module>", 40), MODULE, (FILE, "Net.forward", 4), EVAL]
"""The function that is compiled has a frame, the line of which is that of its beginning."""
IN_BACKWARD = [(FILE, "<module>", 41), AUTOGRAD]
SMOOTH = [[FILE, 6, "forward"], [FILE, 9, "forward"]]
"""The frames of what the second module does."""
FRAMES = [*SMOOTH, [FILE, 5, "forward"]]
NORM, INNER = ["L['self'].layers[0].norm", "torch.nn.LayerNorm"], ["L['self'].smooth", "__main__.Smooth"]
SOURCES = [
    {"op": "sin", "frames": [0, 1], "modules": [INNER]},
    {"op": "gelu", "frames": [2], "modules": [NORM]},
    {"op": "t", "frames": [2], "modules": [NORM]},
    {"op": "mm", "frames": [2], "modules": [NORM]},
    {"op": "add", "frames": [], "modules": []},
]
WRAPPERS = [
    {
        "file": FORWARD,
        "compilation": "0/0",
        "phase": "forward",
        "by": "writing",
        "calls": [
            {"line": 33, "kernel": "cpp_fused_gelu_sin_0", "sources": [[1, 100], [0, 900]]},
            {"line": 35, "kernel": "extern_kernels.mm", "sources": [[2, 0], [3, 500]]},
        ],
    },
    {
        "file": BACKWARD,
        "compilation": "0/0",
        "phase": "backward",
        "by": "writing",
        "calls": [{"line": 50, "kernel": "cpp_fused_sin_0", "sources": [[0, 700], [4, 10]]}],
    },
    {
        "file": OTHER,
        "compilation": "0/1",
        "phase": "forward",
        "by": "kept",
        "calls": [{"line": 21, "kernel": "cpp_fused_sin_0", "sources": [[0, 700]]}],
    },
]


def step(rank: Rank, number: int, late_ms: float) -> None:
    if number == 0:
        rank.work([*CALLED[:2], EVAL, COMPILER, (FORWARD, "<module>", 10)], 300)
    wrapper, line = (OTHER, 21) if rank.rank == 1 else (FORWARD, 33)  # ranks have other code for one line
    rank.work([*CALLED, (wrapper, "Runner.call", line)], 20 + late_ms)
    rank.work([*CALLED, (FORWARD, "Runner.call", 35)], 15)
    rank.work([*CALLED, (FORWARD, "Runner.call", 34)], 5)  # no kernel: memory
    rank.work([*IN_BACKWARD, (BACKWARD, "Runner.call", 50)], 10)


def run(folder: Path, late_ms: float = 0.0, wrappers: list = WRAPPERS) -> PPG:
    ranks = make_ranks(folder, 3)
    for number in range(STEPS):
        for rank in ranks:
            begin = rank.now
            step(rank, number, late_ms if rank.rank == 1 else 0.0)
            rank.marked_step(number, begin)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    told = {"models": [], "frames": FRAMES, "graphs": [], "sources": SOURCES, "wrappers": wrappers}
    Path(models_file(str(ranks[0].file))).write_text(json.dumps(told))
    return build(folder, command=["train"])


def at_lines(ppg: PPG) -> dict[tuple[str, int], float]:
    """Seconds of all ranks outside of communication, by file and line; by what compiles and line."""
    found: dict[tuple[str, int], float] = {}
    timeline, psg = ppg.timeline, ppg.psg
    activities = timeline.activities
    for row, vertex in enumerate(activities.vertex.tolist()):
        seconds = float(timeline.own.seconds[timeline.own.activity == row].sum())
        key = psg[vertex].place.name if psg[vertex].place.name == "torch.compile" else psg[vertex].place.file
        where = key, int(activities.line[row])
        found[where] = found.get(where, 0.0) + seconds
    return {where: seconds for where, seconds in found.items() if seconds}


def test_to_import_the_compiler_is_not_to_compile(tmp_path: Path) -> None:
    """As DDP does when it is made."""
    (rank,) = make_ranks(tmp_path, 1)
    ddp = f"{LIBRARY}/torch/nn/parallel/distributed.py", "DistributedDataParallel.__init__", 1
    rank.work([(FILE, "<module>", 30), ddp, (COMPILER[0], "<module>", 7)], 300)
    rank.work([*CALLED[:2], EVAL, COMPILER, (FORWARD, "<module>", 10)], 200)
    rank.call("allreduce", rank.now + 1, where="sum", seq=1)
    rank.end()
    found = at_lines(build(tmp_path, command=["train"]))
    assert [line for place, line in found if place == "torch.compile"] == [40]
    assert found["torch.compile", 40] == pytest.approx(0.2, abs=0.02)


def test_kernels_lie_at_the_lines_that_they_do_most_of(tmp_path: Path) -> None:
    each = 3 * STEPS * 0.001
    assert at_lines(run(tmp_path)) == {
        ("torch.compile", 40): pytest.approx(3 * 0.300, rel=0.02),
        (FILE, 9): pytest.approx((20 + 10) * each, rel=0.02),  # forward and backward
        (FILE, 5): pytest.approx(15 * each, rel=0.02),
        (FILE, 4): pytest.approx(5 * each, rel=0.02),
    }


def test_the_function_that_was_compiled_is_once_on_the_path(tmp_path: Path) -> None:
    psg = run(tmp_path).psg
    paths = {
        tuple((one.place.name, one.place.line) for one in reversed(list(psg.ancestors(vertex.index))))[1:]
        for vertex in psg.vertices
        if vertex.place.line == 9
    }
    called = ("<module>", 1), ("Module._wrapped_call_impl", 40), ("forward", 6), ("forward", 6)
    backward = ("<module>", 1), ("_engine_run_backward", 41), ("forward", 6), ("forward", 6)
    assert paths == {called, backward}


def test_ranks_with_other_kernels_are_compared_by_the_line(tmp_path: Path) -> None:
    analysis = analyze(run(tmp_path, 40.0))
    (finding,) = analysis.findings
    assert (finding.file, finding.line, finding.ranks) == (FILE, 9, [1])
    assert finding.lost_s == pytest.approx(2 * STEPS * 0.040, rel=0.05)
    assert finding.evidence.as_dict()["compiled"] == {
        "file": FILE,
        "line": 9,
        "operators": ["sin"],
        "kernels": ["cpp_fused_gelu_sin_0", "cpp_fused_sin_0"],
        "fused_with": [{"operator": "gelu", "file": FILE, "line": 5}],
        "direction": "forward",
        "module": "smooth",
        "module_class": "Smooth",
        "known_by": "writing",
    }
    assert "compiling" not in finding.evidence.as_dict()
    assert finding.where.module == "smooth" and finding.where.operator == "sin"
    assert in_compiled(finding) == (
        "This code is compiled, in the forward of module smooth (Smooth): cpp_fused_gelu_sin_0 and 1 more, made of "
        "sin; fused with gelu of line 5."
    )


@pytest.mark.parametrize(("different", "left"), [("between", None), ("number", "number")])
def test_kernels_are_not_time_between_operators(tmp_path: Path, different: str, left: str | None) -> None:
    """They are not counted as operators."""
    ppg = run(tmp_path, 40.0)
    analysis = analyze(ppg)
    (finding,) = analysis.findings
    work = ModuleWorkCompared(different=different)
    finding = replace(finding, evidence=replace(finding.evidence, module_work=work))
    (finding,) = InCompiledCode().annotate([finding], Facts(ppg)).findings
    assert finding.evidence.module_work == ModuleWorkCompared(different=left)


def test_the_report_has_a_row_for_each_line(tmp_path: Path) -> None:
    analysis = analyze(run(tmp_path, 40.0))
    text = "\n".join(section_lines(compiled.sections(analysis)[0], 100, Paint(False)))
    assert "ms of a step" in text and "smooth (Smooth)" in text and "fused: sin; with gelu of line 5" in text
    assert "layers.*.norm (LayerNorm)" in text
    first, second = document(analysis)["compiled"]
    assert (first["file"], first["line"], first["module"]) == ("train.py", 9, "smooth")
    assert first["forward_s"]["least"] == pytest.approx(0.020, abs=0.0025)
    assert first["forward_s"]["most"] == pytest.approx(0.060, abs=0.0025)
    assert first["backward_s"]["median"] == pytest.approx(0.010, abs=0.0025)
    assert first["operators"] == [{"operator": "sin", "elements": 2300}]
    assert (second["line"], second["operators"]) == (5, [{"operator": "mm", "elements": 500}])


def test_lines_that_are_not_known_are_said_to_be(tmp_path: Path) -> None:
    unknown = [
        {**wrapper, "by": "text", "calls": [{**call, "sources": [[4, 0]]} for call in wrapper["calls"]]}
        for wrapper in WRAPPERS
    ]
    analysis = analyze(run(tmp_path, wrappers=unknown))
    assert any("torch's cache" in warning for warning in analysis.warnings)
    assert "unknown line" in "\n".join(section_lines(compiled.sections(analysis)[0], 100, Paint(False)))
    assert not any("torchinductor" in vertex.place.file for vertex in analysis.ppg.psg.vertices)


def test_operators_have_vertices_with_the_time_of_their_kernels(tmp_path: Path) -> None:
    ppg = run(tmp_path)
    before = ppg.metrics["time_s"].sum()
    grown = with_models(ppg, lambda file: "")
    assert grown is not None and len(ppg.psg) < len(grown.psg)
    ppg = grown
    each = STEPS * 0.001
    assert sorted(
        (one.place.name, one.place.line, ppg.psg.module_of(one.index), round(ppg.metrics["time_s"][one.index, 0], 3))
        for one in ppg.psg.vertices
        if one.kind is VertexKind.OP
    ) == [
        ("mm", 5, "layers.0.norm", pytest.approx(15 * each, abs=0.01)),
        ("sin", 9, "smooth", pytest.approx(10 * each, abs=0.01)),
        ("sin", 9, "smooth", pytest.approx(20 * each, abs=0.01)),
    ]
    assert ppg.metrics["time_s"].sum() == pytest.approx(before)


def test_damage_in_what_was_told_leaves_the_rest(tmp_path: Path) -> None:
    broken = [{**WRAPPERS[0], "calls": [{"line": 33, "kernel": "k", "sources": [[99, 1]]}]}]
    assert run(tmp_path, wrappers=broken).models.wrappers == {}
