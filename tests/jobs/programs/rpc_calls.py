"""Three processes that call each other by ``torch.distributed.rpc``, one of them slow. The first prints how long.

torchrun --standalone --nproc-per-node 3 rpc_calls.py
"""

from __future__ import annotations

import os
import time

from torch.distributed import rpc

ROUNDS = 3
SYNC_S, ASYNC_S, REMOTE_S = 0.2, 0.3, 0.4


def quick(number: int) -> int:
    return number + 1


def answers(number: int) -> int:
    time.sleep(SYNC_S)  # slow answer
    return number + 1


def computes(number: int) -> int:
    time.sleep(ASYNC_S)  # slow computation
    return number + 1


def builds(number: int) -> int:
    time.sleep(REMOTE_S)  # slow object
    return number + 1


def main() -> None:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=3)
    if rank == 0:
        total = 0
        for number in range(ROUNDS):
            total += rpc.rpc_sync("worker2", answers, (number,))  # waits at once
            asked = [
                rpc.rpc_async("worker1", quick, (number,)),
                rpc.rpc_async("worker2", computes, (number,)),
            ]
            total += sum(future.wait() for future in asked)  # waits for both
            held = [rpc.remote("worker1", quick, (number,)), rpc.remote("worker2", builds, (number,))]
            total += sum(each.to_here() for each in held)  # waits for objects
        print(total, ROUNDS * (SYNC_S + ASYNC_S + REMOTE_S))
    rpc.shutdown()  # waits for all


if __name__ == "__main__":
    main()
