"""A trainer with callbacks, called by the name of the event: one callback on one rank flushes its log every step."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the logging callback flushes for 50 ms on rank 3; it is reached through getattr over a list of callbacks"
# symptom = "loss.backward() on ranks 0, 1 and 2"
#
# [[faults]]
# marker = "fault"
# function = "on_batch_start"
# ranks = [3]
# kind = "sleep"
# seconds = 0.05
# occurrences = 50
# waiting_ranks = 3
# lost_s = 7.5
# saving_s = 2.5
# ///

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 50
REGISTRY: dict[str, Callable[[argparse.Namespace], Callback]] = {}


def register(name: str) -> Callable[[type], type]:
    def add(cls: type) -> type:
        REGISTRY[name] = cls
        return cls

    return add


class Callback:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def on_batch_start(self, step: int) -> None: ...

    def on_batch_end(self, step: int, loss: float) -> None: ...


@register("schedule")
class Schedule(Callback):
    def on_batch_start(self, step: int) -> None:
        self.rate = 0.1 * (1 - step / STEPS)


@register("log")
class Log(Callback):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self.lines: list[str] = []
        self.flush_s = 0.05 if dist.get_rank() == 3 and not args.fix else 0.0

    def on_batch_start(self, step: int) -> None:
        if self.lines:
            self.lines.clear()
        if self.flush_s:
            time.sleep(self.flush_s)  # <- fault

    def on_batch_end(self, step: int, loss: float) -> None:
        self.lines.append(f"{step} {loss:.3f}")


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.callbacks = [REGISTRY[name](args) for name in ("schedule", "log")]
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def emit(self, event: str, *values: object) -> None:
        for callback in self.callbacks:
            getattr(callback, f"on_{event}")(*values)

    def fit(self) -> float:
        inputs, labels = torch.randn(8, 40), torch.randint(0, 3, (8,))
        dist.barrier()
        start = time.perf_counter()
        for step in range(STEPS):
            self.emit("batch_start", step)
            loss = F.cross_entropy(self.model(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.emit("batch_end", step, loss.item())
        dist.barrier()
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    seconds = Trainer(args).fit()
    if dist.get_rank() == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
