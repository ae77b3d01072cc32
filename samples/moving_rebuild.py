"""Training on molecules: in every step another rank rebuilds its neighbour list, so all totals per rank are equal."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the neighbour list is rebuilt (50 ms) by rank s % 4 in step s"
# symptom = "loss.backward() on the other three ranks; no rank has more of anything than another"
#
# [[faults]]
# marker = "fault"
# function = "rebuild"
# ranks = [0, 1, 2, 3]
# kind = "busy"
# seconds = 0.05
# occurrences = 48
# waiting_ranks = 3
# lost_s = 7.2
# saving_s = 2.4
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 48
ATOMS = 24
REBUILD_S = 0.05


class Neighbours:
    """Pairs of atoms closer than a cut-off, rebuilt once in a while."""

    def __init__(self, positions: Tensor, cutoff: float = 1.5) -> None:
        self.cutoff = cutoff
        self.pairs = (torch.cdist(positions, positions) < cutoff).nonzero()

    def rebuild(self, positions: Tensor) -> None:
        deadline = time.perf_counter() + REBUILD_S
        while time.perf_counter() < deadline:  # <- fault
            self.pairs = (torch.cdist(positions, positions) < self.cutoff).nonzero()  # <- end of fault


class Potential(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, positions: Tensor, pairs: Tensor) -> Tensor:
        distances = (positions[pairs[:, 0]] - positions[pairs[:, 1]]).norm(dim=1, keepdim=True)
        return self.layers(distances).sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    positions = torch.rand(ATOMS, 3) * 4
    neighbours = Neighbours(positions)
    model = DistributedDataParallel(Potential())
    optimizer = torch.optim.Adam(model.parameters())

    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        positions = positions + 0.001 * torch.randn_like(positions)
        if step % size == rank and not args.fix:
            neighbours.rebuild(positions)
        energy = model(positions, neighbours.pairs)
        loss = (energy - 1.0).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
