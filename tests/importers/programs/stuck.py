"""A job of gloo in which rank 1 does not come to an allreduce: after some time all write what they recorded."""

import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace

STEPS = 6


def average(gradient):
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def dump_and_leave():
    time.sleep(1.3)
    with open(os.path.join(sys.argv[1], f"fr_trace_rank_{rank}"), "wb") as file:
        file.write(_dump_fr_trace())
    os._exit(0)


dist.init_process_group("gloo")
rank = dist.get_rank()
gradient = torch.ones(64)
for _ in range(STEPS):
    gradient = average(gradient)
threading.Thread(target=dump_and_leave).start()
if rank == 1:
    time.sleep(60)
average(gradient)
