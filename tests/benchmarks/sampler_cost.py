"""What the recorder costs: a sample, a recorded call, and a whole program, with and without in turns.

Run ``python tests/benchmarks/sampler_cost.py`` on a quiet machine; ``--seconds`` sets the length of each measurement.
Ratios compare CPU time of the whole process (user and system, the sampler's included), block by block in turns, so that
what else the machine does hits both sides alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime import _core
from scalana.runtime.record.format import ProcessRecord

BUDGET = 1 << 28


def start(folder: str, rate_hz: float) -> str:
    path = os.path.join(folder, f"{time.monotonic_ns()}.rec")
    _core.start(path, rate_hz, BUDGET)
    return path


def helper_cpu_us() -> float:
    """CPU time of the recorder's own threads so far."""
    total = 0.0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
                if not file.read().startswith("scalana"):
                    continue
            with open(f"/proc/self/task/{task}/schedstat", encoding="utf-8") as file:
                total += int(file.read().split()[0]) / 1e3
        except OSError:
            continue
    return total


def at_depth(depth: int, work: Callable[[], float]) -> float:
    """``work`` called below about ``depth`` Python frames."""
    return at_depth(depth - 1, work) if depth > 4 else work()


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(100):
            pass


def call_cost_us(depth: int) -> float:
    """Of one ``begin`` and ``end``: the best of many short rounds."""

    def rounds() -> float:
        begin, end, clock = _core.begin, _core.end, time.thread_time_ns
        best = float("inf")
        for _ in range(60):
            before = clock()
            for _ in range(500):
                end(begin(2, 1, 7, -1, 0, 4096, 1))
            best = min(best, (clock() - before) / 500e3)
        return best

    with tempfile.TemporaryDirectory() as folder:
        start(folder, 0)
        _core.group("world", 0, [0, 1])
        try:
            return at_depth(depth, rounds)
        finally:
            _core.stop(0)


def sample_cost_us(depth: int, rate_hz: float, seconds: float, busy: bool) -> tuple[float, float]:
    """CPU us of the sampler per tick, and samples per tick, on a thread that runs or rests."""
    with tempfile.TemporaryDirectory() as folder:
        path = start(folder, rate_hz)
        time.sleep(0.05)

        def work() -> float:
            before = helper_cpu_us()
            if busy:
                spin(seconds)
            else:
                time.sleep(seconds)
            return helper_cpu_us() - before

        spent_us = at_depth(depth, work)
        _core.stop(0)
        ticks = seconds * rate_hz
        return spent_us / ticks, len(ProcessRecord.read(path).samples) / ticks


def python_work() -> None:
    table: dict[int, int] = {}
    for i in range(60_000):
        table[i & 1023] = table.get(i & 1023, 0) + len(str(i))


def numpy_work() -> Callable[[], None]:
    import numpy as np

    a = np.random.default_rng(1).random((192, 192))

    def work() -> None:
        b = a
        for _ in range(12):
            b = np.tanh(b @ a * 0.01)

    return work


def slow_down(work: Callable[[], None], rate_hz: float, seconds: float) -> tuple[float, float]:
    """CPU ratio with to without, of medians and of the lower tenths of blocks."""
    blocks: dict[bool, list[float]] = {False: [], True: []}
    work()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end or len(blocks[True]) < 10:
            for recording in (False, True):
                if recording:
                    start(folder, rate_hz)
                before = time.process_time()
                for _ in range(10):
                    work()
                blocks[recording].append(time.process_time() - before)
                if recording:
                    _core.stop(0)

    def tenth(values: list[float]) -> float:
        return statistics.quantiles(values, n=10)[0]

    return (
        statistics.median(blocks[True]) / statistics.median(blocks[False]),
        tenth(blocks[True]) / tenth(blocks[False]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each measurement (default: 4)")
    seconds = parser.parse_args().seconds
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for depth in (10, 30, 100):
        print(f"begin + end at {depth:3d} frames: {call_cost_us(depth):6.2f} us")
    for rate in (200.0, 1000.0):
        for depth in (10, 30, 100):
            cost, samples = sample_cost_us(depth, rate, seconds / 2, busy=True)
            print(
                f"sampler at {rate:4.0f} Hz, {depth:3d} frames, busy:    {cost:6.1f} us a tick ({samples:.2f} samples)"
            )
        cost, samples = sample_cost_us(30, rate, seconds / 2, busy=False)
        print(f"sampler at {rate:4.0f} Hz,  30 frames, at rest: {cost:6.1f} us a tick ({samples:.2f} samples)")
    works: dict[str, Callable[[], None]] = {"python": python_work}
    try:
        works["numpy"] = numpy_work()
    except ImportError:
        print("numpy is missing: only pure Python is measured")
    for name, work in works.items():
        for rate in (200.0, 1000.0):
            median, low = slow_down(work, rate, seconds)
            print(f"CPU with / without, {name:6s} at {rate:4.0f} Hz: median {median:.4f}, lower tenth {low:.4f}")


if __name__ == "__main__":
    main()
