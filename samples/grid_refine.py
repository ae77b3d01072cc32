"""A solver on a 2 x 2 grid of ranks: a refinement on rank 3 reaches rank 0 only through a second sub-group."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "rank 3 refines its part of the grid for 50 ms in every step"
# symptom = "all-reduces in the columns {0, 2} and {1, 3}, where ranks 0 and 1 wait for ranks that waited in their row"
#
# [[faults]]
# marker = "fault"
# function = "refine"
# ranks = [3]
# kind = "busy"
# seconds = 0.05
# occurrences = 50
# waiting_ranks = 3
# lost_s = 7.5
# saving_s = 2.5
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

STEPS = 50
FRONT = (1, 1)


def sweep(field: Tensor) -> Tensor:
    """One Jacobi sweep in the interior."""
    inner = 0.25 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:])
    return torch.nn.functional.pad(inner, (1, 1, 1, 1))


def refine(field: Tensor, budget_s: float) -> Tensor:
    until = time.perf_counter() + budget_s
    while time.perf_counter() < until:  # <- fault
        field[1:-1, 1:-1] += 1e-6 * (field[:-2, 1:-1] - field[2:, 1:-1])  # <- end of fault
    return field


def solve(fix: bool) -> float:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    along_row, along_column = mesh.get_group("column"), mesh.get_group("row")
    field = torch.rand(66, 66)
    needs_refinement = tuple(mesh.get_coordinate()) == FRONT and not fix
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        field = sweep(field)
        if needs_refinement:
            field = refine(field, 0.05)
        row_residual = field.abs().sum()
        dist.all_reduce(row_residual, group=along_row)
        field = sweep(field / (1 + row_residual))
        column_residual = field.abs().sum()
        dist.all_reduce(column_residual, group=along_column)
    dist.barrier()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = solve(args.fix)
    if dist.get_rank() == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
