"""Classify support tickets with DDP on CPUs: the program of docs/tutorial.md. The tickets are random words."""

from __future__ import annotations

import argparse
import random
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WORDS, LABELS, TICKETS, BATCH = 20_000, 8, 1_600, 8


def read_tickets() -> list[str]:
    """All tickets, as the export of a help desk sorts them: short ones first."""
    chance = random.Random(0)
    lengths = sorted(int(chance.paretovariate(1.2) * 60) for _ in range(TICKETS))
    return [" ".join(f"w{chance.randrange(WORDS)}" for _ in range(min(length, 4_000))) for length in lengths]


def distinct_words(ticket: str, fast: bool) -> list[str]:
    """The words of a ticket without repetitions, in order. ``fast`` looks them up in a dictionary, not in a list."""
    if fast:
        return list(dict.fromkeys(ticket.split()))
    seen: list[str] = []
    for word in ticket.split():
        if word not in seen:
            seen.append(word)
    return seen


class Tickets(Dataset[tuple[Tensor, int]]):
    """The tickets that one rank trains on."""

    def __init__(self, tickets: list[str], fast: bool) -> None:
        self.tickets, self.fast = tickets, fast

    def __len__(self) -> int:
        return len(self.tickets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        words = distinct_words(self.tickets[index], self.fast)[:64]
        codes = [int(word[1:]) for word in words]
        return torch.tensor(codes + [WORDS] * (64 - len(codes))), sum(codes) % LABELS


def train(rank: int, ranks: int, fast: bool, epochs: int) -> None:
    tickets = read_tickets()
    share = len(tickets) // ranks
    loader = DataLoader(Tickets(tickets[rank * share : (rank + 1) * share], fast), batch_size=BATCH, shuffle=True)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Embedding(WORDS + 1, 64), nn.Flatten(), nn.Linear(64 * 64, 64), nn.ReLU(), nn.Linear(64, LABELS)
    )
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    begin = time.perf_counter()
    for _ in range(epochs):
        for codes, labels in loader:
            loss = F.cross_entropy(model(codes), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"trained in {time.perf_counter() - begin:.1f} s, loss {loss.item():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="with the fix of the tutorial")
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size(), args.fix, args.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
