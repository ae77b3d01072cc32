"""Every rank drops connections that refer to themselves; the collector closes them, which takes 60 ms without a core.

With ``--fix``, all ranks do so in the same steps.
"""

from __future__ import annotations

import gc
import sys
import time

import torch
import torch.distributed as dist

STEPS = 40
CLOSING_S = 0.06


class Connection:
    def __init__(self) -> None:
        self.callback = self.__del__

    def __del__(self) -> None:
        time.sleep(CLOSING_S)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    turn = 0 if "--fix" in sys.argv else rank
    gc.disable()
    gc.freeze()
    value = torch.zeros(1)
    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        if step % size == turn:
            Connection()
            gc.enable()
            kept = [[] for _ in range(1000)]
            gc.disable()
            del kept
        dist.all_reduce(value)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
