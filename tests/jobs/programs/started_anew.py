"""A training loop of short epochs whose loader has workers that take long to start: started_anew.py KEPT.

Prints how long it waits for the first batches of all epochs but the first, by its own clock.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS = 4


class Rows(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((8,), float(index)), index % 2


def prepare(worker):
    time.sleep(0.4)  # as imports take


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    kept = bool(int(sys.argv[1]))
    loader = DataLoader(Rows(), batch_size=4, num_workers=1, worker_init_fn=prepare, persistent_workers=kept)
    waited_s = 0.0
    for epoch in range(EPOCHS):
        asked = time.perf_counter()
        for number, (x, y) in enumerate(loader):  # <- asks
            if number == 0 and epoch > 0:
                waited_s += time.perf_counter() - asked
            time.sleep(0.01)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    print(waited_s)


if __name__ == "__main__":
    main()
