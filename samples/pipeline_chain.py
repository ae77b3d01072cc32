"""Inference through a pipeline of ranks: the last stage waits for the first one, three sends away."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "rank 0 reads every request from a slow disk (50 ms) before it sends it down the pipeline"
# symptom = "dist.recv on ranks 1, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "read_request"
# ranks = [0]
# kind = "sleep"
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
from torch import Tensor, nn

REQUESTS = 50
WIDTH = 64


def read_request(number: int, latency_s: float) -> Tensor:
    time.sleep(latency_s)  # <- fault
    return torch.full((8, WIDTH), 0.01 * number)


def first_stage(stage: nn.Module, latency_s: float) -> None:
    for number in range(REQUESTS):
        activation = stage(read_request(number, latency_s))
        dist.send(activation, dst=1)


def later_stage(stage: nn.Module, rank: int, last: int) -> None:
    activation = torch.empty(8, WIDTH)
    for _ in range(REQUESTS):
        dist.recv(activation, src=rank - 1)
        result = stage(activation)
        if rank < last:
            dist.send(result, dst=rank + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    dist.barrier()
    start = time.perf_counter()
    with torch.inference_mode():
        if rank == 0:
            first_stage(stage, 0.0 if args.fix else 0.05)
        else:
            later_stage(stage, rank, size - 1)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
