"""Records a part of itself, without the command, and prints how long its slow rank slept in it."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

import scalana

if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    slept_s = 0.0
    time.sleep(1.0 * rank)  # before the part that is recorded
    with scalana.profile(sys.argv[1]):
        for _ in range(30):
            with scalana.region("prepare"):
                begin = time.perf_counter()
                if rank == 1:
                    time.sleep(0.02)  # slow here
                    slept_s += time.perf_counter() - begin
            dist.all_reduce(torch.ones(64))
            scalana.step()
    dist.destroy_process_group()
    if rank == 1:
        print(slept_s)
