"""Compilations of torch.compile are recorded as spans, and the program is none the wiser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.needs import torch_or_skip

from . import jobs
from .test_spans import told

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = """
import torch

@torch.compile(backend="eager", dynamic=False)
def double(x):
    return 2 * x

print([float(double(torch.ones(size)).sum()) for size in (2, 3, 2, 4)])
"""


def test_each_compilation_is_a_span(tmp_path: Path) -> None:
    done = jobs.with_torch("-c", PROGRAM, record=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[4.0, 6.0, 4.0, 8.0]\n"
    (record,) = jobs.records(tmp_path)
    spans = [(name, attributes) for _, name, _, attributes in told(record)]
    ids = [attributes["id"] for name, attributes in spans if name == "torch.compile"]
    assert ids == ["0/0", "0/1", "0/2"]
    assert all(attributes["kind"] == "compile" for name, attributes in spans if name == "torch.compile")


def test_what_torch_does_not_tell_of_a_compilation_is_left_out(tmp_path: Path) -> None:
    program = """
import types
from scalana.runtime.torch.compiling import record_compilation
begins, ends = [], []
record_compilation(types.SimpleNamespace(on_compile_start=begins.append, on_compile_end=ends.append))
begins[0]()  # as an older torch does
ends[0]()
ends[0](None)
"""
    done = jobs.python(program, tmp_path, extra={"PYTHONPATH": str(jobs.ROOT)})
    assert done.returncode == 0, done.stderr
    (record,) = jobs.records(tmp_path)
    assert [(name, attributes) for _, name, _, attributes in told(record)] == [("torch.compile", {"kind": "compile"})]
