"""torch.compile around communication: functional collectives, DDP, optimizer; and threads, tensor parallelism."""

import sys
import threading

import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
backend = sys.argv[1]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
lines = []


# A whole graph: a break would be an error.
@torch.compile(backend=backend, fullgraph=True)
def reduced(x):
    y = funcol.all_reduce(x * 2, "sum", dist.group.WORLD)
    z = x.clone()
    dist.all_reduce(z)
    return y + z


for _ in range(3):
    lines.append(reduced(torch.ones(4) * (rank + 1)).tolist())

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
ddp = torch.compile(nn.parallel.DistributedDataParallel(model), backend=backend)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    ddp(torch.ones(2, 8) * (rank + step)).square().mean().backward()
    optimizer.step()
lines.append([float(p.detach().sum()) for p in model.parameters()])


# A compiled optimizer must stay one graph, too.
@torch.compile(backend=backend, fullgraph=False)
def stepped():
    optimizer.step()


torch._dynamo.utils.counters.clear()
stepped()
lines.append(sorted(torch._dynamo.utils.counters["graph_break"].items()))

# Tensor parallel, with recomputation in backward.
mesh = init_device_mesh("cpu", (size,))
block = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
parallelize_module(block, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
out = checkpoint(block, torch.ones(2, 8, requires_grad=True), use_reentrant=False)
out.sum().backward()
lines.append([float(p.grad.to_local().sum()) for p in block.parameters()][:1])

# Communication from threads, each on its own group.
groups = [dist.new_group() for _ in range(2)]
totals = [0.0, 0.0]


def talk(number):
    for _ in range(20):
        t = torch.ones(3)
        dist.all_reduce(t, group=groups[number])
        totals[number] += float(t.sum())


threads = [threading.Thread(target=talk, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
lines.append(totals)
sys.stdout.write("".join(f"{rank} {line}\n" for line in lines))
dist.destroy_process_group()
