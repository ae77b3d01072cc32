"""What names of kernels say, and of modules."""

from __future__ import annotations

import pytest

from scalana.graphs.readers.models import is_made, module_path, operators_in_name


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
