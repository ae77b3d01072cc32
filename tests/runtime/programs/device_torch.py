"""One rank of gloo whose tensors are taken for those of an emulated device, with its modules and collectives."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import scalana
from scalana.runtime.device import marks
from tests.tools.emulated_device import Device

board = Device.make_board(Path(sys.argv[1]), 1)
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
device = Device(board, 0, 1)
marks.use("emulated", device)
model = DistributedDataParallel(torch.nn.Linear(4, 2))
tensor = torch.ones(8)
for number in range(5):
    dist.all_reduce(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    device.compute.put(3_000_000)
    work.wait()
    model(torch.ones(1, 4)).sum().backward()
    device.capturing = number == 3
    dist.broadcast(tensor, 0)
    device.capturing = False
    scalana.step()
device.compute.synchronize()
dist.destroy_process_group()
