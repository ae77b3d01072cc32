"""A parameter server: rank 0 collects gradients from its workers in turn and answers them; one worker is slow."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the environment of worker 2 takes 50 ms longer to simulate"
# symptom = "recv of rank 0; recv of the parameters on rank 1; send of the gradient on rank 3, not yet received"
#
# [[faults]]
# marker = "fault"
# function = "simulate"
# ranks = [2]
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

ROUNDS = 50
SIZE = 512


def serve(workers: int) -> None:
    parameters = torch.zeros(SIZE)
    gradient = torch.empty(SIZE)
    for _ in range(ROUNDS):
        total = torch.zeros(SIZE)
        for worker in range(1, workers + 1):
            dist.recv(gradient, src=worker)
            total += gradient
        parameters -= 0.1 * total / workers
        for worker in range(1, workers + 1):
            dist.send(parameters, dst=worker)


def simulate(parameters: Tensor, budget_s: float) -> Tensor:
    """One episode of a toy environment."""
    state = torch.sin(parameters)
    until = time.perf_counter() + budget_s
    while time.perf_counter() < until:  # <- fault
        state = state + 0.01 * torch.cos(state)  # <- end of fault
    return state


def work(budget_s: float) -> None:
    parameters = torch.zeros(SIZE)
    for _ in range(ROUNDS):
        state = simulate(parameters, budget_s)
        gradient = parameters - state
        dist.send(gradient, dst=0)
        dist.recv(parameters, src=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.barrier()
    start = time.perf_counter()
    if rank == 0:
        serve(dist.get_world_size() - 1)
    else:
        work(0.05 if rank == 2 and not args.fix else 0.0)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
