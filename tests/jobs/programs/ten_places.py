"""Three programs of ten places, each of which can take a part of its time: ten_places.py PROGRAM [PLACE PART].

They sleep in place of what they would compute, so that cores do not matter. Prints the median seconds of their steps,
by their own clock, without the first ones.
"""

import multiprocessing
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import scalana

PROGRAM = sys.argv[1]
PARTS = {sys.argv[2]: float(sys.argv[3])} if len(sys.argv) > 2 else {}
STEPS, FIRST = 40, 6


def spend(place, seconds):
    return PARTS.get(place, 1.0) * seconds


class Photos(Dataset):
    def __len__(self):
        return STEPS + 4

    def __getitem__(self, index):
        time.sleep(spend("loader", 0.040))  # <- loader
        return torch.ones(4)


def verify(answer):
    time.sleep(spend("pool", 0.030))  # <- pool
    return answer


def loader():
    for _ in DataLoader(Photos(), batch_size=None, num_workers=1, prefetch_factor=2):
        time.sleep(spend("train", 0.025))  # <- train
        time.sleep(spend("log", 0.008))  # <- log
        yield


def pool():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        for _ in range(STEPS + 4):
            workers.map(verify, range(4), chunksize=1)
            time.sleep(spend("update", 0.020))  # <- update
            yield


def ranks():
    rank = dist.get_rank()
    buffer = torch.ones(int(spend("allreduce", 2_000_000)))
    for _ in range(STEPS + 4):
        time.sleep(spend("forward", 0.020 + 0.004 * rank))  # <- forward
        time.sleep(spend("backward", 0.015))  # <- backward
        dist.all_reduce(buffer)  # <- allreduce
        time.sleep(spend("optimiser", 0.010))  # <- optimiser
        if rank == 0:
            time.sleep(spend("serial", 0.012))  # <- serial
        dist.barrier()
        yield


def main():
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    begun = []
    for _ in globals()[PROGRAM]():
        begun.append(time.perf_counter())
        scalana.step()
    took = [later - sooner for sooner, later in zip(begun[FIRST:-1], begun[FIRST + 1 :])]
    if int(os.environ.get("RANK", 0)) == 0:
        print(statistics.median(took))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
