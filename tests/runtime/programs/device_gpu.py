"""One rank of NCCL that multiplies matrices on its GPU, marked as a module, and reduces the result."""

import time

import torch
import torch.distributed as dist

import scalana
from scalana.runtime.device import marks

torch.cuda.set_device(0)
dist.init_process_group("nccl", rank=0, world_size=1, store=dist.HashStore())
matrix = torch.rand(4096, 4096, device="cuda")
for _ in range(6):
    begun = marks.begin()
    product = matrix
    for _ in range(4):
        product = product @ matrix * 1e-4
    marks.end(begun, "module", "product")
    dist.all_reduce(product)
    product.sum().item()
    scalana.step()
time.sleep(0.5)  # torch looks at what is done ten times a second
dist.destroy_process_group()
