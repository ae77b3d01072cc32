"""A training loop that waits for its loader of data: input_bound.py WORKERS MILLISECONDS-A-SAMPLE, alone or with ranks.

Prints the mean seconds of its steps, by its own clock, without the first ones, and the part of them in which it waits.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

workers, sample_s = int(sys.argv[1]), float(sys.argv[2]) / 1000
STEPS, FIRST = 24, 4


class Photos(Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, index):
        time.sleep(sample_s)  # <- read
        return torch.full((8,), float(index)), index % 2


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 2)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    waited_s, begun = [], []
    batches = iter(DataLoader(Photos(), batch_size=4, num_workers=workers))
    for _ in range(STEPS):
        begun.append(time.perf_counter())
        x, y = next(batches)
        waited_s.append(time.perf_counter() - begun[-1])
        time.sleep(0.010)  # computing
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    step_s = (begun[-1] - begun[FIRST]) / (STEPS - FIRST - 1)
    if int(os.environ.get("RANK", 0)) == 0:
        print(step_s, sum(waited_s[FIRST:-1]) / (STEPS - FIRST - 1))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
