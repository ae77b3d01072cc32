"""Generates tokens by a mixture of experts whose experts lie in files: a cache keeps some of them, and loads the others
when a layer asks for them. Prints what it waited for in each layer, and the seconds of all tokens.

Files are really read; a link of a fixed bandwidth between them and the device, and the work of the device, are sleeps.

Run: scalana run -- python samples/serving/experts_on_demand.py FOLDER [--ahead 2] [--slots 72] [--draft 3 [--early]]
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
import time
from collections import OrderedDict
from pathlib import Path

import torch
from torch import Tensor, nn

LAYERS, EXPERTS, TOP, WIDTH = 6, 16, 2, 128
ATTENTION_S, EXPERT_S, DRAFT_S = 0.012, 0.004, 0.024
BYTES_PER_S = 6e6
VOCABULARY = 50


def write_experts(folder: Path) -> None:
    """One file an expert."""
    folder.mkdir(parents=True, exist_ok=True)
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            torch.save(torch.randn(WIDTH, WIDTH) / WIDTH, folder / f"layer{layer}_expert{expert}.pt")


class Link:
    """Between files and the device: one transfer at a time, with a fixed bandwidth."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def transfer(self, path: Path) -> Tensor:
        with self.lock:
            began = time.perf_counter()
            weight: Tensor = torch.load(path)
            took_s = path.stat().st_size / BYTES_PER_S
            time.sleep(max(took_s - (time.perf_counter() - began), 0.0))
            return weight


class ExpertCache:
    """Keeps the experts that were used last."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.folder, self.slots, self.link = folder, slots, Link()
        self.kept: OrderedDict[tuple[int, int], Tensor] = OrderedDict()
        self.wanted: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self.coming: dict[tuple[int, int], threading.Event] = {}
        self.lock = threading.Lock()
        self.waited_s = [0.0] * LAYERS

    def get(self, layer: int, expert: int) -> Tensor:
        """An expert, loaded if it is not there."""
        began = time.perf_counter()
        coming = self.coming.get((layer, expert))
        if coming is not None:
            coming.wait()
            self.waited_s[layer] += time.perf_counter() - began
        with self.lock:
            weight = self.kept.get((layer, expert))
            if weight is not None:
                self.kept.move_to_end((layer, expert))
                return weight
        weight = self.load(layer, expert)
        self.keep((layer, expert), weight)
        self.waited_s[layer] += time.perf_counter() - began
        return weight

    def load(self, layer: int, expert: int) -> Tensor:
        return self.link.transfer(self.folder / f"layer{layer}_expert{expert}.pt")

    def keep(self, key: tuple[int, int], weight: Tensor) -> None:
        with self.lock:
            self.kept[key] = weight
            while len(self.kept) > self.slots:
                self.kept.popitem(last=False)

    # ---- ahead of time ----

    def prefetch(self, layer: int, experts: list[int]) -> None:
        """Load experts of a layer in another thread."""
        for expert in experts:
            if (layer, expert) not in self.kept and (layer, expert) not in self.coming:
                self.coming[layer, expert] = threading.Event()
                self.wanted.put((layer, expert))

    def work(self) -> None:
        while (key := self.wanted.get()) is not None:
            self.keep(key, self.load(*key))
            self.coming.pop(key).set()


class Layer(nn.Module):
    def __init__(self, number: int, cache: ExpertCache) -> None:
        super().__init__()
        self.number, self.cache = number, cache

    def forward(self, x: Tensor, routing: list[list[int]], ahead: int) -> Tensor:
        time.sleep(ATTENTION_S)
        if ahead:
            for layer in range(self.number, min(self.number + ahead + 1, LAYERS)):
                self.cache.prefetch(layer, routing[layer])
        mixed, experts = x, routing[self.number]
        for expert in experts:
            weight = self.cache.get(self.number, expert)
            time.sleep(EXPERT_S)
            mixed = mixed + torch.tanh(x @ weight)
        return mixed


class Model(nn.Module):
    """Its routing is drawn in advance: what a router would say of each token."""

    def __init__(self, cache: ExpertCache, ahead: int) -> None:
        super().__init__()
        self.cache, self.ahead = cache, ahead
        self.layers = nn.ModuleList(Layer(number, cache) for number in range(LAYERS))
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor, routing: list[list[int]]) -> Tensor:
        x = self.embedding(ids).mean(0)
        for layer in self.layers:
            x = layer(x, routing, self.ahead)
        output: Tensor = self.head(x)
        return output


class Draft(nn.Module):
    """A small dense model that proposes tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        time.sleep(DRAFT_S)
        output: Tensor = self.head(self.embedding(ids).mean(0))
        return output


def drawn(tokens: int) -> list[list[list[int]]]:
    """Experts of every layer for each token: some are asked for more often than others."""
    draw = torch.Generator().manual_seed(5)
    often = 1.0 / (1.0 + torch.arange(EXPERTS)) ** 0.6
    order = [torch.randperm(EXPERTS, generator=draw) for _ in range(LAYERS)]
    return [
        [order[layer][torch.multinomial(often, TOP, generator=draw)].tolist() for layer in range(LAYERS)]
        for _ in range(tokens)
    ]


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--slots", type=int, default=36, help="experts that the device has room for")
    parser.add_argument("--ahead", type=int, default=0, help="so many layers ahead are loaded for")
    parser.add_argument("--draft", type=int, default=0, help="tokens that a draft proposes for each of the model")
    parser.add_argument("--early", action="store_true", help="load experts of all layers during the draft")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    write_experts(arguments.folder)
    cache = ExpertCache(arguments.folder, arguments.slots)
    threading.Thread(target=cache.work, daemon=True).start()
    model, draft, began = Model(cache, arguments.ahead), Draft(), time.perf_counter()
    ids = torch.zeros(1, dtype=torch.long)
    for routing in drawn(arguments.tokens):
        if arguments.early:
            for layer, experts in enumerate(routing):
                cache.prefetch(layer, experts)
        for _ in range(arguments.draft):
            ids = torch.cat((ids, draft(ids[-1:]).argmax().view(1)))
        ids = model(ids[-max(arguments.draft, 1) :], routing).argmax().view(1)
    print(json.dumps({"seconds": time.perf_counter() - began, "waited_s": cache.waited_s}))
    cache.wanted.put(None)


if __name__ == "__main__":
    main()
