"""What is read in the Python that inductor writes: for GPUs, for CPUs, and in parts."""

from __future__ import annotations

import pytest

from scalana.runtime.torch.wrapper_text import contexts_of, kernel_lines, phase_of

TRITON = """# AOT ID: ['3_forward']
import torch
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
# kernel path: /tmp/torchinductor_me/ab/cab.py
# Topologically Sorted Source Nodes: [h, h_1], Original ATen: [aten.addmm, aten.relu]
# Source node to ATen node mapping:
#   h => add_tensor
triton_poi_fused_addmm_relu_0 = async_compile.triton('triton_poi_fused_addmm_relu_0', \'\'\'
import triton
def triton_poi_fused_addmm_relu_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_out_ptr0 + (x2), xmask)
\'\'\', device_str='cuda')
triton_red_fused_sum_1 = async_compile.triton('triton_red_fused_sum_1', \'\'\'
def triton_red_fused_sum_1(in_ptr0, out_ptr0):
    pass
\'\'\', device_str='cuda')
async_compile.wait(globals())

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions
    def call(self, args):
        primals_1, primals_2, primals_3 = args
        args.clear()
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((512, 256), (256, 1), torch.float32)
            # Topologically Sorted Source Nodes: [h], Original ATen: [aten.t, aten.addmm]
            extern_kernels.mm(primals_3, reinterpret_tensor(primals_1, (64, 256), (1, 64), 0), out=buf0)
            buf1 = buf0; del buf0  # reuse
            # Topologically Sorted Source Nodes: [h, h_1], Original ATen: [aten.addmm, aten.relu]
            stream0 = get_raw_stream(0)
            triton_poi_fused_addmm_relu_0.run(buf1, primals_2, 131072, stream=stream0)
            # Topologically Sorted Source Nodes: [conv], Original ATen: [aten.convolution]
            buf2 = extern_kernels.convolution(buf1, primals_4, stride=(1, 1), bias=None)
            buf3 = torch.ops.aten.cumsum.default(buf2, 1)
            # Unsorted Source Nodes: [], Original ATen: [aten.sum]
            triton_red_fused_sum_1.run(buf3, buf4, 512, 256, stream=stream0)
        return (buf1, )

def benchmark_compiled_module(args, times=10, repeat=10):
    triton_red_fused_sum_1.run(buf3)
"""

CPP = """# AOT ID: ['0_backward']
cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r'''
    extern_kernels.mm(nothing)
''')
cpp_fused_sum_1 = async_compile.cpp_pybinding(['float*'], r'''
''')
def partition_0(args):
    cpp_fused_add_0(buf5, buf6)
    extern_kernels.mm(buf6, out=buf7)
def call(args):
    assert_size_stride(primals_8, (64, ), (1, ), 'input')
    cpp_fused_add_0(buf13, buf14)
    cpp_fused_sum_1(buf13, buf14)
"""


def test_kernels_of_a_gpu_have_their_nodes_and_operators() -> None:
    calls = kernel_lines(TRITON)
    text = TRITON.splitlines()
    assert [(call.kernel, call.nodes, call.atens) for call in calls] == [
        ("extern_kernels.mm", ("h",), ("t", "addmm")),
        ("triton_poi_fused_addmm_relu_0", ("h", "h_1"), ("addmm", "relu")),
        ("extern_kernels.convolution", ("conv",), ("convolution",)),
        ("torch.ops.aten.cumsum.default", (), ()),
        ("triton_red_fused_sum_1", (), ("sum",)),
    ]
    assert all(call.kernel in text[call.line - 1] for call in calls)
    assert phase_of(TRITON) == "forward"


def test_kernels_of_a_cpu_and_of_parts() -> None:
    calls = kernel_lines(CPP)
    assert [(call.line, call.kernel) for call in calls] == [
        (8, "cpp_fused_add_0"),
        (9, "extern_kernels.mm"),
        (12, "cpp_fused_add_0"),
        (13, "cpp_fused_sum_1"),
    ]
    assert phase_of(CPP) == "backward"


@pytest.mark.parametrize("text", ["", "x = 1", "def call(:\n    cpp_fused_add_0(", "# AOT ID: ['']\n\0"])
def test_other_text_has_none(text: str) -> None:
    assert kernel_lines(text) == [] and phase_of(text) == ""


def test_a_note_before_a_given_kernel_is_that_kernels() -> None:
    text = """
cpp_fused_a_0 = async_compile.cpp_pybinding([], r'''
''')
def call(args):
    # 5
    # 6
    # 7: of the product
    cpp_fused_a_0(x)
    extern_kernels.mm(x)
    # 10
    cpp_fused_a_0(x)
    # 12
    extern_kernels.mm(x)
"""
    assert contexts_of(kernel_lines(text), [5, 6, 7, 10, 12]) == [[0, 1], [2], [3], [4]]
