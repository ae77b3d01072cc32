"""Training on graphs of Python objects that refer to each other: every rank collects garbage in a step of its own."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "Python collects 360,000 objects in every fifth step or so, on each rank in another one"
# symptom = "all_reduce on the other three ranks; no line of the program takes longer on one rank than on another"
# measured = "collection seconds"
# ///

from __future__ import annotations

import argparse
import gc
import time
from collections import deque

import torch
import torch.distributed as dist

STEPS = 48
NODES = 360_000
"""Kept by each rank."""
NEW = 18_000
"""Made in each step, in place of the oldest: a full collection comes when a fourth of all are new."""
EVERY = 5
"""Steps from one collection to the next, with ``--fix``."""


class Node:
    """One end of an edge. Two of them refer to each other, so that only the collector frees them."""

    __slots__ = ("other",)

    def __init__(self) -> None:
        self.other: Node | None = None


def read_graph(nodes: int) -> list[Node]:
    graph = [Node() for _ in range(nodes)]
    for left, right in zip(graph[::2], graph[1::2], strict=True):
        left.other, right.other = right, left
    return graph


class Stopwatch:
    """Seconds of collections, as the program itself measures them."""

    def __init__(self) -> None:
        self.seconds, self.began = 0.0, 0.0
        gc.callbacks.append(self.see)

    def see(self, phase: str, info: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self.began = now
        elif info["generation"] == 2:
            self.seconds += now - self.began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="collect in the same steps on all ranks")
    parser.add_argument("--freeze", action="store_true", help="leave what the set-up made out of all collections")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    features = torch.ones(256, 256)
    graphs = deque((read_graph(NEW) for _ in range(NODES // NEW)), maxlen=NODES // NEW)
    gc.collect()
    if args.fix:
        gc.disable()
    if args.freeze:
        gc.freeze()
    for _ in range(rank):  # what a rank read before decides in which steps it collects
        graphs.append(read_graph(NEW))
    watch = Stopwatch()

    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        graphs.append(read_graph(NEW))
        loss = (features @ features).mean()
        if args.fix and step % EVERY == 0:
            gc.collect()
        dist.all_reduce(loss)
    dist.barrier()
    seconds = time.perf_counter() - start
    spent = torch.tensor([watch.seconds])
    dist.all_reduce(spent)
    if rank == 0:
        print(f"loop seconds: {seconds:.4f}")
        print(f"collection seconds: {spent.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
