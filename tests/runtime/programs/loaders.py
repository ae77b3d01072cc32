"""Loads data twice in a worker process started in any way.

Usage: loaders.py [fork|spawn|forkserver] [persistent]
"""

import os
import sys

import torch
import torch.utils.data


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([index, os.getpid()])


if __name__ == "__main__":
    method, persistent = sys.argv[1], "persistent" in sys.argv
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=2, num_workers=1, multiprocessing_context=method, persistent_workers=persistent
    )
    workers = set()
    for _ in range(2):
        for batch in loader:
            workers.update(batch[:, 1].tolist())
    print(sorted(workers))
