"""Call paths of the stacks that traces have, and the lines in them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import scalana
from scalana.importers.call_lines import CallLines
from scalana.importers.frames import called_name, is_library
from scalana.importers.nesting import innermost, nested
from scalana.importers.registry import import_traces

PROGRAM = """\
import torch


@torch.no_grad()
def helper(x):
    return x @ x


def train(x):
    for _ in range(3):
        y = helper(x)
        y = y.relu(); y.sum()
        z = [helper(v) for v in y]
    return torch.relu(y) + z


train(1)
"""


def event(kind, name, start, length, **arguments):
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, "args": arguments}


def paths(folder):
    """The vertices at which anything was seen, as function and line."""
    ppg = scalana.analyze(folder).ppg
    seen = np.flatnonzero(ppg.metrics["samples"].sum(axis=1))
    return {(ppg.psg.function_of(v), ppg.psg[v].place.line) for v in seen.tolist()}


def test_lines_of_calls_are_found_in_the_source(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    lines = CallLines()
    assert lines.line(str(file), 0, ["train"]) == 17
    assert lines.line(str(file), 9, ["sum"]) == 12
    assert lines.line(str(file), 9, ["helper"]) == 0, "two lines call it"
    assert lines.line(str(file), 9, ["wrapper", "sum"]) == 12, "what the wrapper calls"
    assert lines.line(str(file), 4, ["matmul"]) == 6, "a function begins with its first decorator"
    assert lines.line(str(tmp_path / "none.py"), 4, ["matmul"]) == 0


def test_stacks_of_python_functions(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    events = [
        event("python_function", "train.py(1): <module>", 0, 3000),
        event("python_function", "train.py(9): train", 100, 2800),
        event("python_function", "torch/_tensor.py(40): sum", 200, 1000),
        event("cpu_op", "aten::sum", 300, 800),
        event("python_function", "train.py(4): helper", 1500, 1000),
        event("cpu_op", "aten::matmul", 1600, 800),
    ]
    trace = tmp_path / "rank0.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    import_traces([str(trace)], str(tmp_path / "run"), str(tmp_path))
    found = paths(tmp_path / "run")
    assert ("train", 12) in found and ("helper", 6) in found


def test_stacks_that_stand_with_operators_have_their_lines(tmp_path):
    stack = "torch/nn/functional.py(1): relu;model.py(30): forward;main.py(7): <module>"
    trace = tmp_path / "rank0.json"
    trace.write_text(json.dumps({"traceEvents": [event("Operator", "aten::relu", 0, 1000, **{"Call stack": stack})]}))
    import_traces([str(trace)], str(tmp_path / "run"), str(tmp_path))
    assert {function for function, _ in paths(tmp_path / "run")} == {"forward"}


def test_backward_threads_belong_to_what_the_main_thread_asked_for(tmp_path):
    other = {"tid": 2}
    events = [
        event("user_annotation", "## backward ##", 0, 1000),
        {**event("cpu_op", "autograd::engine::evaluate_function: MulBackward0", 100, 800), **other},
        {**event("cpu_op", "MulBackward0", 150, 700), **other},
    ]
    trace = tmp_path / "rank0.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    import_traces([str(trace)], str(tmp_path / "run"), str(tmp_path))
    psg = scalana.analyze(tmp_path / "run").ppg.psg
    (vertex,) = [v.index for v in psg.vertices if v.kind.value == "function" and v.place.name == "MulBackward0"]
    above = set()
    while vertex >= 0:
        above.add(psg[vertex].place.name)
        vertex = psg[vertex].parent
    assert "## backward ##" in above


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("train.py(9): Net.forward", "forward"),
        ("<built-in method mm of type object at 0x7f>", "mm"),
        ("aten::addmm", "addmm"),
    ],
)
def test_what_a_call_looks_like(name, bare):
    assert called_name(name) == bare


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("torch/nn/modules/module.py", True),
        ("threading.py", True),
        ("/usr/lib/python3.11/queue.py", True),
        ("/opt/venv/lib/python3.11/site-packages/x.py", True),
        (f"/tmp/torchinductor_me/ab/cab{'x2' * 24}7.py", True),
        ("train.py", False),
        ("model/blocks.py", False),
        ("/home/me/project/train.py", False),
    ],
)
def test_whose_a_file_is(file, library):
    assert is_library(file) is library


def test_what_is_inside_of_what():
    start, end = np.array([0, 10, 20, 60, 95]), np.array([100, 50, 30, 90, 101])
    order, around = nested(start, end)
    assert order.tolist() == [0, 1, 2, 3, 4] and around.tolist() == [-1, 0, 1, 0, 0]
    times = np.array([5, 15, 25, 40, 55, 70, 99, 100, 200])
    assert innermost(start, end, order, times).tolist() == [0, 1, 2, 1, 0, 3, 4, 4, -1]
