"""Two ranks of DDP over NCCL, whose hosts launch ahead; rank 1 is slow in a way that is named.

    torchrun --standalone --nproc-per-node 2 gpu_ddp.py nothing|host|kernels|rows

``host`` takes 150 ms more before each step, ``kernels`` eight products more in one block, ``rows`` gives rank 1 twice
as many rows. Where there is one GPU both share it: NCCL is told that they are on hosts of their own, as it refuses
otherwise. Each rank prints how long a step took.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

planted = sys.argv[1]
rank = int(os.environ["RANK"])
slow = rank == 1
STEPS, WARM_UP = 40, 5
WIDTH, ROWS = 1024, 32768


class Block(nn.Module):
    """A layer, which may do more."""

    def __init__(self, heavy):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)
        self.heavy = heavy

    def forward(self, rows):
        if self.heavy:
            for _ in range(8):
                rows = rows + torch.tanh(rows @ self.project.weight) * 1e-3
        return torch.relu(self.project(rows))


def tokenize(step):
    if slow and planted == "host":
        time.sleep(0.15)
    rows = 2 * ROWS if slow and planted == "rows" else ROWS
    return torch.full((rows, WIDTH), 0.01 * (step % 7), device="cuda")


if torch.cuda.device_count() < 2:
    os.environ["NCCL_HOSTID"] = f"host of rank {rank}"
torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("nccl")
blocks = [Block(slow and planted == "kernels" and number == 3) for number in range(6)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*blocks).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(STEPS):
    if step == WARM_UP:
        torch.cuda.synchronize()
        begun = time.perf_counter()
    loss = model(tokenize(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
sys.stdout.write(f"rank {rank}: {(time.perf_counter() - begun) / (STEPS - WARM_UP) * 1e3:.1f} ms a step\n")
time.sleep(0.5)  # torch looks at what is done ten times a second
dist.destroy_process_group()
