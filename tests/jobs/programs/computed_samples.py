"""Ranks that load without workers, half of the time computing and half of it waiting; prints CPU seconds of a step."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

STEPS, WARM_UP, PART_S = 60, 10, 0.012


class Photos(Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        until = time.thread_time() + PART_S
        while time.thread_time() < until:
            pass
        time.sleep(PART_S)
        return torch.zeros(4)


dist.init_process_group("gloo")
torch.set_num_threads(1)
for step, batch in enumerate(DataLoader(Photos(), batch_size=1)):
    if step == WARM_UP:
        begun = time.process_time()
    dist.all_reduce(batch)
if dist.get_rank() == 0:
    print((time.process_time() - begun) / (STEPS - WARM_UP))
dist.destroy_process_group()
