"""One of two stages of a pipeline of torch, 1F1B, on an emulated device: python device_two_stages.py BOARD STORE STEPS

gloo moves what hosts send each other; how long messages and layers take is a matter of the emulated device, far behind
its host. Stage 1 takes twice as long as stage 0.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import scalana
from scalana.runtime.device import marks
from tests.tools.emulated_device import MS, Device
from tests.tools.emulated_messages import Messages

board, store, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.setrecursionlimit(20_000)  # the device is worked out from what it did before
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
device = Device(board, rank, 2)
marks.use("emulated", device)
FORWARD_NS, MICROBATCHES = (1 + rank) * 8 * MS, 8


class Busy(torch.autograd.Function):
    """Keeps the device busy, for twice as long in the backward."""

    @staticmethod
    def forward(ctx, x):
        device.compute.put(FORWARD_NS)
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        device.compute.put(2 * FORWARD_NS)
        return gradient * 1.0


class Layer(torch.nn.Linear):
    def forward(self, x):
        return Busy.apply(super().forward(x))


Messages(device, rank)
stage = PipelineStage(Layer(4, 4), rank, 2, torch.device("cpu"))
schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda output, target: output.sum())
for _ in range(steps):
    batch_of_all = torch.ones(MICROBATCHES, 4)
    schedule.step(*((batch_of_all,) if rank == 0 else ()), **({"target": batch_of_all} if rank else {}))
    device.compute.synchronize()
    scalana.step()
dist.destroy_process_group()
