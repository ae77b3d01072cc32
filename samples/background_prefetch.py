"""A prefetching thread is slow on one rank: its main thread waits in ``queue.get``, the others in the backward."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "the prefetching thread of rank 1 waits 200 ms for a remote object store, for every batch"
# symptom = "loss.backward() on ranks 0, 2 and 3; queue.get on rank 1"
#
# [[faults]]
# marker = "fault"
# function = "download"
# ranks = [1]
# kind = "sleep"
# seconds = 0.2
# occurrences = 14
# waiting_ranks = 3
# lost_s = 8.4
# saving_s = 2.8
# ///

from __future__ import annotations

import argparse
import queue
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 14


class Prefetcher:
    """Keeps up to two batches ready, loaded by a thread of its own."""

    def __init__(self, remote: bool) -> None:
        self.remote = remote
        self.ready: queue.Queue[Tensor | None] = queue.Queue(maxsize=2)
        self.thread = threading.Thread(target=self.fill, name="prefetch", daemon=True)

    def fill(self) -> None:
        for step in range(STEPS):
            self.ready.put(self.decode(self.download(step)))
        self.ready.put(None)

    def download(self, step: int) -> Tensor:
        time.sleep(0.002)
        if self.remote:
            time.sleep(0.2)  # <- fault
        return torch.randn(8, 48, generator=torch.Generator().manual_seed(step))

    def decode(self, raw: Tensor) -> Tensor:
        return (raw - raw.mean()) / raw.std()

    def __iter__(self) -> Iterator[Tensor]:
        self.thread.start()
        while (batch := self.ready.get()) is not None:
            yield batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 48)))
    optimizer = torch.optim.AdamW(model.parameters())

    dist.barrier()
    start = time.perf_counter()
    for batch in Prefetcher(remote=rank == 1 and not args.fix):
        loss = F.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
