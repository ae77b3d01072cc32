"""A loop of reinforcement learning on Ray: rollout actors, trainers that exchange gradients, weights back every step.

First steps are synchronous, with a slow rollout; the others train on what was generated one step before, with a slow
trainer. Arguments: steps of either kind.
"""

from __future__ import annotations

import os
import socket
import sys
import time

import ray

import scalana

TOKENS = (40, 60)
TOKEN_S = 0.001
SLOW, TRAIN_S, SLOW_TRAIN_S = 3.0, 0.03, 0.25


@ray.remote(num_cpus=0)
class Rollout:
    def __init__(self, rank: int) -> None:
        self.rank, self.version = rank, -1

    def generate(self, step: int, slow: bool) -> list[int]:
        with scalana.rl.phase("rollout", role="rollout"):
            for number, tokens in enumerate(TOKENS):
                with scalana.rl.trajectory(f"{step}.{self.rank}.{number}", tokens=tokens):
                    decode(tokens, SLOW if slow and self.rank == 1 else 1.0)
        return list(TOKENS)

    def set_weights(self, weights: bytes, version: int) -> None:
        with scalana.rl.weights(version=version):
            self.version = version + len(weights) * 0


def decode(tokens: int, factor: float) -> None:
    time.sleep(tokens * TOKEN_S * factor)  # slow rollout


@ray.remote(num_cpus=0)
class Trainer:
    def join(self, rank: int, ranks: int, port: int) -> None:
        import torch.distributed as dist

        self.rank = rank
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
        dist.init_process_group("gloo")

    def train(self, lengths: list[list[int]], slow: bool) -> bytes:
        import torch
        import torch.distributed as dist

        with scalana.rl.phase("update_actor", role="trainer", tokens=sum(map(sum, lengths))):
            backward(slow and self.rank == 0)
            dist.all_reduce(torch.ones(8))
        with scalana.rl.weights():
            return bytes(1000)


def backward(slow: bool) -> None:
    time.sleep(SLOW_TRAIN_S if slow else TRAIN_S)  # slow trainer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(synchronous: int, ahead: int) -> None:
    address = os.environ.get("LOOP_ADDRESS")
    ray.init(address) if address else ray.init(num_cpus=4, include_dashboard=False)
    rollouts = [Rollout.remote(rank) for rank in range(2)]
    trainers = [Trainer.remote() for _ in range(2)]
    port = free_port()
    ray.get([trainer.join.remote(rank, 2, port) for rank, trainer in enumerate(trainers)])

    def generated(step: int, slow: bool) -> list:
        return [rollout.generate.remote(step, slow) for rollout in rollouts]

    def trained(lengths: list, slow: bool) -> bytes:
        return ray.get([trainer.train.remote(lengths, slow) for trainer in trainers])[0]

    def sent(weights: bytes, version: int) -> list:
        reference = ray.put(weights)
        return [rollout.set_weights.remote(reference, version) for rollout in rollouts]

    for step in range(synchronous):
        weights = trained(ray.get(generated(step, slow=True)), slow=False)
        ray.get(sent(weights, step))
    pending = generated(synchronous, slow=False) if ahead else []
    for step in range(synchronous, synchronous + ahead):
        lengths, pending = ray.get(pending), generated(step + 1, slow=False)
        sent(trained(lengths, slow=True), step)
    ray.get(pending)
    print("loop done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
