"""Full-batch training of a graph network whose partitions have equal nodes: the one with the hubs has most edges."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the graph is cut into parts of equal nodes; part 2 has 2.2 times the edges of the median part"
# symptom = "loss.backward() on ranks 0, 1 and 3"
#
# [[faults]]
# marker = "fault"
# function = "aggregate"
# ranks = [2]
# kind = "sleep"
# seconds = 0.12
# occurrences = 20
# lost_s = 6.38
# saving_s = 1.6
# ///

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
NODES = 2000
EDGES = 20000
WIDTH = 8
EDGE_S = 2e-5
"""What an accelerator would take for an edge; it is slept instead."""


def power_law_graph() -> np.ndarray:
    """Edges ``[2, edges]``: nodes are drawn by the power law of their number, which begins in the third quarter."""
    weight = np.roll(np.arange(1, NODES + 1) ** -0.42, NODES // 2)
    draw = np.random.default_rng(0)
    return draw.choice(NODES, size=(2, EDGES), p=weight / weight.sum())


def parts_of(edges: np.ndarray, parts: int, by_edges: bool) -> np.ndarray:
    """First node of each part, and the end: equal nodes, or about equal edges."""
    if not by_edges:
        return np.linspace(0, NODES, parts + 1).astype(np.int64)
    sums = np.cumsum(np.bincount(edges[1], minlength=NODES))
    return np.append(np.searchsorted(sums, np.arange(parts) * EDGES / parts), NODES)


class Convolution(nn.Module):
    """Sums up what comes over the edges of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def aggregate(self, x: Tensor, edge_index: Tensor) -> Tensor:
        time.sleep(EDGE_S * edge_index.shape[1])  # <- fault
        return torch.zeros_like(x).index_add_(0, edge_index[1], x[edge_index[0]])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.relu(self.linear(self.aggregate(x, edge_index)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="cut the graph into parts of equal edges")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    edges = power_law_graph()
    first = parts_of(edges, world, by_edges=args.fix)
    mine = edges[:, (edges[1] >= first[rank]) & (edges[1] < first[rank + 1])]
    torch.manual_seed(0)
    x, edge_index = torch.randn(NODES, WIDTH), torch.from_numpy(mine)
    model = DistributedDataParallel(Convolution())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        loss = model(x, edge_index)[first[rank] : first[rank + 1]].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
