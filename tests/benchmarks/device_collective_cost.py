"""What marking a collective on a device adds to it, and what reading how long collectives took costs.

Run: ``python -m tests.benchmarks.device_collective_cost``. CPU time of the calling thread. Events are of a
device that does nothing, so what is left is our part in Python; what CUDA takes for an event comes on top. The flight
recorder is torch's own, full of collectives of gloo.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist

import scalana
from scalana.runtime import chosen_steps, session, steps
from scalana.runtime.device import marks
from scalana.runtime.device.collectives import collectives
from scalana.runtime.device.durations import Durations
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_POST

CALLS, REPEATS = 1000, 9
ALLREDUCE = BY_NAME["allreduce"].code


class Event:
    """Comes at once."""

    def record(self, stream: object = None) -> None:
        """Nothing."""

    def query(self) -> bool:
        """It has come."""
        return True

    def elapsed_time(self, end_event: object) -> float:
        """No time passes."""
        return 0.0


STREAM = SimpleNamespace(device_index=0, cuda_stream=1)
DEVICE = SimpleNamespace(
    Event=lambda enable_timing: Event(),
    Stream=lambda: STREAM,
    current_stream=lambda: STREAM,
    current_device=lambda: 0,
    is_initialized=lambda: True,
)


def microseconds(step: Callable[[], None]) -> float:
    """Median over steps of the CPU time of a call; each step has ``CALLS``."""
    taken = []
    for _ in range(REPEATS):
        begun = time.thread_time_ns()
        step()
        taken.append((time.thread_time_ns() - begun) / CALLS / 1000)
        steps.step()
    return statistics.median(taken)


def main() -> None:
    """Print a row for each."""
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    world, tensor = dist.group.WORLD, torch.ones(4)
    for _ in range(2000):
        dist.all_reduce(tensor)
    dump = torch._C._distributed_c10d._dump_fr_trace
    with tempfile.TemporaryDirectory() as folder, scalana.profile(Path(folder) / "run"):
        group = session.core.group("world", 0, [0])
        # The works of gloo stand for those of NCCL: what counts is that each has an address of its own.
        works = [dist.all_reduce(tensor, async_op=True) for _ in range(CALLS)]

        def calls(marked: bool) -> None:
            for number, work in enumerate(works):
                event = session.core.begin(ALLREDUCE, group, number, -1, 0, 16, EVENT_POST)
                if marked:
                    posted = collectives._coming(event, ALLREDUCE)
                    if posted is None:
                        raise SystemExit("the step is not a chosen one")
                    collectives.number(posted, world, tensor)
                    collectives.launched(posted, work, waits=True)
                    collectives.waited(work)
                session.core.end(event)

        chosen_steps.is_chosen = lambda number, one_of=0: True
        alone = microseconds(lambda: calls(False))
        marks.use("nothing", DEVICE)
        marked = microseconds(lambda: calls(True)) - alone
        marks.use("nothing", DEVICE, Durations(lambda: b"\x80\x02}."))
        timed = microseconds(lambda: calls(True)) - alone
        known, taken = Durations(lambda: dump(includeStackTraces=False)), []
        for _ in range(REPEATS):
            begun = time.thread_time_ns()
            known.read([("0", 1)], at_any_price=True)
            taken.append((time.thread_time_ns() - begun) / 1e6)
    print(f"marks of a collective                        {marked:6.1f} us")
    print(f"marks of one whose duration is read          {timed:6.1f} us")
    print(f"reading a flight recorder of 2000 operations {statistics.median(taken):6.1f} ms")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
