"""A loop of reinforcement learning on Ray: rollout actors, trainers that exchange gradients, weights back every step.

The first steps are synchronous, and one trajectory of rollout 1 is long; the others train on what was generated one
step before, and trainer 0 is slow. Arguments: steps of either kind.
"""

from __future__ import annotations

import os
import socket
import sys
import time

import ray

import scalana

TOKENS, LONG = (40, 60), (40, 260)
TOKEN_S = 0.001
TRAIN_S, SLOW_TRAIN_S = 0.04, 0.24


@ray.remote(num_cpus=0)
class Rollout:
    def __init__(self, rank: int) -> None:
        self.rank, self.version = rank, -1

    def generate(self, step: int, long: bool) -> list[int]:
        lengths = LONG if long and self.rank == 1 else TOKENS
        with scalana.rl.phase("rollout", role="rollout"):
            for number, tokens in enumerate(lengths):
                with scalana.rl.trajectory(f"{step}.{self.rank}.{number}", tokens=tokens):
                    decode(tokens)
        return list(lengths)

    def set_weights(self, weights: bytes, version: int) -> None:
        with scalana.rl.weights(version=version):
            self.version = version + len(weights) * 0


def decode(tokens: int) -> None:
    for _ in range(tokens // 20):
        time.sleep(20 * TOKEN_S)


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

        with scalana.rl.phase("update_actor", role="trainer", tokens=100):
            backward(slow and self.rank == 0)
            dist.all_reduce(torch.ones(8))
        with scalana.rl.weights():
            return bytes(1000)


def backward(slow: bool) -> None:
    time.sleep(SLOW_TRAIN_S if slow else TRAIN_S)


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

    def generated(step: int, long: bool) -> list:
        return [rollout.generate.remote(step, long) for rollout in rollouts]

    def trained(lengths: list, slow: bool) -> bytes:
        calls = [trainer.train.remote(lengths, slow) for trainer in trainers]
        return ray.get(calls)[0]  # waits for trainers

    def sent(weights: bytes, version: int) -> list:
        reference = ray.put(weights)
        return [rollout.set_weights.remote(reference, version) for rollout in rollouts]

    for step in range(synchronous):
        lengths = ray.get(generated(step, long=True))  # waits for rollouts
        weights = trained(lengths, slow=False)
        ray.get(sent(weights, step))
    pending = generated(synchronous, long=False) if ahead else []
    for step in range(synchronous, synchronous + ahead):
        lengths, pending = ray.get(pending), generated(step + 1, long=False)
        sent(trained(lengths, slow=True), step)
    ray.get(pending)
    print("loop done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
