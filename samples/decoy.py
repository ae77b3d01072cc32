"""Preparing text by hand-written stages: rank 3 differs most and latest, but rank 1 is the one that all wait for."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "mask() takes 40 ms instead of 10 on rank 1; rank 3 is 30 ms slower in tok() and 30 ms faster in pack()"
# symptom = "dist.all_reduce of the packed lengths on ranks 0, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "mask"
# ranks = [1]
# kind = "sleep"
# seconds = 0.03
# occurrences = 40
# waiting_ranks = 3
# lost_s = 3.6
# saving_s = 1.2
# ///

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

STEPS = 40


@dataclass
class Shard:
    """How long the stages wait for the storage behind a rank's shard, in seconds."""

    mask_s: float = 0.010
    tok_s: float = 0.015
    pack_s: float = 0.045


def mask(shard: Shard, text: list[int]) -> list[int]:
    time.sleep(shard.mask_s)  # <- fault
    return [0 if i % 7 == 0 else word for i, word in enumerate(text)]


def tok(shard: Shard, text: list[int]) -> list[int]:
    time.sleep(shard.tok_s)
    return [word % 97 for word in text]


def pack(shard: Shard, text: list[int]) -> torch.Tensor:
    time.sleep(shard.pack_s)
    return torch.tensor(text, dtype=torch.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shard = Shard()
    if rank == 1 and not args.fix:
        shard = Shard(mask_s=0.040)
    elif rank == 3:
        shard = Shard(tok_s=0.045, pack_s=0.015)

    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        text = list(range(step, step + 200))
        packed = pack(shard, tok(shard, mask(shard, text)))
        length = packed.sum()
        dist.all_reduce(length)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
