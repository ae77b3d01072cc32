"""What is noted of kernels as inductor writes them disturbs nothing, and its lines are those of this process."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from scalana.runtime import session
from scalana.runtime.torch import compiled_kernels, models_file
from scalana.runtime.torch.wrapper_text import KernelLine


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if something were recorded; what was noted of failures."""
    notes: list[str] = []
    monkeypatch.setattr(session, "core", object())
    monkeypatch.setattr(session, "note", notes.append)
    monkeypatch.setattr(compiled_kernels, "_compilation", lambda: "0/0")
    monkeypatch.setattr(compiled_kernels, "_written", [])
    monkeypatch.setattr(compiled_kernels, "_graphs", {})
    monkeypatch.setattr(models_file, "wrappers", [])
    monkeypatch.setattr(models_file, "write", lambda: None)
    return notes


def test_whatever_torch_gives_comes_to_torch(noted: list[str]) -> None:
    """Be it of no use here, given by position or by name."""
    module = types.SimpleNamespace(set_kernel_post_grad_provenance_tracing=lambda *args, **named: (args, named))
    compiled_kernels.watch_kernels(module)
    call = module.set_kernel_post_grad_provenance_tracing
    assert call(7, "k", is_extern=True) == ((7, "k"), {"is_extern": True})
    assert call(node_schedule=[], kernel_name="k") == ((), {"node_schedule": [], "kernel_name": "k"})
    assert call() == ((), {})
    assert len(noted) == 2 and all("not known" in note for note in noted)

    class PyCodeCache:
        @classmethod
        def load_by_key_path(cls, *args: object, **named: object) -> tuple[object, ...]:
            return cls, args, named

    compiled_kernels.watch_wrappers(types.SimpleNamespace(PyCodeCache=PyCodeCache))
    assert PyCodeCache.load_by_key_path("key", "/no/such/file.py", [(1, "")]) == (
        PyCodeCache,
        ("key", "/no/such/file.py", [(1, "")]),
        {},
    )
    assert len(noted) == 3
    assert PyCodeCache.load_by_key_path("key", path="/no", attrs=None)[2] == {"path": "/no", "attrs": None}
    assert len(noted) == 3  # one kernel alone


def test_a_torch_without_these_functions_is_left_alone() -> None:
    compiled_kernels.watch_kernels(types.SimpleNamespace())
    compiled_kernels.watch_wrappers(types.SimpleNamespace(PyCodeCache=type("PyCodeCache", (), {})))


def test_kernels_with_one_name_are_called_in_the_order_in_which_they_are_written() -> None:
    calls = [KernelLine(9, "cpp_a"), KernelLine(10, "extern_kernels.mm"), KernelLine(12, "cpp_a")]
    first, second = [(0, ("sin", "x", 1))], [(1, ("cos", "y", 2))]
    written = [("cpp_a", first), ("cpp_a", second)]
    assert compiled_kernels._by_writing(calls, written) == [first, [], second]
    assert compiled_kernels._by_writing(calls, written[:1]) is None  # not of this code
    assert compiled_kernels._by_writing(calls[1:2], []) is None


def test_lines_of_what_was_kept_are_those_of_the_graph_that_was_captured(noted: list[str], tmp_path: Path) -> None:
    mine = models_file.source("gelu", [("/job/now.py", 5, "forward")], [("L['self'].up", "Linear")])
    kept = tmp_path / "kept.json"
    parts = [[(0, ("gelu_backward", "h_1", 30)), (0, ("gelu_backward", "h_1", 4)), (0, ("mm", "gone", 7))]]
    compiled_kernels._keep(str(kept), parts)
    (origins,) = compiled_kernels._kept(str(kept), 1) or []
    rows = compiled_kernels._looked_up(origins, {"h_1": mine})
    found = {models_file._by_row[row][0]: (models_file.innermost(row), work) for row, work in rows.items()}
    assert found == {"gelu_backward": (("/job/now.py", 5, "forward"), 34), "mm": (None, 7)}
    assert compiled_kernels._kept(str(kept), 2) is None  # of other code
    kept.write_text("{")
    assert compiled_kernels._kept(str(kept), 1) is None


def test_lines_that_torch_keeps_count_where_the_captured_graph_has_them(noted: list[str]) -> None:
    here = models_file.source("sin", [("/job/text.py", 8, "forward")], [("L['self'].a", "A")])
    there = models_file.source("cos", [("/job/text.py", 8, "forward")], [("L['self'].b", "A")])
    known = {"sin": here, "cos": there}
    calls = [KernelLine(20, "cpp_fused_sin_0"), KernelLine(30, "cpp_fused_cos_1")]
    trace = '  File "/job/text.py", line {}, in forward\n    x = x.sin()\n'
    first, second = compiled_kernels._by_text(calls, [(18, trace.format(8)), (28, trace.format(99))], known)
    ((row, work),) = first.items()
    assert models_file._by_row[row][2] == () and models_file.innermost(row) == ("/job/text.py", 8, "forward")
    assert work == 0  # modules that share the line are not told apart
    ((row, _),) = second.items()
    assert models_file.innermost(row) is None  # line 99 is not in this graph


def test_nodes_that_comments_name_are_looked_up_in_the_captured_graph(noted: list[str]) -> None:
    """As the code for GPUs has them: Source Nodes, and Original ATen."""
    row = models_file.source("relu", [("/job/text.py", 3, "forward")], [("L['self'].act", "ReLU")])
    call = KernelLine(20, "triton_poi_fused_add_relu_0", ("h", "h_1"), ("add", "relu"))
    (found,) = compiled_kernels._by_text([call], [], {"h_1": row})
    ((source, _),) = found.items()
    assert models_file._by_row[source][0] == "add relu"
    assert models_file.innermost(source) == ("/job/text.py", 3, "forward")
