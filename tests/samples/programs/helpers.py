"""Small functions that all ranks call, and one rank calls more: one phase of the run a case, between barriers.

Ranks, and the lines that a person would edit, are marked: ``# <- CASE: RANK``, with ``# <- end of CASE`` where it is
several lines. Every case has helpers of its own, so that what is used elsewhere is so within its case.
"""

from __future__ import annotations

import functools
import json
import sys
import time

import torch.distributed as dist

STEPS = 12
EXCESS_S = 0.08
"""Of one step."""
rank = 0


# One rank waits for its mesh as all do for their queue.


def pause() -> None:
    time.sleep(0.004)


def drain(messages: int) -> None:
    for _ in range(messages):
        pause()


def repair(cells: int) -> None:
    for _ in range(cells):
        pause()  # <- pause: 1


def mesh() -> None:
    for _ in range(STEPS):
        drain(2)
        if rank == 1:
            repair(20)
        dist.barrier()


# One rank looks at the clock until it is late enough.


def now() -> float:
    return time.perf_counter()


def relax(value: float) -> float:
    return value * 0.5 + 1.0


def settle(budget_s: float) -> float:
    value, until = 0.0, now() + budget_s
    while now() < until:  # <- clock: 2
        value = relax(value)  # <- end of clock
    return value


def deadline() -> None:
    for _ in range(STEPS):
        since = now()
        settle(EXCESS_S if rank == 2 else 0.0)
        relax(now() - since)
        dist.barrier()


# One rank waits until an object says that it may go on.


class Gate:
    def look(self) -> float:
        return time.perf_counter()

    def rest(self) -> None:
        time.sleep(0.001)


def pass_through(gate: Gate, until: float) -> None:
    while gate.look() < until:  # <- gate: 3
        gate.rest()  # <- end of gate


def gates() -> None:
    gate = Gate()
    for _ in range(STEPS):
        if rank == 3:
            pass_through(gate, gate.look() + EXCESS_S)
        dist.barrier()


# A function is called by another name.


def hold(seconds: float) -> None:
    time.sleep(seconds)


retry = functools.partial(hold, 0.008)


def partial() -> None:
    for _ in range(STEPS):
        hold(0.004)
        if rank == 3:
            for _ in range(10):
                retry()  # <- partial: 3
        dist.barrier()


def touch(seconds: float) -> None:
    time.sleep(seconds)


again = lambda: touch(0.008)  # noqa: E731


def forwarded() -> None:
    for _ in range(STEPS):
        touch(0.004)
        if rank == 1:
            for _ in range(10):
                again()  # <- lambda: 1
        dist.barrier()


# One rank logs every cell.

STATE = {f"cell {number}": [number * 0.1, number * 0.2, "open"] for number in range(200)}
LOG = open("/dev/null", "w")  # noqa: SIM115


def log(level: int, what: str) -> None:
    if level > 0:
        LOG.write(f"{what}: {json.dumps(STATE)}\n")


def logger() -> None:
    for _ in range(STEPS):
        for message in range(20):
            log(1, f"message {message}")
        for cell in range(400 if rank == 0 else 0):
            log(1, f"cell {cell}")  # <- log: 0
        dist.barrier()


# One rank makes its vectors orthogonal to more others.


def dot(left: list[float], right: list[float]) -> float:
    total = 0.0
    for x, y in zip(left, right):  # noqa: B905
        total += x * y
    return total


VECTOR = [0.5] * 4000


def orthogonalise(others: int) -> None:
    for _ in range(others):
        dot(VECTOR, VECTOR)  # <- dot: 2


def krylov() -> None:
    for _ in range(STEPS):
        for _ in range(40):
            dot(VECTOR, VECTOR)
        orthogonalise(200 if rank == 2 else 2)
        dist.barrier()


# The function itself is the cause: it does more for each call of one rank, or is called by that rank alone.


def sweep(field: list[float], rounds: int) -> list[float]:
    for _ in range(rounds):  # <- kernel: 3
        field = [value * 0.5 + 1.0 for value in field]  # <- end of kernel
    return field


def kernel() -> None:
    for _ in range(STEPS):
        sweep(VECTOR, 600 if rank == 3 else 20)
        dist.barrier()


def rebuild(entries: int) -> int:
    table = 0
    for entry in range(entries):  # <- alone: 0
        table = (table * 31 + entry) % 65521  # <- end of alone
    return table


def alone() -> None:
    for _ in range(STEPS):
        if rank == 0:
            rebuild(1_200_000)
        dist.barrier()


# The function is slower for all its callers.


def blend(value: float) -> float:
    for _ in range(60 if rank == 1 else 6):  # <- slower: 1
        value = value * 0.999 + 0.001  # <- end of slower
    return value


def slower() -> None:
    for _ in range(STEPS):
        for _ in range(16_000):
            blend(1.0)
        for _ in range(16_000):
            blend(2.0)
        dist.barrier()


CASES = {
    "pause": mesh, "clock": deadline, "gate": gates, "partial": partial, "lambda": forwarded,
    "log": logger, "dot": krylov, "kernel": kernel, "alone": alone, "slower": slower,
}  # fmt: skip


def main() -> None:
    global rank
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, case in CASES.items():
        if name in sys.argv[1:] or not sys.argv[1:]:
            case()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
