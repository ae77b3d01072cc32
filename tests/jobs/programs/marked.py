"""Records a part of itself, without the command."""

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
    time.sleep(1.0 * rank)  # before the part that is recorded
    with scalana.profile(sys.argv[1]):
        for _ in range(30):
            with scalana.region("prepare"):
                if rank == 1:
                    time.sleep(0.02)  # slow here
            dist.all_reduce(torch.ones(64))
            scalana.step()
    dist.destroy_process_group()
