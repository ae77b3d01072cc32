"""A small job of several ranks; its arguments say how it is launched and how it ends."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 40
SLOW_S = 0.03

slept_s = 0.0
"""What the slow rank has really slept: longer than it wanted to where others have the cores."""


def prepare(rank: int) -> torch.Tensor:
    global slept_s
    if rank == 1:
        begin = time.perf_counter()
        time.sleep(SLOW_S)  # slow here
        slept_s += time.perf_counter() - begin
    return torch.ones(64)


def train(rank: int, ranks: int, ending: str) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for step in range(STEPS):
        data = prepare(rank)
        dist.all_reduce(data)
        if step == STEPS - 1 and rank == 1:
            Path(os.environ["SLEPT"]).write_text(str(slept_s))
        if step == STEPS - 1 and rank == ranks - 1:
            end(ending)
    if ending == "hang":
        dist.barrier()
    dist.destroy_process_group()
    # One write a line: with unbuffered output, print writes the end of the line by itself, and ranks share a pipe.
    os.write(1, f"rank {rank} has finished\n".encode())


def end(ending: str) -> None:
    if ending == "kill":
        time.sleep(1.5)  # longer than the record is flushed
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "raise":
        raise RuntimeError("the loss is not finite")
    if ending == "hang":
        stuck()


def stuck() -> None:
    Path(os.environ["STUCK"]).touch()
    while True:
        time.sleep(0.5)  # stuck here


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=0)
    parser.add_argument("--ending", default="")
    arguments = parser.parse_args()
    if arguments.spawn:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29511"))
        torch.multiprocessing.spawn(train, (arguments.spawn, arguments.ending), arguments.spawn)
        return
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    train(rank, ranks, arguments.ending)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
    sys.exit(0)
