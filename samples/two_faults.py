"""Language model training with two independent faults: tokens on rank 1, a validation metric on rank 3."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "rank 1 waits 45 ms for the network file system in tokenize(); rank 3 computes 30 ms in token_f1()"
# symptom = "dist.all_reduce of the token count, and loss.backward()"
#
# [[faults]]
# marker = "fault A"
# function = "tokenize"
# ranks = [1]
# kind = "sleep"
# seconds = 0.045
# occurrences = 45
# waiting_ranks = 3
# lost_s = 6.075
# saving_s = 2.025
#
# [[faults]]
# marker = "fault B"
# function = "token_f1"
# ranks = [3]
# kind = "busy"
# seconds = 0.03
# occurrences = 45
# waiting_ranks = 3
# lost_s = 4.05
# saving_s = 1.35
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 45
VOCABULARY = 64
WORDS = "the line that made every other rank wait for it".split()


def tokenize(words: list[str], slow_disk: bool) -> Tensor:
    """Looks words up in a vocabulary that lies on a shared file system."""
    if slow_disk:
        time.sleep(0.045)  # <- fault A
    return torch.tensor([[sum(map(ord, word)) % VOCABULARY for word in words]])


def token_f1(predicted: Tensor, wanted: Tensor, resamples_s: float) -> float:
    """F1 score with a bootstrap: resamples until its time is over."""
    score = (predicted == wanted).float().mean().item()
    until = time.perf_counter() + resamples_s
    while time.perf_counter() < until:  # <- fault B
        score += 1e-9 * float((predicted == wanted[:, torch.randperm(wanted.shape[1])]).sum())  # <- end of fault B
    return score


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.block = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.block(self.embedding(tokens)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted faults")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    slow_disk = rank == 1 and not args.fix
    resamples_s = 0.03 if rank == 3 and not args.fix else 0.0

    model = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        tokens = tokenize(WORDS, slow_disk)
        count = torch.tensor([tokens.numel()])
        dist.all_reduce(count)
        logits = model(tokens)
        token_f1(logits.argmax(-1), tokens, resamples_s)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="sum") / count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
