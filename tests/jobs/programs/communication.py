"""Steps that communicate in a way that costs time: communication.py CAUSE {wrong,right,both}.

Trains one way, or five steps one way and five the other in turn. Prints the mean seconds of steps of each way, by its
own clock, without the first ones.
"""

import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CAUSE, WAYS = sys.argv[1], {"wrong": (False,), "right": (True,), "both": (False, True)}[sys.argv[2]]
ROUNDS, STEPS, FIRST = 10, 5, 1
MICROBATCHES, METRICS = 8, 12
LOSS = nn.CrossEntropyLoss()


class Statistics(nn.Module):
    """Keeps running statistics, as many as a large embedding has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(2_000_000))

    def forward(self, x):
        return x


def embedding():
    return nn.Sequential(nn.Embedding(20_000, 128), nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))


def layers():
    return nn.Sequential(*(layer for _ in range(80) for layer in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))


def perceptron(*more):
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), *more, nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Training:
    """One way to train."""

    def __init__(self, net, width=None):
        self.net, self.width = net, width
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def batch(self, size):
        x = torch.randint(0, 20_000, (size, 16)) if self.width is None else torch.randn(size, self.width)
        return x, torch.randint(0, 10, (size,))

    def step(self, size=64):
        x, y = self.batch(size)
        self.optimizer.zero_grad()
        loss = LOSS(self.net(x), y)  # <- buffers
        loss.backward()  # <- buckets
        self.optimizer.step()
        return loss


class Accumulating(Training):
    """Gradients of several microbatches."""

    def __init__(self, right):
        super().__init__(DistributedDataParallel(embedding()))
        self.right = right

    def step(self):
        self.optimizer.zero_grad()
        for number in range(MICROBATCHES):
            last = number == MICROBATCHES - 1
            with contextlib.nullcontext() if last or not self.right else self.net.no_sync():
                x, y = self.batch(4)
                loss = LOSS(self.net(x), y) / MICROBATCHES
                loss.backward()  # <- accumulate
        self.optimizer.step()


class Averaging(Training):
    """Gradients that the program averages itself."""

    def __init__(self, right):
        super().__init__(layers(), 64)
        self.right = right

    def step(self):
        x, y = self.batch(64)
        self.optimizer.zero_grad()
        LOSS(self.net(x), y).backward()
        grads = [parameter.grad for parameter in self.net.parameters()]
        if self.right:
            flat = torch.cat([grad.flatten() for grad in grads])
            dist.all_reduce(flat)
            for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
                grad.copy_(part.view_as(grad))
        else:
            for grad in grads:
                dist.all_reduce(grad)  # <- average
        self.optimizer.step()


class Measuring(Training):
    """Metrics of all ranks in each step."""

    def __init__(self, right):
        super().__init__(DistributedDataParallel(perceptron()), 256)
        self.right, self.sums = right, [0.0] * METRICS

    def step(self):
        loss = super().step()
        for number in range(METRICS):
            value = loss.detach() * number
            if not self.right:
                dist.all_reduce(value)  # <- metrics
            self.sums[number] += value.item()


class Gathering(Training):
    """Objects of all ranks on the first one."""

    def __init__(self, right):
        super().__init__(DistributedDataParallel(perceptron()), 256)
        self.right, self.number = right, 0
        self.found = torch.rand(60_000)

    def step(self):
        super().step()
        if self.right:
            dist.gather(self.found, [torch.empty_like(self.found) for _ in range(2)] if dist.get_rank() == 0 else None)
        else:
            rows = [{"id": n, "score": score} for n, score in enumerate(self.found.tolist())]
            dist.gather_object(rows, [None, None] if dist.get_rank() == 0 else None)  # <- objects


def wrapped(net, width, **options):
    return Training(DistributedDataParallel(net, **options), width)


CAUSES = {
    "accumulate": Accumulating,
    "average": Averaging,
    "buckets": lambda right: wrapped(layers(), 64, bucket_cap_mb=25 if right else 0.005),
    "buffers": lambda right: wrapped(perceptron(Statistics()), 256, broadcast_buffers=not right),
    "metrics": Measuring,
    "objects": Gathering,
    "nothing": lambda right: wrapped(perceptron(), 256),
}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    trainings = [CAUSES[CAUSE](right) for right in WAYS]
    taken = [[] for _ in WAYS]
    for number in range(ROUNDS + FIRST):
        for training, seconds in zip(trainings, taken):
            begun = time.perf_counter()
            for _ in range(STEPS):
                training.step()
            if number >= FIRST:
                seconds.append((time.perf_counter() - begun) / STEPS)
    if dist.get_rank() == 0:
        print(*(sum(seconds) / len(seconds) for seconds in taken))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
