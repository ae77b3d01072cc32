"""What the recording of garbage collections costs: ns a collection, with and without it, in turns in one process.

Run: python tests/benchmarks/collection_cost.py

The shortest collection there is (of an empty young generation) is counted only; a long one is written as a span. The
last column is for a program that allocates and never collects: there is nothing to pay for.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime import _core  # noqa: E402

ROUNDS = 40
SHORT, LONG = 2_000, 20
YOUNG, KEPT = 700, 60_000
"""Objects that a usual collection visits, and a long one."""


def collect(generation: int, times: int) -> float:
    """ns of one collection, the mean of some."""
    start = time.perf_counter_ns()
    for _ in range(times):
        gc.collect(generation)
    return (time.perf_counter_ns() - start) / times


def allocate(times: int) -> float:
    """ns of making and dropping an object that the collector knows, with no collection."""
    start = time.perf_counter_ns()
    for _ in range(times):
        made = [None]
    del made
    return (time.perf_counter_ns() - start) / times


def main() -> None:
    gc.disable()
    gc.collect()
    gc.freeze()
    kept = [[None] for _ in range(KEPT)]
    gc.collect()

    def young() -> float:
        """Of as many objects as make Python collect the young generation."""
        total = 0.0
        for _ in range(SHORT // 10):
            made = [[None] for _ in range(YOUNG)]
            total += collect(0, 1)
            del made[:]
        return total / (SHORT // 10)

    ways = {
        "of nothing, counted": lambda: collect(0, SHORT),
        f"of {YOUNG} objects, counted": young,
        f"of {KEPT} objects, a span": lambda: collect(2, LONG),
        "an object without a collection": lambda: allocate(20 * SHORT),
    }
    best = {name: [float("inf")] * 2 for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        _core.start(f"{folder}/r.rec", 0, 1 << 36)
        for _ in range(ROUNDS):
            for watched in (False, True):
                if watched:
                    _core.watch_collections(gc.callbacks)
                for name, way in ways.items():
                    best[name][watched] = min(best[name][watched], way())
                while gc.callbacks:
                    gc.callbacks.pop()
        counted = _core.collections()
        _core.stop(0)
    assert counted[0] > counted[2] >= ROUNDS * LONG, counted
    assert len(kept) == KEPT
    print("| a collection | without, ns | recorded, ns | more, ns | more |\n|---|---:|---:|---:|---:|")
    for name, (without, recorded) in best.items():
        more = recorded - without
        print(f"| {name} | {without:.0f} | {recorded:.0f} | {more:.0f} | {more / without:.2%} |")


if __name__ == "__main__":
    main()
