"""A loop whose steps and regions are marked; with the argument "plain" they are not.

Rank 1 fetches slowly in every step, and very slowly in one.
"""

import contextlib
import sys
import time

import torch
import torch.distributed as dist

import scalana

STEPS, SLOW_STEP = 24, 17

if sys.argv[1:] == ["plain"]:
    scalana.region, scalana.step = lambda name: contextlib.nullcontext(), lambda: None


def fetch(step: int, rank: int) -> None:
    if rank == 1:
        time.sleep(0.25 if step == SLOW_STEP else 0.04)


def main() -> None:
    dist.init_process_group("gloo")
    rank, gradient = dist.get_rank(), torch.ones(1000)
    dist.barrier()
    for step in range(STEPS):
        with scalana.region("input"):
            with scalana.region("fetch"):
                fetch(step, rank)
            time.sleep(0.005)
        with scalana.region("exchange"):
            dist.all_reduce(gradient)
        if step % 10 == 9:
            dist.broadcast(gradient, 0)  # a checkpoint, say
        scalana.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
