"""Records a part of itself: communication before and after is not in the record.

Usage: profiled_part.py FOLDER
"""

import sys

import torch
import torch.distributed as dist

import scalana

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
with scalana.profile(sys.argv[1]):
    for size in (2, 3):
        dist.all_reduce(torch.ones(size))
        scalana.step()
dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
