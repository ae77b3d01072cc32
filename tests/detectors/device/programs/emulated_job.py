"""A training job on an emulated device that records itself: one rank of it, with a fault on one of them.

python emulated_job.py RUN-FOLDER BOARD RANK RANKS FAULT ["kernels"|"few steps"]
"""

import sys
import time
from pathlib import Path

import scalana
from scalana.runtime import chosen_steps, session, steps
from scalana.runtime.device import marks
from scalana.runtime.device.collectives import collectives
from scalana.runtime.device.windows import Windows
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_POST
from tests.tools.emulated_device import MS, Device, Profiler

STEPS, LAYERS = 6, 4
FEW = (2, 4)
"""Steps that are looked at, where not all are."""
KERNEL_NS = 3 * MS
ALLREDUCE = BY_NAME["allreduce"].code

folder, board, rank, ranks, fault = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
fault = fault if rank == 1 else ("hidden" if fault == "hidden" else "none")
device = Device(board, rank, ranks)
chosen_steps.is_chosen = lambda step: step >= 0


class Work:
    """What a collective gives back."""

    __slots__ = ("kernel",)

    def __init__(self, kernel):
        self.kernel = kernel

    def wait(self):
        device.compute.wait_for(self.kernel)
        collectives.waited(self)


def kernel(length_ns, name="gemm"):
    if fault == "slow device":
        length_ns *= 3
    device.compute.put(length_ns, name)


def load():
    pause(0.002)
    if fault == "late host":
        prepare()
    if fault == "shared helper":
        for _ in range(15):
            pause(0.004)  # <- the helper that all ranks use


def pause(seconds):
    time.sleep(seconds)


def prepare():
    time.sleep(0.060)


def layer(number, phase, length_ns):
    begun = marks.begin()
    if fault == "launch-bound":
        launch_slowly()
    kernel(length_ns)
    marks.end(begun, "module", f"layers.{number}", ("phase", phase))


def launch_slowly():
    time.sleep(0.010)


def sort():
    begun = marks.begin()
    kernel(60 * MS, "radix_sort")
    marks.end(begun, "module", "sort", ("phase", "backward"))


def all_reduce(number):
    event = session.core.begin(ALLREDUCE, group, number, -1, 0, 4096, EVENT_POST)
    posted = collectives.coming(event, ALLREDUCE)
    work = Work(device.communicate.all_reduce(device.compute, 1 * MS))
    if posted is not None:
        collectives.launched(posted, work, waits=True)
    session.core.end(event)
    return work


def step(number):
    load()
    for row in range(LAYERS):
        layer(row, "forward", KERNEL_NS)
    works = []
    for row in reversed(range(LAYERS)):
        layer(row, "backward", KERNEL_NS)
        if row == LAYERS // 2 and (fault == "late stream" or (fault == "hidden" and rank == 1)):
            sort()
        if row == LAYERS // 2:
            works.append(all_reduce(2 * number))
    if fault == "hidden":
        layer(9, "backward", (5 if rank == 1 else 65) * MS)
    works.append(all_reduce(2 * number + 1))
    for work in works:
        work.wait()
    device.compute.synchronize()
    scalana.step()


if "few steps" in sys.argv:
    chosen_steps.is_chosen = lambda step: step in FEW
if "kernels" in sys.argv:  # of every second step
    steps.when_marked(Windows(lambda: Profiler(device), 2).marked)
device.meet()
if fault == "initial skew":
    time.sleep(0.6)
with scalana.profile(folder):
    session.core.meta("rank", str(rank))
    session.core.meta("world_size", str(ranks))
    group = session.core.group("world", rank, list(range(ranks)))
    marks.use("emulated", device)
    for number in range(STEPS):
        step(number)
