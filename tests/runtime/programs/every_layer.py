"""Communicates through every layer of torch that can, in one process with the fake backend, under torch's profiler.

Prints, as JSON, for each layer: its name, when it began and ended (CLOCK_MONOTONIC, ns), the operators of the
namespace c10d that the profiler saw, in order, and the number of waits that the program made, null where torch decides.
"""

import inspect
import json
import sys
import time
import types
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.distributed_c10d as c10d
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore

warnings.simplefilter("ignore")
torch.set_num_threads(1)
SIZE = 4
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=SIZE)
world = dist.group.WORLD
mesh = init_device_mesh("cpu", (SIZE,))
layers = {}


def layer(waits=None, name=None):
    """Adds a function; the waits that it makes of posts, by whichever way."""

    def add(function):
        layers[name or function.__name__] = (function, waits)
        return function

    return add


def one():
    return torch.ones(8)


def each():
    return [torch.zeros(8) for _ in range(SIZE)]


def takes_async_op(function):
    return type(function) is types.FunctionType and "async_op" in inspect.signature(function).parameters


PUBLIC = {
    "all_reduce": lambda **k: dist.all_reduce(one(), **k),
    "all_reduce_coalesced": lambda **k: dist.all_reduce_coalesced([one(), one()], **k),
    "broadcast": lambda **k: dist.broadcast(one(), 1, **k),
    "reduce": lambda **k: dist.reduce(one(), 0, **k),
    "all_gather": lambda **k: dist.all_gather(each(), one(), **k),
    "all_gather_into_tensor": lambda **k: dist.all_gather_into_tensor(torch.zeros(8 * SIZE), one(), **k),
    "all_gather_coalesced": lambda **k: dist.all_gather_coalesced([[one()] for _ in range(SIZE)], [one()], **k),
    "gather": lambda **k: dist.gather(one(), each(), 0, **k),
    "scatter": lambda **k: dist.scatter(one(), each(), 0, **k),
    "reduce_scatter": lambda **k: dist.reduce_scatter(one(), each(), **k),
    "reduce_scatter_tensor": lambda **k: dist.reduce_scatter_tensor(one(), torch.ones(8 * SIZE), **k),
    "all_to_all": lambda **k: dist.all_to_all(each(), each(), **k),
    "all_to_all_single": lambda **k: dist.all_to_all_single(torch.zeros(8), torch.ones(8), **k),
    "barrier": lambda **k: dist.barrier(**k),
}
# New in torch 2.13.
if hasattr(dist, "all_gather_single"):
    PUBLIC["all_gather_single"] = lambda **k: dist.all_gather_single(torch.zeros(8 * SIZE), one(), **k)
    PUBLIC["reduce_scatter_single"] = lambda **k: dist.reduce_scatter_single(one(), torch.ones(8 * SIZE), **k)
assert {name for name in c10d.__all__ if takes_async_op(getattr(c10d, name))} <= PUBLIC.keys()
for name, function in PUBLIC.items():
    layer(0, name)(function)
    layer(1, name + " async")(lambda function=function: function(async_op=True).wait())


@layer(0)
def messages():
    dist.send(one(), 1, tag=3)
    dist.recv(one(), 1, tag=3)


@layer(2)
def messages_async():
    for work in (dist.isend(one(), 1), dist.irecv(one(), 1)):
        work.wait()


@layer(2)
def batch_of_messages():
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, one(), 1), dist.P2POp(dist.irecv, one(), 2)]):
        work.wait()


@layer(0)
def objects():
    dist.all_gather_object([None] * SIZE, "a")
    dist.broadcast_object_list(["a"], 0)


@layer(1)
def coalescing_manager():
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(one())
        dist.all_reduce(one())
    manager.wait()


@layer(0)
def groups():
    half, _ = dist.new_subgroups(2)
    pair = dist.new_group([0, 3])
    dist.all_reduce(one(), group=half)
    dist.all_reduce(one(), group=pair)
    dist.destroy_process_group(pair)
    dist.all_reduce(one(), group=dist.new_group([0, 2]))
    dist.all_reduce(one())


@layer(1)
def future_of_work():
    dist.all_reduce(one(), async_op=True).get_future().wait()


def waited(result):
    for tensor in result if isinstance(result, (list, tuple)) else [result]:
        functional.wait_tensor(tensor)


