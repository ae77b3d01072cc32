"""One rank of a job of torch whose collectives run on an emulated device, with a fault on rank 1.

python emulated_ddp.py FOLDER FAULT WAY, with RANK and WORLD_SIZE; FOLDER has the board, the store, and takes the truth.
With the way ``ahead`` hosts launch all steps without ever waiting for their devices.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import scalana
from scalana.runtime.device import marks
from scalana.runtime.device.durations import Durations
from tests.tools.emulated_device import MS, Device
from tests.tools.emulated_nccl import EmulatedNCCL

LAYERS = 4
KERNEL_NS, COLLECTIVE_NS = 5 * MS, 4 * MS

folder, fault, way = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
faulty = rank == 1
steps = 21 if way == "ahead" else 5
dist.init_process_group("gloo", rank=rank, world_size=ranks, store=dist.FileStore(str(folder / "store"), ranks))
device = Device(folder / "board", rank, ranks)
nccl = EmulatedNCCL(device, COLLECTIVE_NS)


def kernel(length_ns):
    device.compute.put(length_ns * 2 if faulty and fault == "slow device" else length_ns)


def layer(number, phase):
    begun = marks.begin()
    if faulty and fault == "launch-bound":
        launch_slowly()
    kernel(KERNEL_NS)
    marks.end(begun, "module", f"layers.{number}", ("phase", phase))


def launch_slowly():
    time.sleep(0.015)


def sort():
    begun = marks.begin()
    kernel(60 * MS)
    marks.end(begun, "module", "sort", ("phase", "backward"))


def rest():
    begun = marks.begin()
    kernel((5 if faulty else 65) * MS)
    marks.end(begun, "module", "rest", ("phase", "backward"))


def load():
    if faulty and fault == "late host":
        prepare()


def prepare():
    time.sleep(0.080)


def train():
    load()
    for number in range(LAYERS):
        layer(number, "forward")
    if faulty and fault in ("late stream", "hidden"):
        sort()
    work = dist.all_reduce(gradient, async_op=True)
    for number in range(LAYERS):
        layer(number, "backward")
    if fault == "hidden":
        rest()
    work.wait()
    dist.all_reduce(loss)
    if way != "ahead":
        nccl.synchronize()
    scalana.step()


gradient, loss = torch.full((8,), float(rank + 1)), torch.ones(1)
device.meet()
if faulty and fault == "initial skew":
    time.sleep(0.3)
marks.use("emulated", device, None if way == "marks" else Durations(nccl.dump))
for _ in range(steps):
    gradient.fill_(rank + 1.0)
    train()
    assert way == "ahead" or gradient[0] == ranks * (ranks + 1) / 2
nccl.synchronize()
time.sleep(0.15)  # torch's thread has looked at the last collectives by then
nccl.tell_truth(folder / f"truth{rank}")
sys.stdout.flush()
if way == "exit":
    os._exit(0)
dist.destroy_process_group()
