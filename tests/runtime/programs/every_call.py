"""Calls every communication function of torch.distributed once, and writes down what a recorder should have seen.

Usage: every_call.py FOLDER. Each rank writes FOLDER/<rank>.json: a list of [operation, group ranks, bytes, peer, tag,
flags, waits], in order; ``waits`` is the number of wait records that complete the call.
"""

import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh

warnings.simplefilter("ignore")
torch.set_num_threads(1)

BLOCKING, POST, ANY_SOURCE = 1, 2, 16
seen = []


def expect(operation, nbytes, *, ranks=None, peer=-1, tag=0, flags=BLOCKING, waits=None):
    waits = int(not flags & BLOCKING) if waits is None else waits
    seen.append([operation, ranks if ranks is not None else world, nbytes, peer, tag, flags, waits])


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
world = list(range(size))
expect("init_process_group", 0)
small = torch.ones(10)  # 40 bytes
double = torch.ones(6, dtype=torch.float64)  # 48 bytes


def each(n=size, elements=10):
    return [torch.zeros(elements) for _ in range(n)]


# ---- collectives, blocking and not ----
expect("allreduce", 40)
dist.all_reduce(small)
expect("allreduce", 48, flags=POST)
work = dist.all_reduce(double, async_op=True)
work.wait()
expect("allreduce", 40, flags=POST, waits=0)
dropped = dist.all_reduce(torch.ones(10), async_op=True)
expect("barrier", 0)
dist.barrier()
del dropped
with torch.inference_mode():
    expect("allreduce", 40)
    dist.all_reduce(torch.ones(10))
with torch.no_grad():
    expect("broadcast", 40, peer=1)
    dist.broadcast(torch.ones(10), src=1)
expect("reduce", 40, peer=size - 1)
dist.reduce(torch.ones(10), dst=size - 1)
expect("allgather", 40)
dist.all_gather(each(), torch.ones(10))
expect("allgather", 40)
dist.all_gather_into_tensor(torch.zeros(10 * size), torch.ones(10))
expect("allgather", 88)
dist.all_gather_coalesced([[torch.zeros(10), torch.zeros(12)] for _ in range(size)], [torch.ones(10), torch.ones(12)])
expect("gather", 40, peer=0)
dist.gather(torch.ones(10), each() if rank == 0 else None, dst=0)
expect("scatter", 40, peer=0)
dist.scatter(torch.zeros(10), each() if rank == 0 else None, src=0)
expect("reduce_scatter", 40 * size)
dist.reduce_scatter(torch.zeros(10), each())
expect("reduce_scatter", 40 * size)
dist.reduce_scatter_tensor(torch.zeros(10), torch.ones(10 * size))
expect("alltoall", 40 * size)
dist.all_to_all_single(torch.zeros(10 * size), torch.ones(10 * size))
expect("alltoall", 40 * size)
dist.all_to_all(each(), each())
expect("allreduce", 88)
dist.all_reduce_coalesced([torch.ones(10), torch.ones(12)])
expect("allreduce", 80)
with dist._coalescing_manager():
    dist.all_reduce(torch.ones(10))
    dist.all_reduce(torch.ones(10))
expect("barrier", 0)
dist.monitored_barrier()

# ---- messages ----
right, left = (rank + 1) % size, (rank - 1) % size
expect("send", 40, peer=right, tag=7, flags=POST)
expect("recv", 40, peer=left, tag=7, flags=POST)
sending = dist.isend(torch.ones(10), right, tag=7)
receiving = dist.irecv(torch.zeros(10), left, tag=7)
sending.wait()
receiving.wait()
if rank == 0:
    expect("send", 24, peer=1)
    dist.send(torch.ones(6), 1)
elif rank == 1:
    expect("recv", 24, peer=0)
    dist.recv(torch.zeros(6), 0)
expect("send", 40, peer=right, flags=POST)
expect("recv", 40, peer=left, flags=POST)
for request in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, torch.ones(10), right), dist.P2POp(dist.irecv, torch.zeros(10), left)]
):
    request.wait()
if rank == 0:
    for _ in range(size - 1):
        expect("recv", 20, peer="any", tag=3, flags=BLOCKING | ANY_SOURCE)
        dist.recv(torch.zeros(5), tag=3)
else:
    expect("send", 20, peer=0, tag=3)
    dist.send(torch.ones(5), 0, tag=3)

# ---- groups ----
if rank in (0, size - 1):
    expect("new_group", 0, ranks=[0, size - 1])
pair = dist.new_group([0, size - 1])
if rank in (0, size - 1):
    expect("broadcast", 40, ranks=[0, size - 1], peer=size - 1)
    dist.broadcast(torch.ones(10), src=size - 1, group=pair)
    other = size - 1 if rank == 0 else 0
    if rank == 0:
        expect("send", 40, ranks=[0, size - 1], peer=other)
        dist.send(torch.ones(10), other, group=pair)
    else:
        expect("recv", 40, ranks=[0, size - 1], peer=other)
        dist.recv(torch.zeros(10), other, group=pair)
mine = [rank // 2 * 2, rank // 2 * 2 + 1]
expect("new_group", 0, ranks=mine)
half, _ = dist.new_subgroups(group_size=2)
expect("allreduce", 40, ranks=mine)
dist.all_reduce(torch.ones(10), group=half)
mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("replicas", "shards"))
seen.append("mesh")  # how many groups a mesh makes, and how, is torch's affair
expect("allreduce", 40, ranks=mine)
dist.all_reduce(torch.ones(10), group=mesh.get_group("shards"))

# ---- functional collectives, through C++ ----
expect("allreduce", 40, flags=POST)
(funcol.all_reduce(torch.ones(10), "sum", dist.group.WORLD) + 1).sum()
expect("allgather", 40, flags=POST)
funcol.all_gather_tensor(torch.ones(10), 0, dist.group.WORLD).sum().item()
expect("reduce_scatter", 40 * size, flags=POST)
funcol.reduce_scatter_tensor(torch.ones(10 * size), "sum", 0, dist.group.WORLD).sum().item()
expect("alltoall", 40 * size, flags=POST)
funcol.all_to_all_single(torch.ones(10 * size), None, None, dist.group.WORLD).sum().item()
expect("broadcast", 40, peer=0, flags=POST)
funcol.broadcast(torch.ones(10), 0, dist.group.WORLD).sum().item()


@torch.compile(backend="aot_eager")
def compiled(x):
    return funcol.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


expect("allreduce", 40, flags=POST)
compiled(torch.ones(10)).sum().item()

# ---- objects: what they are made of is torch's affair ----
objects = [None] * size
dist.all_gather_object(objects, rank)
assert objects == world
box = [rank]
dist.broadcast_object_list(box, src=1)
assert box == [1]
dist.gather_object(rank, [None] * size if rank == 0 else None)
seen.append("objects")
expect("barrier", 0)
dist.barrier()

with open(os.path.join(sys.argv[1], f"{rank}.json"), "w", encoding="utf-8") as file:
    json.dump(seen, file)
dist.destroy_process_group()
sys.stdout.write(f"end of rank {rank}\n")
