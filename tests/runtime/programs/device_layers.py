"""One rank of a pipeline of torch whose layers take on an emulated device what they are to, far behind the hosts:

    python device_layers.py BOARD STORE STEPS SCHEDULE CUT MS [MS ...]

CUT has the layers of each stage (``4,4``), MS what each layer takes forward; as long again for the gradient of its
input, and for that of its weights. gloo moves what hosts send each other. At the end it prints, for each step, when
its device began and ended, in ns.
"""

import os
import sys
from itertools import accumulate, pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleZBVZeroBubble

import scalana
from scalana.runtime.device import marks
from tests.tools.emulated_device import MS, Device
from tests.tools.emulated_messages import Messages

board, store, steps, name = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
cut = list(pairwise([0, *accumulate(map(int, sys.argv[5].split(",")))]))
costs = [float(one) for one in sys.argv[6:]]
sys.setrecursionlimit(50_000)  # the device is worked out from what it did before
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
device = Device(board, rank, 2)
marks.use("emulated", device)
MICROBATCHES = 8
work = []
"""What the layers have launched in this step."""


def launch(length_ns):
    device.compute.put(length_ns)
    work.append(device.compute.tail)


class Input(torch.autograd.Function):
    """What a layer does forward, and for the gradient of its input."""

    @staticmethod
    def forward(ctx, x, length_ns):
        ctx.length_ns = length_ns
        launch(length_ns)
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        launch(ctx.length_ns)
        return gradient * 1.0, None


class Weight(torch.autograd.Function):
    """What it does for the gradient of its weights."""

    @staticmethod
    def forward(ctx, weight, length_ns):
        ctx.length_ns = length_ns
        return weight * 1.0

    @staticmethod
    def backward(ctx, gradient):
        launch(ctx.length_ns)
        return gradient * 1.0, None


class Layer(torch.nn.Module):
    def __init__(self, ms):
        super().__init__()
        self.length_ns = round(ms * MS)
        self.weight, self.bias = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.zeros(4))

    def forward(self, x):
        half = self.length_ns // 2
        return Input.apply(x, self.length_ns) * Weight.apply(self.weight, half) + Weight.apply(self.bias, half)


Messages(device, rank)
kind, held = {"1F1B": (Schedule1F1B, [rank]), "ZBV": (ScheduleZBVZeroBubble, [rank, 3 - rank])}[name]
parts = [torch.nn.Sequential(*(Layer(costs[i]) for i in range(*cut[number]))) for number in held]
stages = [PipelineStage(part, n, len(cut), torch.device("cpu")) for part, n in zip(parts, held, strict=True)]
loss = {"loss_fn": lambda output, target: output.sum()}
schedule = kind(stages if len(stages) > 1 else stages[0], MICROBATCHES, **loss)
ran, target = [], torch.ones(MICROBATCHES, 4)
for _ in range(steps):
    work.clear()
    schedule.step(*((target,) if 0 in held else ()), **({"target": target} if len(cut) - 1 in held else {}))
    device.compute.synchronize()
    ran.append((work[0].when() - work[0].length_ns, work[-1].when()))
    dist.barrier()
    scalana.step()
print("\n".join(f"{begin} {end}" for begin, end in ran), flush=True)
dist.destroy_process_group()
