"""FLOPs and bytes of operators by their shapes, beside torch's own counter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalana.graphs.readers.folder.operators import operator_kind, read_operators
from scalana.graphs.spans.operator_costs import bytes_of, flops_of, product_type


def flops(name: str, tensors: str) -> int:
    return flops_of(operator_kind(f"aten::{name}", tensors))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("mm", [(8, 4), (4, 2)], [(8, 2)]),
        ("addmm", [(2,), (8, 4), (4, 2)], [(8, 2)]),
        ("bmm", [(3, 8, 4), (3, 4, 2)], [(3, 8, 2)]),
        ("baddbmm", [(3, 8, 2), (3, 8, 4), (3, 4, 2)], [(3, 8, 2)]),
        ("_scaled_dot_product_flash_attention_for_cpu", [(2, 4, 16, 8), (2, 4, 12, 8), (2, 4, 12, 8)], [(2, 4, 16, 8)]),
        ("convolution", [(2, 6, 9, 9), (8, 3, 3, 3), (8,)], [(2, 8, 7, 7)]),
    ],
)
def test_flops_are_those_of_torch(name: str, given: list[tuple[int, ...]], made: list[tuple[int, ...]]) -> None:
    pytest.importorskip("torch")
    from torch.utils import flop_counter

    text = ["".join(f"Float[{','.join(map(str, shape))},];" for shape in shapes) for shapes in (given, made)]
    formulas = {
        "mm": flop_counter.mm_flop,
        "addmm": flop_counter.addmm_flop,
        "bmm": flop_counter.bmm_flop,
        "baddbmm": flop_counter.baddbmm_flop,
    }
    if name in formulas:
        theirs = formulas[name](*given)
    elif name == "convolution":
        theirs = flop_counter.conv_flop_count(*given[:2], made[0])
    else:
        theirs = flop_counter.sdpa_flop_count(*given)
    assert flops(name, ">".join(text)) == theirs > 0


@pytest.mark.slow
def test_flops_of_backwards_are_those_of_torch() -> None:
    pytest.importorskip("torch")
    from torch.utils import flop_counter

    shapes = (2, 4, 16, 8), (2, 4, 16, 8), (2, 4, 12, 8), (2, 4, 12, 8)
    text = "".join(f"Float[{','.join(map(str, shape))},];" for shape in shapes)
    assert flops("_scaled_dot_product_flash_attention_for_cpu_backward", text) == (
        flop_counter.sdpa_backward_flop_count(*shapes)
    )
    made, given, weight = "Float[2,8,7,7,];", "Float[2,3,9,9,];", "Float[8,3,3,3,];"
    one = flop_counter.conv_flop_count((2, 3, 9, 9), (8, 3, 3, 3), (2, 8, 7, 7))
    assert flops("convolution_backward", f"{made}{given}{weight}>{given}{weight}Float[8,];") == 2 * one
    assert flops("convolution_backward", f"{made}{given}{weight}>-;{weight}Float[8,];") == one
    transposed = flop_counter.conv_flop_count((2, 8, 7, 7), (8, 3, 3, 3), (2, 3, 9, 9), transposed=True)
    assert flops("convolution", f"{made}{weight}>{given}") == transposed


def test_bytes_are_those_of_tensors_and_of_what_is_looked_up() -> None:
    add = operator_kind("aten::add", "Float[8,4,];Float[8,4,]~;>Float[8,4,];")
    assert bytes_of(add) == 3 * 8 * 4 * 4 and flops_of(add) == 0
    lookup = operator_kind("aten::embedding", "BFloat16[50000,64,];Long[32,];>BFloat16[32,64,];")
    assert bytes_of(lookup) == 2 * (32 * 64 * 2) + 32 * 8
    assert bytes_of(operator_kind("aten::mul", "Float[?];>Float[?];")) == 0
    many = operator_kind("aten::_foreach_add", "Float[8,4,];" * 8 + "+92:11776;>" + "Float[8,4,];" * 8 + "+92:11776;")
    assert bytes_of(many) == 2 * 100 * 8 * 4 * 4 and len(many.inputs) == 8
    assert product_type(operator_kind("aten::mm", "Double[8,4,];Double[4,2,];>Double[8,2,];")) == "float64"
    attention = "BFloat16[2,4,16,8,];" * 5 + "Float[2,4,16,1,];>"  # the last are sums of exponentials
    backward = operator_kind("aten::_scaled_dot_product_flash_attention_backward", attention)
    assert flops_of(backward) > 0 and product_type(backward) == "bfloat16"
    assert flops_of(operator_kind("aten::mm", "Float[?];Float[4,2,];>Float[?];")) == 0


def test_files_of_ranks_are_read_as_one_table_and_broken_ones_left_out(tmp_path: Path) -> None:
    machine = {"cpu": "A", "cores": 4, "threads": 2, "torch": "2", "device": ""}
    for rank, steps in ((0, [3, 4]), (1, [3])):
        told = {
            "machine": machine,
            "modules": [["Net", "up", "Linear", "forward"], ["Net", "", "Net", "backward"]][: 1 + rank],
            "kinds": [["aten::mm", "Float[8,4,];Float[4,2,]~;>Float[8,2,];"]],
            "steps": steps,
            "rows": [[number, rank, 0, 5, 2_000_000, 1_000_000] for number in range(len(steps))],
        }
        (tmp_path / f"{rank}.operators.json").write_text(json.dumps(told))
    (tmp_path / "2.operators.json").write_text('{"machine": {}')
    counts = read_operators({rank: tmp_path / f"{rank}.rec" for rank in range(4)})
    assert sorted(counts.machines) == [0, 1] and counts.machines[1].threads == 2
    assert len(counts.kinds) == 1 and counts.modules[1] == ("Net", "", "Net", "backward")
    assert counts.rank.tolist() == [0, 0, 1] and counts.step.tolist() == [3, 4, 3]
    assert counts.module.tolist() == [0, 0, 1] and counts.seconds.tolist() == pytest.approx([0.002] * 3)
    assert counts.cpu_s.tolist() == pytest.approx([0.001] * 3)
