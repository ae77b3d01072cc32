"""A model whose code is a library's: its lines, modules and operators, below the line of the user's that calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalana.detectors.annotate.operators import operators_at
from scalana.detectors.finding import Where
from scalana.detectors.run import analyze
from scalana.frontend.models.recorded import with_models
from scalana.graphs.ppg import PPG
from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.chosen_steps import is_chosen
from scalana.runtime.record.format import SPAN_TYPE
from scalana.runtime.record.layout import models_file
from tests.graphs.runs import FILE, LIBRARY, MS, Rank, allreduce, build, make_ranks

STEPS = 20
HUB, TOOLS = f"{LIBRARY}/hub/decoder.py", f"{LIBRARY}/hub/tools.py"
TORCH = f"{LIBRARY}/torch/nn/modules/module.py", "Module._wrapped_call_impl", 1
NET = [(FILE, "<module>", 40), TORCH]
WRAPPER = TOOLS, "wrapper", 5
LAYER = [*NET, WRAPPER, (HUB, "Net.forward", 2), TORCH]
EXPERT = [*LAYER, WRAPPER, (HUB, "Layer.forward", 4), TORCH]
LINES = (6, 7, 8)
FORWARDS = {"Net": (HUB, 1), "Layer": (HUB, 3), "Expert": (HUB, 5)}
SOURCE = """def forward(self, x):
    for layer in self.layers: x = layer(x)
def forward(self, x):
    return self.expert(x)
def forward(self, x):
    x = x @ self.up
    x = x.relu()
    return torch.softmax(x, -1)
"""


def span(rank: Rank, name: str, kind: str, path: list[tuple[str, str, int]], begin: float, step: int) -> None:
    told = {"direction": "forward", "class": kind, "root": "Net"}
    length = round((rank.now - begin) * MS)
    where = {"path": rank.path(path), "step": step, "attributes": told}
    rank.writer.span(SPAN_TYPE["module"], name, round(begin * MS), length, **where)


def step(rank: Rank, number: int, slow: dict[int, float]) -> None:
    """Two layers with an expert each, of whose lines some take longer in the last one."""
    begin = rank.now
    rank.work([*NET, WRAPPER], 5)
    for layer in range(2):
        inside = rank.now
        for line in LINES:
            rank.work([*EXPERT, (HUB, "Expert.forward", line)], 5 + (slow.get(line, 0) if layer else 0))
        if is_chosen(number):
            span(rank, f"layers.{layer}.expert", "Expert", EXPERT, inside, number)
            span(rank, f"layers.{layer}", "Layer", LAYER, inside, number)
    if is_chosen(number):
        span(rank, "", "Net", NET, begin, number)


def run(folder: Path, slow: dict[int, float]) -> PPG:
    ranks = make_ranks(folder, 3)
    for number in range(STEPS):
        for rank in ranks:
            begin = rank.now
            step(rank, number, slow if rank.rank == 1 else {})
            if number:
                rank.marked_step(number, begin, 10)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    names = {"": "Net"} | {f"layers.{n}{x}": k for n in range(2) for x, k in (("", "Layer"), (".expert", "Expert"))}
    modules = []
    for name, kind in names.items():
        file, line = FORWARDS[kind]
        modules.append({"name": name, "class": f"hub.{kind}", "file": file, "line": line, "end_line": line + 3})
    told = {"models": [{"root": "Net", "modules": modules}], "frames": [], "graphs": []}
    Path(models_file(str(ranks[0].file))).write_text(json.dumps(told))
    return build(folder, command=["train"])


@pytest.mark.parametrize(
    ("slow", "line", "function"),
    [({7: 30.0}, 7, "Expert.forward"), (dict.fromkeys(LINES, 10.0), 4, "Layer.forward")],
    ids=["a line", "all lines of a module, and so the one that calls it"],
)
def test_a_finding_is_at_the_users_line_and_names_that_of_the_model(
    tmp_path: Path, slow: dict[int, float], line: int, function: str
) -> None:
    (finding,) = analyze(run(tmp_path, slow)).findings
    assert (finding.file, finding.line, finding.ranks) == (FILE, 40, [1])
    assert finding.lost_s == pytest.approx(2 * STEPS * 0.030, rel=0.1)
    assert finding.evidence.as_dict()["library"] == {"file": HUB, "line": line, "function": function, "calls": ""}
    assert finding.where == Where(module="layers.1.expert", module_class="Expert", direction="forward")


def test_the_time_in_a_model_lies_on_its_operators_and_modules(tmp_path: Path) -> None:
    ppg = run(tmp_path, {})
    before = ppg.metrics["time_s"].sum(axis=0)
    grown = with_models(ppg, lambda file: SOURCE if file == HUB else "")
    assert grown is not None
    psg, time = grown.psg, grown.metrics["time_s"]
    found = {
        (one.kind, one.place.name, one.place.file, one.place.line, psg.module_of(one.index)): float(time[one.index, 0])
        for one in psg.vertices
        if time[one.index, 0] and psg.module_of(one.index)
    }
    each = STEPS * 2 * 0.005
    inside = "layers.*.expert"
    assert found == {
        (VertexKind.OP, "matmul", HUB, 6, inside): pytest.approx(each),
        (VertexKind.OP, "relu", HUB, 7, inside): pytest.approx(each),
        (VertexKind.OP, "softmax", HUB, 8, inside): pytest.approx(each),
        (VertexKind.REGION, "Net", FILE, 40, "Net"): pytest.approx(each / 2),
    }
    assert time.sum(axis=0) == pytest.approx(before)
    assert operators_at(psg, HUB, 8, 8) == "softmax"
