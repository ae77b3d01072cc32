"""Trains a small transformer on two ranks, with something slow planted in its third layer: the program of
``roofline.py``.

``PLANT=double``: a linear layer in float64. ``strided``: its input is transposed and made contiguous over and over.
``heads``: attention by a loop in Python over sequences and heads.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

PLANT = os.environ.get("PLANT", "")
WIDTH, HEADS, LAYERS, BATCH, LENGTH, WORDS = 256, 8, 4, 8, 64, 1000


class Attention(nn.Module):
    def __init__(self, slow: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.slow = slow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        if self.slow and PLANT == "heads":
            y = torch.zeros(batch, HEADS, length, WIDTH // HEADS)
            for i in range(batch):
                for h in range(HEADS):
                    scores = (q[i, h] @ k[i, h].T) / (WIDTH // HEADS) ** 0.5
                    y[i, h] = torch.softmax(scores, -1) @ v[i, h]
        else:
            y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Mlp(nn.Module):
    def __init__(self, slow: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.slow = slow
        if slow and PLANT == "double":
            self.down = self.down.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.up(x))
        if self.slow and PLANT == "strided":
            for _ in range(10):
                x = x.transpose(0, 2).contiguous().transpose(0, 2).contiguous()
        if self.slow and PLANT == "double":
            return self.down(x.double()).float()
        return self.down(x)


class Layer(nn.Module):
    def __init__(self, slow: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention(slow)
        self.norm2, self.mlp = nn.LayerNorm(WIDTH), Mlp(slow)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList(Layer(number == 2) for number in range(LAYERS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def main() -> None:
    """Train for some steps."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(net.parameters())
    words = torch.randint(0, WORDS, (BATCH, LENGTH))
    for _ in range(8):
        optimizer.zero_grad()
        functional.cross_entropy(net(words).flatten(0, 1), words.flatten()).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
