"""A second program with experts on demand, written differently: speculative decoding with weights in one mapped file.

Each block has a bank of its own that keeps a few experts, by a dictionary; futures of a pool load ahead. The disk and
the device are sleeps; the file is really read. Prints what it waited for by block, and the seconds of all rounds.

Run: python tests/benchmarks/expert_bank_job.py FOLDER [--early] [--next] [--room 6]
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

BLOCKS, UNITS, CHOSEN, WIDTH = 5, 10, 3, 96
MIX_S, UNIT_S, GUESS_S, READ_S = 0.016, 0.006, 0.02, 0.014
GUESSES = 4


class Bank:
    """Units of one block, of which a few are at hand."""

    bus = threading.Lock()

    def __init__(self, file: np.memmap, number: int, room: int) -> None:
        self.rows, self.number, self.room = file[number], number, room
        self.at_hand: dict[int, Tensor | Future[Tensor]] = {}
        self.waited_s = 0.0

    def fetch_unit(self, unit: int) -> Tensor:
        with self.bus:
            time.sleep(READ_S)
            return torch.from_numpy(np.array(self.rows[unit]))

    def take(self, unit: int) -> Tensor:
        began = time.perf_counter()
        there = self.at_hand.pop(unit, None)
        weight = self.fetch_unit(unit) if there is None else there.result() if isinstance(there, Future) else there
        self.store(unit, weight)
        if there is None or isinstance(there, Future):
            self.waited_s += time.perf_counter() - began
        return weight

    def store(self, unit: int, weight: Tensor | Future[Tensor]) -> None:
        self.at_hand[unit] = weight
        if len(self.at_hand) > self.room:
            del self.at_hand[next(iter(self.at_hand))]

    def order(self, units: list[int], pool: ThreadPoolExecutor) -> None:
        for unit in units:
            if unit not in self.at_hand:
                self.store(unit, pool.submit(self.fetch_unit, unit))


class MoeBlock(nn.Module):
    def __init__(self, bank: Bank) -> None:
        super().__init__()
        self.bank, self.norm = bank, nn.LayerNorm(WIDTH)

    def forward(self, hidden: Tensor, units: list[int]) -> Tensor:
        total = torch.zeros_like(hidden)
        for unit in units:
            total += torch.relu(hidden @ self.bank.take(unit))
            time.sleep(UNIT_S)
        return self.norm(hidden + total)


class Target(nn.Module):
    def __init__(self, banks: list[Bank], pool: ThreadPoolExecutor | None) -> None:
        super().__init__()
        self.pool = pool
        self.blocks = nn.ModuleList(MoeBlock(bank) for bank in banks)
        self.words = nn.Embedding(64, WIDTH)

    def forward(self, tokens: Tensor, plan: list[list[int]]) -> Tensor:
        hidden = self.words(tokens)
        for place, block in enumerate(self.blocks):
            time.sleep(MIX_S)
            if self.pool is not None:
                for later in range(place, min(place + 2, BLOCKS)):
                    self.blocks[later].bank.order(plan[later], self.pool)
            hidden = block(hidden, plan[place])
        return hidden.mean(-1)


class Guesser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, WIDTH)

    def forward(self, token: Tensor) -> Tensor:
        time.sleep(GUESS_S)
        return self.words(token).argmax(-1) % 64


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--room", type=int, default=4, help="units that each bank keeps")
    parser.add_argument("--next", action="store_true", help="load for the next block, too")
    parser.add_argument("--early", action="store_true", help="load for all blocks while tokens are guessed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    shape = (BLOCKS, UNITS, WIDTH, WIDTH)
    file = np.memmap(options.folder / "units.bin", np.float32, "w+", shape=shape)
    file[:] = 0.01
    banks = [Bank(file, number, options.room) for number in range(BLOCKS)]
    pool = ThreadPoolExecutor(1)
    target, guesser = Target(banks, pool if options.next else None), Guesser()
    draw = np.random.default_rng(11)
    often = 1.0 / np.arange(2, UNITS + 2)
    order = [draw.permutation(UNITS) for _ in range(BLOCKS)]
    token, began = torch.tensor([1]), time.perf_counter()
    for _ in range(options.rounds):
        chosen = [draw.choice(UNITS, CHOSEN, replace=False, p=often / often.sum()) for _ in range(BLOCKS)]
        plan = [order[number][units].tolist() for number, units in enumerate(chosen)]
        if options.early:
            for bank, units in zip(banks, plan, strict=True):
                bank.order(units, pool)
        guesses = [token]
        for _ in range(GUESSES):
            guesses.append(guesser(guesses[-1]))
        token = target(torch.cat(guesses), plan).argmax(-1, keepdim=True) % 64
    print(json.dumps({"seconds": time.perf_counter() - began, "waited_s": [bank.waited_s for bank in banks]}))
    pool.shutdown()


if __name__ == "__main__":
    main()
