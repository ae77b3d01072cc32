"""One rank that trains on a GPU, and spends time in each step in one way that is named.

    python gpu_step.py nothing|waits|loading|copies|kernels|launches|short|long [LEFT] [STEPS]

``LEFT`` is how much of the cause is left: 1, 0.5 or 0. ``waits`` asks for a number after every layer, ``loading`` takes
8 ms for each batch, ``copies`` brings 64 MB from the host's memory, ``kernels`` sorts what a layer gives, ``launches``
adds 600 numbers to a short vector, one kernel each. ``short`` and ``long`` have layers whose kernels take less and more
than launching them. Prints how long a step took.
"""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

cause = sys.argv[1]
left = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 500
WARM_UP = 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAYERS, WIDTH, ROWS = {"short": (24, 256, 64), "waits": (24, 1024, 2048), "long": (12, 2048, 8192)}.get(
    cause, (12, 2048, 1024)
)
if DEVICE == "cpu":
    WIDTH, ROWS = 64, 64


class Rows(Dataset):
    """Batches, each of which takes some time to make."""

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if cause == "loading":
            time.sleep(8e-3 * left)
        return 0.01 * (index % 7)


class Layer(nn.Module):
    """Linear, and what is planted."""

    def __init__(self, number):
        super().__init__()
        self.project = nn.Linear(WIDTH, WIDTH)
        self.number = number

    def forward(self, rows):
        rows = torch.relu(self.project(rows))
        if cause == "waits":
            count_words()
            if left:
                check(rows)
        if cause == "kernels" and self.number == LAYERS // 2:
            order(rows)
        return rows


def count_words():
    return len("what hosts do anyway takes some time as well ".split() * 800)


def check(rows):
    if rows[0, 0].item() < 0:
        raise ValueError("negative")


def order(rows):
    for _ in range(round(40 * left)):
        torch.sort(rows.detach(), dim=1)


def add(numbers):
    for _ in range(round(600 * left)):
        numbers.add_(1)


def bring(memory):
    return memory[: max(1, round(len(memory) * left))].to(DEVICE)


model = nn.Sequential(*map(Layer, range(LAYERS))).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
numbers = torch.zeros(64, device=DEVICE)
memory = torch.ones(16 << 20)
for step, first in enumerate(DataLoader(Rows(), batch_size=None)):
    if step == WARM_UP:
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
    batch = torch.full((ROWS, WIDTH), first, device=DEVICE)
    if cause == "copies":
        batch = batch + bring(memory)[0]
    if cause == "launches":
        add(numbers)
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if DEVICE == "cuda":
    torch.cuda.synchronize()
print(f"{(time.perf_counter() - begun) / (STEPS - WARM_UP) * 1e3:.4f} ms a step")
