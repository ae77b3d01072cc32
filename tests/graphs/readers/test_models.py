"""What names of kernels say, and of modules."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalana.graphs.readers.folder.models import is_made, module_path, operators_in_name, read_models
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED
from scalana.runtime.record.layout import models_file
from scalana.runtime.torch.module_tree import describe


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("triton_poi_fused_add_relu_0", "add_relu"),
        ("triton_per_fused_native_layer_norm_12", "native_layer_norm"),
        ("cpp_fused_sum_1", "sum"),
        ("triton_poi_fused_3", ""),
        ("extern_kernels.mm", "mm"),
        ("torch.ops.aten.cumsum.default", "cumsum"),
    ],
)
def test_operators_in_the_name_of_a_kernel(kernel: str, operators: str) -> None:
    assert operators_in_name(kernel) == operators


@pytest.mark.parametrize("kernel", ["void at::native::vectorized_elementwise_kernel<4>", "extern_kernels.mm", ""])
def test_kernels_that_inductor_did_not_make(kernel: str) -> None:
    assert not is_made(kernel)


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("L['self'].layers[0].mlp", "layers.0.mlp"),
        ("L['model']._modules['blocks']._modules['1']@2", "blocks.1"),
        ("G['net']._orig_mod.up", "up"),
        ("L['self']", ""),
    ],
)
def test_paths_of_modules(told: str, path: str) -> None:
    assert module_path(told) == path


def test_of_what_ranks_tell_of_one_wrapper_the_best_known_counts(tmp_path: Path) -> None:
    def tell(rank: int, by: str, name: str) -> str:
        file = str(tmp_path / f"{rank}.record")
        calls = [{"line": 3, "kernel": "cpp_fused_sin_0", "sources": [[0, 7]]}]
        told = {
            "models": [],
            "frames": [["/job/net.py", 5, "forward"]],
            "graphs": [],
            "sources": [{"op": name, "frames": [0], "modules": []}],
            "wrappers": [{"file": "/tmp/c.py", "phase": "forward", "by": by, "calls": calls}],
        }
        Path(models_file(file)).write_text(json.dumps(told), encoding="utf-8")
        return file

    ways = [("text", ""), ("writing", "sin"), ("kept", "cos"), ("writing", "tan")]
    files = [tell(rank, *way) for rank, way in enumerate(ways)]
    folder: Any = SimpleNamespace(record_files=lambda: files, moved=NOT_MOVED)
    ((kernel,),) = read_models(folder, {}).wrappers.values()
    assert (kernel.by, [(one.name, one.work) for one in kernel.sources]) == ("writing", [("sin", 7)])
    folder.record_files = lambda: files[:1]
    ((kernel,),) = read_models(folder, {}).wrappers.values()
    assert (kernel.by, kernel.sources[0].name) == ("text", "sin")  # of the name of the kernel


@pytest.mark.parametrize(("searches", "known"), [(True, {2}), (False, set())])
def test_modules_say_how_many_parameters_they_search(tmp_path: Path, searches: bool, known: set[int]) -> None:
    parameters = [SimpleNamespace(requires_grad=grad) for grad in (True, False, True)]
    kind = type("DistributedDataParallel", (), {"parameters": lambda self: parameters})
    module = kind()
    module.find_unused_parameters = searches
    row = describe(module, SimpleNamespace(name=""))  # type: ignore[arg-type]
    file = str(tmp_path / "0.record")
    told = {"models": [{"root": "Net", "modules": [row]}], "frames": [], "graphs": [], "sources": [], "wrappers": []}
    Path(models_file(file)).write_text(json.dumps(told), encoding="utf-8")
    folder: Any = SimpleNamespace(record_files=lambda: [file], moved=NOT_MOVED)
    assert read_models(folder, {}).searched == known
