"""Ranks that get values from one rank in each step, and with ``BACK`` hand them back to it."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, values = dist.get_rank(), torch.ones(1000)
    for _ in range(int(os.environ.get("STEPS", "60"))):
        time.sleep(0.05 if rank == 0 else 0.01)
        if os.environ.get("BACK"):
            dist.broadcast(values, 0)
            dist.reduce(values, 0)
        elif rank == 0:
            for other in range(1, dist.get_world_size()):
                dist.send(values, other)
        else:
            dist.recv(values, 0)
    dist.destroy_process_group()


main()
