"""Experts from files, on demand: by two functions of a class, or of this module, with a cache of another kind each."""

from __future__ import annotations

import functools
import pickle
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

LAYERS, EXPERTS, PASSES, SIZE = 3, 5, 12, 16


class Held:
    """Keeps some experts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, {}

    def expert(self, layer: int, number: int) -> Tensor:
        if (layer, number) not in self.kept:
            if len(self.kept) == 4:
                del self.kept[next(iter(self.kept))]
            self.kept[layer, number] = self.fetch(layer, number)
        return self.kept[layer, number]

    def fetch(self, layer: int, number: int) -> Tensor:
        return torch.load(self.folder / f"{layer}-{number}.pt")

    def describe(self, text: str) -> str:
        return text


class ExpertSlots:
    """Copies experts from memory of the host into some slots, in turn."""

    def __init__(self) -> None:
        self.host = {(layer, number): torch.ones(64, 64) for layer in range(LAYERS) for number in range(EXPERTS)}
        self.slots, self.held = [torch.empty(64, 64) for _ in range(4)], {}

    def ready(self, layer: int, number: int) -> Tensor:
        if (layer, number) not in self.held.values():
            slot = len(self.held) % 4 if len(self.held) < 4 else (layer + number) % 4
            self.copy_in(layer, number, slot)
            self.held[slot] = layer, number
        return self.slots[0]

    def copy_in(self, layer: int, number: int, slot: int) -> None:
        self.slots[slot].copy_(self.host[layer, number])


@functools.lru_cache(maxsize=4)
def expert_weights(folder: Path, layer: int, number: int) -> np.ndarray:
    return np.load(folder / f"{layer}-{number}.npy")


def raw_expert(folder: Path, layer: int, number: int) -> np.ndarray:
    return np.load(folder / f"{layer}-{number}.npy")


FETCHING = {"raw": raw_expert}
"""Held from before it loads anything: what pickle finds by its name has to stay this function."""


class Mixture(nn.Module):
    def __init__(self, held: Held, layer: int) -> None:
        super().__init__()
        self.held, self.layer = held, layer

    def forward(self, x: Tensor, number: int) -> Tensor:
        return torch.tanh(x @ self.held.expert(self.layer, number))


@torch.no_grad()
def main() -> None:
    folder = Path(sys.argv[1])
    for layer in range(LAYERS):
        for number in range(EXPERTS):
            weight = torch.full((SIZE, SIZE), 0.01 * (layer + number))
            torch.save(weight, folder / f"{layer}-{number}.pt")
            np.save(folder / f"{layer}-{number}.npy", weight.numpy())
    held = Held(folder)
    model = nn.ModuleList(Mixture(held, layer) for layer in range(LAYERS))
    slots = ExpertSlots()
    x = torch.ones(1, SIZE)
    for turn in range(PASSES):
        for layer, block in enumerate(model):
            x = block(x, (turn * turn) % EXPERTS)
            x = x + 0.0 * slots.ready(layer, (turn * turn) % EXPERTS).mean()
            x = x + torch.from_numpy(expert_weights(folder, layer, (turn * turn) % EXPERTS)).sum()
    try:
        held.fetch(LAYERS, 0)
    except FileNotFoundError as failure:
        print(type(failure).__name__)
    print(FETCHING["raw"](folder, 0, 1).sum(), raw_expert(folder, 0, 2).sum(), len(pickle.dumps(FETCHING)))
    print(f"{x.sum():.5f}", Held.expert.__name__, expert_weights.cache_info().misses, held.describe("same"))


main()
