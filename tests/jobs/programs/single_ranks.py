"""Ranks prepare one after the other, and rank 0 evaluates every tenth step. Prints what each rank spends by its clock:
``RANK SECONDS_PREPARING EVALUATIONS SECONDS_EVALUATING``."""

import os
import time

import torch
import torch.distributed as dist

STEPS, EVERY = 60, 10


def prepare():
    for _ in range(60):
        time.sleep(0.02)  # in rounds


def evaluate():
    for _ in range(30):
        time.sleep(0.01)  # rank 0 alone


def main():
    dist.init_process_group("gloo")
    rank, evaluations, evaluating_s = dist.get_rank(), 0, 0.0
    began = time.perf_counter()
    for turn in range(dist.get_world_size()):
        if turn == rank:
            began = time.perf_counter()
            prepare()
            prepared_s = time.perf_counter() - began
        dist.barrier()
    weight = torch.ones(64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.001)
    for step in range(1, STEPS + 1):
        if step % EVERY == 0 and rank == 0:
            began = time.perf_counter()
            evaluate()
            evaluating_s += time.perf_counter() - began
            evaluations += 1
        time.sleep(0.01)
        weight.square().sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
    os.write(1, f"{rank} {prepared_s} {evaluations} {evaluating_s}\n".encode())  # whole, as other ranks write, too
    dist.destroy_process_group()


main()
