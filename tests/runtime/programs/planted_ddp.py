"""DDP on CPU; rank 2 sleeps in the backward pass of an early layer in every step.

Usage: planted_ddp.py STEPS SECONDS [reducer|hook|fsdp]
"""

import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn

torch.set_num_threads(1)
steps, seconds, kind = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
rank = dist.get_rank()


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if rank == 2:
            time.sleep(seconds)
        return gradient


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if number == 1:
                x = Sleep.apply(x)
        return x


torch.manual_seed(0)
model = Model()
if kind == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
else:
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    if kind == "hook":
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model.register_comm_hook(None, default_hooks.allreduce_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 64)
for _ in range(steps):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
total = sum(float(p.detach().abs().sum()) for p in model.parameters()) if kind != "fsdp" else 0
sys.stdout.write(f"{total!r}\n")
dist.destroy_process_group()
