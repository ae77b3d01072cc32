"""Two ranks started by torch.multiprocessing, without a launcher."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (folder,), nprocs=2)
    assert "RANK" not in os.environ
