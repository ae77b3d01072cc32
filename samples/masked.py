"""Two slow ranks in one phase: the second hides behind the first, so fixing the first saves less than it costs."""

# /// scalana
# launch = "torchrun --standalone --nproc-per-node 4"
# ranks = 4
# planted = "decode() takes 70 ms instead of 10 on rank 1; resize() takes 40 ms instead of 10 on rank 2"
# symptom = "dist.all_reduce on ranks 0, 2 and 3"
#
# [[faults]]
# marker = "fault"
# function = "decode"
# ranks = [1]
# kind = "sleep"
# seconds = 0.06
# occurrences = 40
# lost_s = 6.0
# saving_s = 1.2
# ///
#
# Of the 80 ms of rank 1, ranks 0 and 3 wait 60 each and rank 2 waits 30; without the fault rank 2 is last, at 50 ms.

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist

STEPS = 40


class Camera:
    """A source of frames; the delays are those of its file format and of its picture size."""

    def __init__(self, decode_s: float = 0.01, resize_s: float = 0.01) -> None:
        self.decode_s = decode_s
        self.resize_s = resize_s

    def decode(self, number: int) -> torch.Tensor:
        time.sleep(self.decode_s)  # <- fault
        return torch.full((16, 16), float(number))

    def resize(self, frame: torch.Tensor) -> torch.Tensor:
        time.sleep(self.resize_s)
        return frame[::2, ::2]

    def frame(self, number: int) -> torch.Tensor:
        return self.resize(self.decode(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="run without the first of the two faults")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    camera = Camera()
    if rank == 1 and not args.fix:
        camera.decode_s = 0.07
    elif rank == 2:
        camera.resize_s = 0.04

    dist.barrier()
    start = time.perf_counter()
    for step in range(STEPS):
        frame = camera.frame(step)
        brightness = frame.mean()
        dist.all_reduce(brightness)
    dist.barrier()
    if rank == 0:
        print(f"loop seconds: {time.perf_counter() - start:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
