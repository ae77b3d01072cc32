"""Ranks that reduce one tensor over all of them in each step."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    gradients = torch.ones(1_600_000)
    for _ in range(int(os.environ.get("STEPS", "60"))):
        time.sleep(0.05)
        dist.all_reduce(gradients)
    dist.destroy_process_group()


main()
