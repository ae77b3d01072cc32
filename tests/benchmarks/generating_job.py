"""Generates tokens by a small transformer with a cache, each request with the next of some numbers of threads. Prints
the seconds after the first two requests.

``--nodes 0,1`` runs them in turn on the cores of two NUMA nodes, which are emulated: each has half of the cores, all
memory lies on the first, and on the second a token takes a time of sleep more. It needs one node and two cores.

Run: python tests/benchmarks/generating_job.py --threads 1,16
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, VOCABULARY = 256, 4, 4, 1000
PROMPT, TOKENS = 256, 40
FAR_S = 0.004


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.norm_up = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        if cache:
            key, value = torch.cat((cache[0], key), 2), torch.cat((cache[1], value), 2)
        cache[:] = [key, value]
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        output: Tensor = x + self.down(nn.functional.gelu(self.up(self.norm_up(x))))
        return output


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, ids: Tensor, caches: list[list[Tensor]]) -> Tensor:
        x = self.embedding(ids)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache)
        output: Tensor = self.head(x[:, -1])
        return output


@torch.no_grad()
def generate(model: Model, prompt: Tensor, more_s: float) -> None:
    caches: list[list[Tensor]] = [[] for _ in range(LAYERS)]
    ids = model(prompt, caches).argmax(-1, keepdim=True)
    for _ in range(TOKENS):
        ids = model(ids, caches).argmax(-1, keepdim=True)
        if more_s:
            time.sleep(more_s)


def emulated_nodes(folder: Path) -> list[list[int]]:
    """The cores of two nodes, for the recorder as well."""
    from scalana.runtime.torch.sequences import placement

    cores = sorted(os.sched_getaffinity(0))
    nodes = [cores[: len(cores) // 2], cores[len(cores) // 2 :]]
    for number, some in enumerate(nodes):
        (folder / f"node{number}").mkdir()
        (folder / f"node{number}" / "cpulist").write_text(",".join(map(str, some)) + "\n")
    placement.NODES = str(folder)
    return nodes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", default="1", help="numbers of threads, in turn, with commas")
    parser.add_argument("--requests", type=int, default=42)
    parser.add_argument("--nodes", default="", help="emulated NUMA nodes, in turn, with commas")
    arguments = parser.parse_args()
    order = [int(one) for one in arguments.nodes.split(",") if one]
    with tempfile.TemporaryDirectory() as folder:
        serve(arguments, order, emulated_nodes(Path(folder)) if order else [])


def serve(arguments: argparse.Namespace, order: list[int], nodes: list[list[int]]) -> None:
    threads = [int(one) for one in arguments.threads.split(",")]
    torch.manual_seed(0)
    model, since = Model().eval(), 0.0
    for number in range(arguments.requests):
        if number == 2:
            since = time.monotonic()
        torch.set_num_threads(threads[number % len(threads)])
        node = order[number % len(order)] if order else 0
        if order:
            os.sched_setaffinity(0, nodes[node])
        generate(model, torch.randint(0, VOCABULARY, (1, PROMPT)), FAR_S * node)
    print(f"{time.monotonic() - since:.3f} s", flush=True)


if __name__ == "__main__":
    main()
