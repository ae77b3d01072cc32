"""Trainers and rollouts that two launchers start, joined by a group of their own: rollout 1 generates longest."""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

STEPS = 12
LONG_S = 0.08


def joined(place: int, size: int) -> dist.ProcessGroup:
    """A group across worlds, as trainers make one to send weights to engines of another launcher."""
    port = int(os.environ["JOINED_PORT"])
    limit = datetime.timedelta(seconds=60)
    store = dist.PrefixStore("weights", dist.TCPStore("127.0.0.1", port, size, place == 0, limit))
    group, _ = c10d._new_process_group_helper(
        size, place, [], dist.Backend("gloo"), store, group_name="weights", timeout=limit
    )
    c10d._world.pg_group_ranks[group] = {rank: rank for rank in range(size)}
    return group


def generate(rank: int) -> float:
    begin = time.perf_counter()
    if rank == 1:
        time.sleep(LONG_S)  # long here
    return time.perf_counter() - begin


def main() -> None:
    role = sys.argv[1]
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weights = joined(rank if role == "trainer" else ranks + rank, 2 * ranks)
    slept, data = 0.0, torch.ones(8)
    for _ in range(STEPS):
        if role == "rollout":
            slept += generate(rank)
        dist.all_reduce(data)
        dist.all_reduce(data, group=weights)
    if role == "rollout" and rank == 1:
        Path(os.environ["SLEPT"]).write_text(str(slept))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
