"""A server that takes requests from whoever comes first; its own bookkeeping is what all workers wait for."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "rank 0 writes its journal for 50 ms between the last request and the first answer of a round"
# symptom = "recv of the answer on ranks 1, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "journal"
# ranks = [0]
# kind = "sleep"
# seconds = 0.05
# occurrences = 50
# waiting_ranks = 3
# lost_s = 7.5
# saving_s = 2.5
# ///

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist

ROUNDS = 50
SIZE = 256


def journal(entries: list[float], latency_s: float) -> None:
    entries.clear()
    if latency_s:
        time.sleep(latency_s)  # <- fault


def serve(workers: int, latency_s: float) -> None:
    request, answer = torch.empty(SIZE), torch.zeros(SIZE)
    entries: list[float] = []
    for _ in range(ROUNDS):
        for _ in range(workers):
            dist.recv(request)
            answer += request / workers
            entries.append(float(request.sum()))
        journal(entries, latency_s)
        for worker in range(1, workers + 1):
            dist.send(answer, dst=worker)


def ask(rank: int) -> None:
    answer = torch.zeros(SIZE)
    for _ in range(ROUNDS):
        request = torch.tanh(answer) + rank
        dist.send(request, dst=0)
        dist.recv(answer, src=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the planted fault")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dist.barrier()
    start = time.perf_counter()
    if rank == 0:
        serve(dist.get_world_size() - 1, 0.0 if args.fix else 0.05)
    else:
        ask(rank)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
