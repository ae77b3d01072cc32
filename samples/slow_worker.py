"""Evaluation with a DataLoader whose worker process is slow on one rank: scans are recognised in ``__getitem__``."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "one page of every batch is a scan on rank 3; its text is recognised in 200 ms by the worker process"
# symptom = "dist.all_reduce on ranks 0, 1 and 2; next() of the loader on rank 3"
#
# [[faults]]
# marker = "fault"
# function = "recognise"
# ranks = [3]
# kind = "busy"
# seconds = 0.2
# occurrences = 18
# waiting_ranks = 3
# lost_s = 10.8
# saving_s = 3.6
# ///

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

STEPS = 18
BATCH = 4
READ_S = 0.001
RECOGNISE_S = 0.2


def recognise(page: np.ndarray) -> np.ndarray:
    """Text of a scanned page: binarises it at every threshold there is time for."""
    text = page
    deadline = time.perf_counter() + RECOGNISE_S
    while time.perf_counter() < deadline:  # <- fault
        text = np.where(page > np.median(text), page, 0.0)  # <- end of fault
    return text


class Pages(Dataset):
    """Pages on a disk that answers after 1 ms; every ``BATCH``-th one may be a scan."""

    def __init__(self, scans: bool) -> None:
        self.scans = scans

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(READ_S)
        page = np.random.default_rng(index).normal(size=256).astype(np.float32)
        if self.scans and index % BATCH == 1:
            page = recognise(page)
        return torch.from_numpy(page.astype(np.float32)), index % 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Pages(scans=rank == 3 and not args.fix), batch_size=BATCH, num_workers=1)
    model = nn.Linear(256, 10)

    dist.barrier()
    start = time.perf_counter()
    for pages, labels in loader:
        with torch.inference_mode():
            correct = (model(pages).argmax(dim=1) == labels).sum()
        dist.all_reduce(correct)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
