"""Image classification with DDP: one rank's augmentation is slow, the others wait in the backward."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "denoising four images of every batch takes 12 ms each on rank 2"
# symptom = "loss.backward() on ranks 0, 1 and 3: DDP's all-reduce"
#
# [[faults]]
# marker = "fault"
# function = "denoise"
# ranks = [2]
# kind = "busy"
# seconds = 0.048
# occurrences = 50
# waiting_ranks = 3
# lost_s = 7.2
# saving_s = 2.4
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 50
BATCH = 4
NOISY_SHARD = 2


def denoise(image: Tensor, budget_s: float) -> Tensor:
    """Smooths an image for as long as the budget allows."""
    deadline = time.perf_counter() + budget_s
    while time.perf_counter() < deadline:  # <- fault
        image = 0.5 * image + 0.25 * (image.roll(1, -1) + image.roll(-1, -1))  # <- end of fault
    return image


def augment(images: Tensor, budget_s: float) -> Tensor:
    augmented = []
    for image in images:
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        augmented.append(denoise(image, budget_s))
    return torch.stack(augmented)


def train(rank: int, fix: bool) -> float:
    torch.manual_seed(rank)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    images = torch.randn(STEPS, BATCH, 3, 16, 16)
    labels = torch.randint(0, 10, (STEPS, BATCH))
    network(images[0])
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    budget_s = 0.012 if rank == NOISY_SHARD and not fix else 0.0

    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        batch = augment(images[step], budget_s)
        loss = F.cross_entropy(model(batch), labels[step])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seconds = train(rank, args.fix)
    if rank == 0:
        print(f"loop seconds: {seconds:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