WIDE = 8 * SIZE
FUNCTIONAL = {
    "all_reduce": lambda: functional.all_reduce(one(), "sum", world),
    "all_gather_tensor": lambda: functional.all_gather_tensor(one(), 0, world),
    "all_gather_tensor_autograd": lambda: functional.all_gather_tensor_autograd(one(), 0, world),
    "reduce_scatter_tensor": lambda: functional.reduce_scatter_tensor(torch.ones(WIDE), "sum", 0, world),
    "reduce_scatter_tensor_autograd": lambda: functional.reduce_scatter_tensor_autograd(
        torch.ones(WIDE), "sum", 0, world
    ),
    "all_to_all_single": lambda: functional.all_to_all_single(torch.ones(8), None, None, world),
    "all_to_all_single_autograd": lambda: functional.all_to_all_single_autograd(torch.ones(8), None, None, world),
    "permute_tensor": lambda: functional.permute_tensor(one(), [1, 2, 3, 0], world),
    "broadcast": lambda: functional.broadcast(one(), 1, world),
    "all_reduce_coalesced": lambda: functional.all_reduce_coalesced([one(), one()], "sum", world),
    "all_gather_into_tensor_coalesced": lambda: functional.all_gather_into_tensor_coalesced([one(), one()], world),
    "reduce_scatter_tensor_coalesced": lambda: functional.reduce_scatter_tensor_coalesced(
        [torch.ones(WIDE), torch.ones(WIDE)], "sum", [0, 0], world
    ),
}
for name, function in FUNCTIONAL.items():
    count = 2 if "coalesced" in name else 1
    layer(count, "functional " + name)(lambda function=function: waited(function()))


@layer(1)
def functional_in_inference_mode():
    with torch.inference_mode():
        waited(functional.all_reduce(one(), "sum", world))


@layer(1)
def functional_in_place():
    waited(torch.ops._c10d_functional.all_reduce_(one(), "sum", world.group_name))


@layer()
def differentiable_functions():
    x = one().requires_grad_()
    (differentiable.all_reduce(x) + differentiable.all_gather(x)[0]).sum().backward()


def network():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def train(model, optimizer=None, steps=2):
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        if optimizer is not None:
            optimizer.step()


@layer()
def averaged_parameters():
    average_parameters(network().parameters(), world)


@layer()
def fsdp():
    model = network()
    for part in model:
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.SGD(model.parameters(), 0.1))


@layer()
def dtensor():
    sharded = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    replicated = sharded.redistribute(mesh, [Replicate()])
    (replicated.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Shard(0)]).sum() + 1).full_tensor()


@layer()
def tensor_parallel():
    train(parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}))


@layer()
def pipeline():
    """Forward alone: what the fake backend receives of other stages' gradients is no metadata."""
    example = torch.ones(1, 8)
    stage = PipelineStage(network(), 0, SIZE, torch.device("cpu"), input_args=example, output_args=example)
    ScheduleGPipe(stage, 4).step(torch.ones(4, 8))


@layer(0)
def another_world():
    """Gloo's, of one rank: the fake backend can do none of what follows."""
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


@layer(0)
def monitored_barrier():
    dist.monitored_barrier()


def data_parallel(**options):
    return DistributedDataParallel(network(), bucket_cap_mb=1e-4, **options)


@layer()
def ddp():
    train(data_parallel(), steps=3)


@layer()
def ddp_static_graph():
    train(data_parallel(static_graph=True), steps=3)


@layer()
def ddp_unused_parameters():
    train(data_parallel(find_unused_parameters=True), steps=3)


@layer()
def zero_redundancy_optimizer():
    model = data_parallel()
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1))


@layer()
def ddp_hook_in_python():
    model = data_parallel()
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    train(model)


@layer()
def ddp_hook_in_cpp():
    model = data_parallel()
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    train(model)


spans = []
dist.all_reduce(one())
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for name, (function, waits) in layers.items():
        begin = time.monotonic_ns()
        with torch.profiler.record_function("layer:" + name):
            function()
        spans.append([name, begin, time.monotonic_ns(), [], waits])
events = sorted(profiler.events(), key=lambda event: event.time_range.start)
marks = {e.name[6:]: e.time_range for e in events if e.name.startswith("layer:")}
for span in spans:
    mark = marks[span[0]]
    span[3] = [
        e.name[6:] for e in events if e.name.startswith("c10d::") and mark.start <= e.time_range.start <= mark.end
    ]
json.dump(spans, sys.stdout)
