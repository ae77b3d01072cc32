"""A pipeline of one stage on one rank of gloo, whose tensors are taken for those of an emulated device."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import scalana
from scalana.runtime.device import marks
from tests.tools.emulated_device import Device

board = Device.make_board(Path(sys.argv[1]), 1)
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
device = Device(board, 0, 1)
marks.use("emulated", device)


class Layer(torch.nn.Linear):
    """Keeps the device busy for 2 ms."""

    def forward(self, input):
        device.compute.put(2_000_000)
        return super().forward(input)


stage = PipelineStage(Layer(4, 2), 0, 1, torch.device("cpu"))
schedule = ScheduleGPipe(stage, 2, loss_fn=lambda output, target: output.sum())
for _ in range(4):
    schedule.step(torch.ones(2, 4), target=torch.ones(2, 2))
    scalana.step()
device.compute.synchronize()
dist.destroy_process_group()
