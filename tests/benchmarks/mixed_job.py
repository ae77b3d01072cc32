"""Training on a mixture of data sets, of which one is far more expensive to load than the others.

Each rank draws its batches from five data sets, as ``ConcatDataset`` holds them; or a class that chooses among them
(``--mixture chosen``), or one table of Hugging Face's ``datasets`` (``--mixture table``), of which each call loads a
batch. Batches are of one data set each, as
models for several modalities need them. Another rank gets a batch of videos in each of its turns, and the others wait.
"""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# ///

from __future__ import annotations

import argparse
import bisect
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

STEPS = 60
BATCH = 4
SIZE = 64
PARTS = 500
"""Samples of a kind."""
READ_S = {"text": 0.002, "code": 0.002, "image": 0.006, "audio": 0.004, "video": 0.08}


class Stored(Dataset):
    """Samples of one kind, on a disk that takes its time."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(READ_S[self.name])
        return torch.full((SIZE,), index / self.size)


class Chosen(Dataset):
    """Chooses a member for each number."""

    def __init__(self, members: list[Stored]) -> None:
        self.by_kind = {member.name: member for member in members}
        self.cumulative_sizes = list(itertools.accumulate(map(len, members)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Tensor:
        at = bisect.bisect_right(self.cumulative_sizes, index)
        return self.by_kind[list(self.by_kind)[at]][index - ([0, *self.cumulative_sizes][at])]


def read_rows(rows: dict[str, list[Any]]) -> dict[str, list[Tensor]]:
    """Reads what rows of a table stand for."""
    return {"sample": [Stored(name, PARTS)[index] for name, index in zip(rows["kind"], rows["index"], strict=True)]}


def in_one_table() -> Any:
    """All samples in one table, shuffled as long as they lie in it."""
    import datasets

    tables = []
    for name in READ_S:
        about = datasets.DatasetInfo(dataset_name=name)
        tables.append(datasets.Dataset.from_dict({"kind": [name] * PARTS, "index": list(range(PARTS))}, info=about))
    table = datasets.concatenate_datasets(tables).with_transform(read_rows)
    table.cumulative_sizes = list(itertools.accumulate(map(len, tables)))
    return table


MIXTURES: dict[str, Callable[[], Any]] = {
    "concatenated": lambda: ConcatDataset([Stored(name, PARTS) for name in READ_S]),
    "chosen": lambda: Chosen([Stored(name, PARTS) for name in READ_S]),
    "table": in_one_table,
}


def collated(samples: list[Any]) -> Tensor:
    """A batch."""
    return torch.stack([one["sample"] if isinstance(one, dict) else one for one in samples])


class Batches:
    """Numbers of samples: every twelfth batch of a rank is of videos, in a step of its own (or spread evenly)."""

    def __init__(self, mixture: Any, rank: int, ranks: int, even: bool) -> None:
        self.mixture, self.rank, self.ranks, self.even = mixture, rank, ranks, even

    def __iter__(self) -> Iterator[list[int]]:
        edges = [0, *self.mixture.cumulative_sizes]
        videos = len(edges) - 2
        draw = random.Random(self.rank)
        for step in range(STEPS):
            at = [draw.randrange(videos) for _ in range(BATCH)]
            if self.even:
                if step % 3 == 1:
                    at[0] = videos
            elif step % 12 == 3 * self.rank + 1:
                at = [videos] * BATCH
            yield [draw.randrange(edges[one], edges[one + 1]) for one in at]

    def __len__(self) -> int:
        return STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="deal videos out evenly over ranks")
    parser.add_argument("--mixture", choices=MIXTURES, default="concatenated")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mixture = MIXTURES[args.mixture]()
    batches = Batches(mixture, rank, ranks, args.fix)
    loader = DataLoader(mixture, batch_sampler=batches, num_workers=args.workers, collate_fn=collated)
    model = nn.parallel.DistributedDataParallel(nn.Linear(SIZE, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    dist.barrier()
    start = time.perf_counter()
    for samples in loader:
        time.sleep(0.03)  # the work of a device
        model(samples).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
