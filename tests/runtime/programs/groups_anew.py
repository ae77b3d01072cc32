"""Destroys all groups and makes others, to which torch gives the old names.

Usage: groups_anew.py FOLDER
"""

import os
import sys

import torch
import torch.distributed as dist

for first in (0, 1):
    meet = f"file://{sys.argv[1]}/meet{first}"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
    pair = dist.new_group([first, first + 1])
    if dist.get_rank() in (first, first + 1):
        dist.all_reduce(torch.ones(1), group=pair)
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    dist.destroy_process_group()
