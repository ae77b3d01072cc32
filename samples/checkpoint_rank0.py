"""Training with checkpoints that rank 0 writes while everyone else waits for its broadcast."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "every third step rank 0 writes a checkpoint in chunks to a slow disk, 120 ms in all"
# symptom = "dist.broadcast of the file's digest on ranks 1, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "write_slowly"
# ranks = [0]
# kind = "sleep"
# seconds = 0.12
# occurrences = 20
# waiting_ranks = 3
# lost_s = 7.2
# saving_s = 2.4
# ///

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
import zlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 60
EVERY = 3
CHUNKS = 12


def write_slowly(data: bytes, path: str, pause_s: float) -> None:
    """Writes in chunks, with the pauses that a full network file system makes."""
    size = -(-len(data) // CHUNKS)
    with open(path, "wb") as file:
        for begin in range(0, len(data), size):
            file.write(data[begin : begin + size])
            time.sleep(pause_s)  # <- fault


def save(model: nn.Module, path: str, pause_s: float) -> int:
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    write_slowly(buffer.getvalue(), path, pause_s)
    return zlib.crc32(buffer.getvalue())


def train(rank: int, folder: str, pause_s: float) -> float:
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(STEPS, 8, 32), torch.randint(0, 4, (STEPS, 8))
    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        loss = F.cross_entropy(model(inputs[step]), labels[step])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % EVERY == EVERY - 1:
            digest = torch.zeros(1, dtype=torch.int64)
            if rank == 0:
                digest += save(model.module, os.path.join(folder, "last.pt"), pause_s)
            dist.broadcast(digest, src=0)
    dist.barrier()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as folder:
        seconds = train(rank, folder, 0.0 if args.fix else 0.01)
    if rank == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
