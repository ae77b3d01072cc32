"""Reading, computing and averaging with the small irregularities of a healthy machine: nothing to find."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# balanced = true
# planted = "nothing: reads of 40 ms that vary by 0.4 ms, alike on all ranks"
# symptom = "waits of about 1 % in dist.all_reduce, on whichever rank was lucky"
# ///

from __future__ import annotations

import argparse
import random
import time

import torch
import torch.distributed as dist

STEPS = 60


def read(noise: random.Random) -> torch.Tensor:
    time.sleep(max(0.0, noise.gauss(0.04, 0.0004)))
    return torch.ones(64)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    noise = random.Random(rank)
    weights = torch.zeros(64)

    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        gradient = torch.tanh(read(noise) - weights)
        dist.all_reduce(gradient)
        weights += 0.1 * gradient / dist.get_world_size()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
