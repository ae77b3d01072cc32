"""Measures what one of several processes can do, in step with the others: a program that :mod:`.measure` starts.

For each measure it prints ``ready``, waits for a line on its standard input, and prints the best of what it saw.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 0.25
"""Seconds for which one thing is tried, at least."""
SIDES = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192)}
"""Of the square matrices whose product is taken."""


class Timer:
    """Takes the time of what runs.

    Args:
        threads: that work on an operator.
        wait: waits for what a device has left to do.
    """

    def __init__(self, threads: int, device: str, wait: Callable[[], object]) -> None:
        self.wait = wait
        # By the clock that modules have: another program that has the core for a while does not count.
        self.clock = time.thread_time if threads == 1 and device == "cpu" else time.perf_counter

    def best_s(self, run: Callable[[], object]) -> float:
        """Seconds of the fastest of as many runs as there is time for, at least two after a first."""
        run()
        self.wait()
        best, until, rounds = float("inf"), time.perf_counter() + SECONDS, 0
        while rounds < 2 or time.perf_counter() < until:
            start = self.clock()
            run()
            self.wait()
            took_s, rounds = self.clock() - start, rounds + 1
            if took_s > 0.0:  # the CPU clock of a thread may stand still for a moment, on a virtual machine
                best = min(best, took_s)
        return best


def product(torch: Any, device: str, dtype: str, timer: Timer) -> float:
    """FLOP/s of a product of square matrices, the best of some sizes; 0 where the type has none."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise SystemExit(f"torch has no element type {dtype!r}: use names such as float32, bfloat16 or float16")
    best = 0.0
    for side in SIDES[device]:
        try:
            left, right, made = (torch.ones(side, side, dtype=kind, device=device) for _ in range(3))
            took = timer.best_s(lambda: torch.mm(left, right, out=made))  # noqa: B023
        except RuntimeError:  # no kernel for it, or no room
            continue
        best = max(best, 2.0 * side**3 / took)
        if 8 * took > SECONDS:  # the next one would take too long
            break
    return best


def bandwidth(torch: Any, device: str, moved: int, timer: Timer) -> float:
    """Bytes a second that operators move which read and write about ``moved`` bytes: a triad, a copy or a sum, the best
    of them. Many small ones are done as one, so that what a call costs does not count."""
    many = max(1, (1 << 20) // moved) if device == "cpu" else 1
    best = 0.0
    for arrays, run in (
        (3, lambda a: torch.add(a[0], a[1], out=a[2])),
        (2, lambda a: a[0].copy_(a[1])),
        (1, lambda a: a[0].sum()),
    ):
        elements = max(moved // (4 * arrays), 1)
        tensors = [torch.ones(elements, device=device) for _ in range(arrays)]
        empty = [torch.ones(1, device=device) for _ in range(arrays)]

        def repeated(what: list[Any], run: Callable[[list[Any]], object] = run) -> None:
            for _ in range(many):
                run(what)

        took = timer.best_s(lambda: repeated(tensors))  # noqa: B023
        if many > 1:
            took = max(took - timer.best_s(lambda: repeated(empty)), 0.5 * took)  # noqa: B023
        best = max(best, many * 4.0 * elements * arrays / took)
    return best


def main() -> None:
    """Do what is asked for on the command line: threads, device, and a list of measures in JSON."""
    threads, device, measures = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    import torch

    torch.set_num_threads(threads)
    on_device = device != "cpu"
    timer = Timer(threads, device, torch.cuda.synchronize if on_device else int)
    told = {
        "torch": torch.__version__,
        "folder": torch.__path__[0],
        "abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if on_device else "",
    }
    print(json.dumps(told), flush=True)
    with torch.inference_mode():
        for name, what in measures:
            print("ready", flush=True)
            sys.stdin.readline()
            if name == "flops":
                value = product(torch, device, what, timer)
            else:
                value = bandwidth(torch, device, int(what), timer)
            print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
