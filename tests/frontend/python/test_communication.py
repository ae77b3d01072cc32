"""Functions of libraries that communicate are found by their names, and by what they are methods of."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.frontend.python.communication import operation_of
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.operations import BY_CODE
from tests.frontend.outline import program


def operations(psg: PSG) -> list[str]:
    """Names of the operations in a graph, in order."""
    return [BY_CODE[vertex.operation].name for vertex in psg.walk() if vertex.kind is VertexKind.COMM]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("torch.distributed.all_reduce", "allreduce"),
        ("torch.distributed.all_reduce.wait", "wait"),
        ("torch.distributed.init_device_mesh", "new_group"),
        ("torch.distributed._functional_collectives.all_gather_tensor_inplace", "allgather"),
        ("torch.distributed._functional_collectives.reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("torch.distributed._functional_collectives.permute_tensor", "alltoall"),
        ("torch.distributed.ProcessGroup.allreduce", "allreduce"),
        ("torch.distributed.new_group._allgather_base", "allgather"),
        ("torch.distributed.new_group.alltoall_base.wait", "wait"),
        ("torch.distributed.Work.wait", "wait"),
        ("torch.ops._c10d_functional.all_gather_into_tensor.default", "allgather"),
        ("torch.ops._c10d_functional.all_reduce_", "allreduce"),
        ("torch.ops._c10d_functional.wait_tensor", "wait"),
        ("torch.ops.c10d.allreduce_", "allreduce"),
        ("mpi4py.MPI.COMM_WORLD.Allreduce", "allreduce"),
        ("mpi4py.MPI.COMM_WORLD.bcast", "broadcast"),
        ("mpi4py.MPI.COMM_WORLD.Split.Create_cart.Sendrecv", "sendrecv"),
        ("mpi4py.MPI.COMM_WORLD.isend.wait", "wait"),
        ("mpi4py.MPI.Request.Waitall", "wait"),
        ("mpi4py.MPI.COMM_WORLD.Split", "comm_create"),
        ("mpi4py.MPI.COMM_WORLD.Create_cart", "comm_create"),
        ("mpi4py.MPI.Win.Create.Fence", "fence"),
        ("mpi4py.MPI.File.Open.Write_at_all", "file_collective"),
    ],
)
def test_what_communicates(name: str, operation: str) -> None:
    assert BY_CODE[operation_of(name)].name == operation


@pytest.mark.parametrize(
    "name",
    [
        "torch.distributed.get_rank",
        "torch.distributed.TCPStore.wait",
        "torch.gather",
        "torch.ops.aten.scatter",
        "torch.ops",
        "mpi4py.MPI.COMM_WORLD.Get_rank",
        "mpi4py.MPI.Wtime",
        "multiprocessing.Pipe.send",
        "functools.reduce",
    ],
)
def test_what_does_not(name: str) -> None:
    assert operation_of(name) == 0


def test_methods_of_what_calls_return_and_annotations_name(tmp_path: Path) -> None:
    source = """\
        from __future__ import annotations
        from mpi4py import MPI
        import torch.distributed as dist
        class Field:
            def __init__(self, comm: MPI.Comm | None = None):
                self.cart = comm.Create_cart([2])
                self.window = MPI.Win.Create(None, comm=comm)
            def exchange(self):
                requests = [self.cart.Isend(self, 1), self.cart.Irecv(self, 0)]
                MPI.Request.Waitall(requests)
                self.window.Fence()
        def average(group: "dist.ProcessGroup", tensor):
            group.allreduce([tensor]).wait()
        Field().exchange()
        average(pg, 1)
        MPI.COMM_WORLD.Split(0, 1).Barrier()
        """
    expected = "comm_create fence send recv wait fence allreduce wait comm_create barrier"
    assert operations(program(tmp_path, source)) == expected.split()


def test_hooks_that_only_a_library_calls_are_shown_where_all_is(tmp_path: Path) -> None:
    from scalana.frontend.build import build_psg

    source = """\
        import torch.distributed as dist
        def install(model):
            def hook(module, grads, outputs):
                dist.all_reduce(outputs)
            def helper():
                dist.barrier()
            helper()
            model.register_full_backward_hook(hook)
        """
    program(tmp_path, source)
    psg = build_psg([tmp_path / "main.py"])
    assert operations(psg) == ["barrier", "allreduce"]  # the helper is shown once, where it is called
