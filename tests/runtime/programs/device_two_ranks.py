"""One of two ranks of NCCL; rank 1 multiplies ten times as much as rank 0 before each collective.

Where there is one GPU the two share it: NCCL is told that they are on hosts of their own, as it refuses otherwise.
"""

import os
import time

import torch
import torch.distributed as dist

import scalana


class Product(torch.nn.Module):
    """Multiplies a matrix with itself some times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, matrix):
        product = matrix
        for _ in range(self.times):
            product = product @ matrix * 1e-4
        return product


rank = int(os.environ["RANK"])
if torch.cuda.device_count() < 2:
    os.environ["NCCL_HOSTID"] = f"host of rank {rank}"
torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("nccl")
matrix = torch.rand(4096, 4096, device="cuda")
model = Product(40 if rank == 1 else 4)
for _ in range(6):
    product = model(matrix)
    dist.all_reduce(product)
    product.sum().item()
    scalana.step()
time.sleep(0.5)  # torch looks at what is done ten times a second
dist.destroy_process_group()
