"""Models to graphs: modules, operators with lines, shapes and costs, and what cannot be captured."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from scalana.frontend.models.build import ModelGraph, model_graph
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind
from tests.needs import Later, torch_or_skip

torch_or_skip()
pytestmark = pytest.mark.slow

NETS = "tests.frontend.models.nets"
torch, nets = Later("torch"), Later(NETS)


def graph_of(name: str, *inputs: str) -> ModelGraph:
    return model_graph(f"{NETS}:{name}", inputs)


def named(psg: PSG, name: str) -> list[Vertex]:
    return [vertex for vertex in psg.vertices if vertex.place.name == name]


def operators(graph: ModelGraph) -> list[Vertex]:
    return [vertex for vertex in graph.psg.vertices if vertex.kind is VertexKind.OP and not vertex.children]


def line_of(thing: object, text: str) -> int:
    """The line in which a function or class of the models says something."""
    lines, first = inspect.getsourcelines(thing)  # type: ignore[arg-type]
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("name", ["encoder", "decoder", "resnet"])
def test_flops_are_those_of_torch_and_every_operator_has_a_line_in_a_module(name: str) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    model, inputs = getattr(nets, name)()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(inputs)
    graph = graph_of(name)
    assert graph.way == "export" and graph.psg.warnings == []
    assert graph.flops[0] == counter.get_total_flops() > 0 and graph.uncounted[0] == 0
    assert graph.parameters[0] == sum(parameter.numel() for parameter in model.parameters())
    for vertex in operators(graph):
        assert vertex.place.line > 0 and Path(vertex.place.file).is_file()
        assert graph.psg.enclosing(vertex.index, VertexKind.REGION) > 0


def test_attention_is_counted_on_a_cpu_too() -> None:
    graph = graph_of("decoder")
    attention = named(graph.psg, "aten.scaled_dot_product_attention")
    batch, heads, length, size = 2, 4, 16, 16
    assert [graph.flops[vertex.index] for vertex in attention] == [2 * 2 * batch * heads * length * length * size] * 2


def test_modules_nest_with_class_source_and_call() -> None:
    graph = graph_of("decoder")
    psg = graph.psg
    (up,) = named(psg, "layers.1.mlp.up")
    mlp = psg[up.parent]
    assert (mlp.place.name, mlp.kind, graph.classes[mlp.index]) == ("layers.1.mlp", VertexKind.REGION, f"{NETS}.SwiGLU")
    assert mlp.place.file == nets.__file__ and mlp.place.line == line_of(nets.SwiGLU, "class SwiGLU")
    assert mlp.site is not None and mlp.site.line == line_of(nets.DecoderLayer, "self.mlp(")
    assert up.site is not None and up.site.line == line_of(nets.SwiGLU, "self.up(x)")
    assert [vertex.place.name for vertex in psg.ancestors(mlp.index)][0] == "layers.1"
    model = psg[psg[0].children[0]]
    assert (model.place.name, model.place.line) == ("Decoder", line_of(nets.Decoder, "class Decoder"))


def test_operators_have_shape_cost_and_data_edges_in_order() -> None:
    graph = graph_of("decoder")
    psg = graph.psg
    (down,) = named(psg, "layers.0.mlp.down")
    product = psg[down.children[0]]
    assert product.place.name == "aten.linear"
    assert (graph.shapes[product.index], graph.dtypes[product.index]) == ((2, 16, 64), "float32")
    assert graph.flops[product.index] == 2 * 2 * 16 * 192 * 64
    assert graph.bytes[product.index] == 4 * (2 * 16 * 192 + 64 * 192 + 2 * 16 * 64)
    assert graph.parameters[down.index] == 64 * 192
    before = [psg[source] for source, target in psg.data if target == product.index]
    assert [vertex.place.name for vertex in before] == ["aten.mul.Tensor"]
    assert before[0].place.line == line_of(nets.SwiGLU, "functional.silu(") == line_of(nets.SwiGLU, "self.down(f")
    order = [vertex.index for vertex in psg.walk()]
    assert order == sorted(order) and all(source < target for source, target in psg.data)
    views = [vertex for vertex in operators(graph) if vertex.place.name == "aten.transpose.int"]
    assert views and all(graph.bytes[vertex.index] == 0 for vertex in views)


def test_what_is_switched_off_for_gradients_is_in_its_module() -> None:
    psg = graph_of("decoder").psg
    (rotary,) = named(psg, "rotary")
    assert {"aten.cos", "aten.sin"} <= {psg[child].place.name for child in rotary.children}
    assert psg[rotary.parent].parent == 0
    (cos,) = (child for child in rotary.children if psg[child].place.name == "aten.cos")
    readers = {psg[target].place.line for source, target in psg.data if source == cos}
    assert readers == {line_of(nets.rotated, "return x * cos")}


def test_a_module_that_is_called_twice_is_two_regions() -> None:
    graph = graph_of("twice")
    calls = named(graph.psg, "norm")
    assert [graph.parameters[vertex.index] for vertex in calls] == [16, 16] and graph.parameters[0] == 16


def test_sizes_that_depend_on_data_are_names_and_their_flops_unknown() -> None:
    graph = graph_of("experts")
    assert graph.way == "export"
    (gate,) = named(graph.psg, "experts.2.gate")
    (product,) = gate.children
    shape = graph.shapes[product]
    assert shape is not None and isinstance(shape[0], str) and shape[1] == 64
    assert graph.flops[product] == -1 and graph.flops[gate.index] == -1
    assert graph.uncounted[0] == 3 * 4
    (router,) = named(graph.psg, "router")
    assert graph.flops[router.index] == 2 * 24 * 32 * 4 == graph.flops[0]


@pytest.mark.parametrize(("name", "rows"), [("first_rows", 4), ("more_rows", 16)])
def test_what_export_does_not_know_goes_in_and_out(name: str, rows: int) -> None:
    graph = graph_of(name)
    assert graph.way == "export" and graph.psg.warnings == []
    (linear,) = named(graph.psg, "aten.linear")
    assert graph.shapes[linear.index] == (rows, 8)


def test_a_branch_by_data_stays_a_module_and_is_named() -> None:
    graph = graph_of("early_exit")
    psg = graph.psg
    assert graph.way == "fx"
    exported, whole = psg.warnings
    where = f"nets.py:{line_of(nets.Gate, 'if self.score')}"
    assert "torch.export" in exported and "module gate" in exported and "depends on data" in exported
    assert whole.startswith("module gate is not analysed") and where in whole and where in exported
    (gate,) = named(psg, "gate")
    assert [psg[child].place.name for child in gate.children] == ["gate.score", "gate.more"]
    assert gate.site is not None and gate.site.line == line_of(nets.EarlyExit, "self.gate(")
    score, more = gate.children
    assert graph.flops[score] == 2 * 4 * 32 and graph.flops[more] == -1  # the run without data ends between them
    (last,) = named(psg, "last")
    assert psg[last.children[0]].place.name == "linear" and (gate.index, last.children[0]) in psg.data
    assert all(vertex.place.line > 0 for vertex in operators(graph))


def test_a_model_that_branches_itself_is_its_modules() -> None:
    graph = graph_of("skipping_experts")
    assert graph.way == "modules"
    assert any("the model itself is not analysed" in warning for warning in graph.psg.warnings)
    model = graph.psg[graph.psg[0].children[0]]
    names = [graph.psg[child].place.name for child in model.children]
    assert names == ["router", "experts.0", "experts.1", "experts.2", "experts.3"]


def test_without_inputs_modules_and_lines_are_there_and_it_says_what_to_write() -> None:
    graph = graph_of("Decoder")
    assert any("--inputs 4x128" in warning and "forward(tokens)" in warning for warning in graph.psg.warnings)
    assert graph.way in ("fx", "modules") and graph.flops[0] == -1 and graph.parameters[0] > 0
    assert named(graph.psg, "layers.1.mlp.up")
    assert graph_of("Decoder", "2x16:int64").flops[0] == graph_of("decoder").flops[0]


def test_arms_of_captured_control_flow_are_branches() -> None:
    graph = graph_of("conditional")
    psg = graph.psg
    arms = [vertex for vertex in psg.vertices if vertex.kind is VertexKind.BRANCH]
    assert len(arms) == 2 and psg[arms[0].parent] is psg[arms[1].parent]
    product = 2 * 4 * 8 * 8
    assert graph.flops[0] == product  # of one arm, the dearest, as torch counts
    assert {psg[arm.children[0]].place.name for arm in arms} == {"aten.linear", "aten.cos"}
    assert {vertex.place.line for arm in arms for vertex in psg.walk(arm.index)} == {
        line_of(nets.Conditional, "torch.cond(")
    }


@pytest.mark.parametrize("name", ["traced", "exported", "compiled"])
def test_models_that_were_captured_or_wrapped_before(name: str) -> None:
    graph = graph_of(name)
    assert graph.flops[0] == 2 * 4 * 8 * 8 + 2 * 4 * 8 * 2 and graph.parameters[0] == 8 * 9 + 2 * 9
    assert [vertex.place.line > 0 for vertex in operators(graph)] == [True] * 3
    (inner,) = named(graph.psg, "1.0")
    assert graph.psg[inner.parent].place.name == "1"


def test_a_model_of_any_size_takes_no_memory() -> None:
    graph = graph_of("huge", "4x100000")
    assert graph.parameters[0] == 10 * 100_000**2 and graph.flops[0] == 10 * 2 * 4 * 100_000**2


def test_a_factory_that_needs_data_gets_it() -> None:
    graph = graph_of("needs_data", "3x4")
    assert graph.way == "export" and graph.flops[0] == 2 * 3 * 4 * 4
    assert "needs_data was built with its data" in graph.psg.warnings[0]


def test_a_module_object_and_inputs_of_a_function() -> None:
    assert graph_of("ALREADY_MADE", f"{NETS}:batch").flops[0] == 2 * 5 * 8 * 8


def test_inputs_that_do_not_fit_are_told_with_module_and_line() -> None:
    graph = graph_of("EarlyExit", "4x31")
    assert graph.way == "fx" and graph.flops[0] == -1
    assert "because of module first.0: RuntimeError" in graph.psg.warnings[0]
    assert "torch/nn/modules/linear.py:" in graph.psg.warnings[0]
