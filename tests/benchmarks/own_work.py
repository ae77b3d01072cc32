"""Time of dividing own work: 8 ranks x 60 s at 200 Hz with 500,000 calls, and as many ranks with few calls each.

Run: python tests/benchmarks/own_work.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.graphs.attribution.places import Places  # noqa: E402
from scalana.graphs.bursts.own_work import own_work  # noqa: E402
from scalana.graphs.calls.bursts import Bursts  # noqa: E402
from scalana.graphs.readers.folder.records import Samples, Threads  # noqa: E402


def synthetic(ranks: int, seconds: float, rate_hz: float, calls: int, paths: int = 400, helpers: int = 2):
    """A run of ``ranks`` locations with ``helpers`` more threads each."""
    rng = np.random.default_rng(0)
    each = calls // ranks
    end = int(seconds * 1e9)
    edges = np.sort(rng.integers(0, end, (ranks, 2 * each)), axis=1)
    starts = np.concatenate((np.zeros((ranks, 1), np.int64), edges[:, 1::2]), axis=1)
    ends = np.concatenate((edges[:, 0::2], np.full((ranks, 1), end)), axis=1)
    vertex = rng.integers(0, 50, (ranks, each))
    none = np.full((ranks, 1), -1)
    gaps = Bursts(
        np.repeat(np.arange(ranks), each + 1),
        starts.ravel(),
        ends.ravel(),
        (0.9 * (ends - starts)).astype(np.int64).ravel(),
        np.concatenate((none, vertex), axis=1).ravel(),
        np.concatenate((vertex, none), axis=1).ravel(),
        np.arange(ranks * (each + 1)),
        np.zeros(ranks * (each + 1), np.int64),
        np.zeros(ranks * (each + 1), np.int64),
    )
    threads = ranks * (1 + helpers)
    ticks = int(seconds * rate_hz)
    n = threads * ticks
    samples = Samples(
        np.repeat(np.arange(threads), ticks),
        np.tile((np.arange(ticks) * (1e9 / rate_hz)).astype(np.int64), threads),
        rng.integers(0, paths, n),
        rng.integers(0, 5_000_000, n),
        rng.integers(0, 100_000, n),
        rng.choice([0, 0, 0, 2, 3, 1], n),
    )
    rank = np.arange(threads) // (1 + helpers)
    main = np.arange(threads) % (1 + helpers) == 0
    table = Threads(np.arange(threads), rank, main, main, np.where(main, rank, -1))
    places = Places(
        rng.integers(0, 300, paths),
        rng.integers(1, 900, paths),
        *(rng.random(paths) < part for part in (0.1, 0.1, 0.5, 0.6, 0.1)),
    )
    return gaps, samples, table, places


if __name__ == "__main__":
    for ranks, seconds, calls in ((8, 60.0, 500_000), (8, 60.0, 8_000), (1024, 10.0, 100_000)):
        arguments = synthetic(ranks, seconds, 200.0, calls)
        own_work(*arguments, 5_000_000)
        begin = time.process_time()
        own, activities = own_work(*arguments, 5_000_000)
        print(
            f"{ranks} ranks, {seconds:.0f} s, {len(arguments[1])} samples of all threads, {calls} calls: "
            f"{time.process_time() - begin:.2f} s, {len(own)} rows, {len(activities)} activities"
        )
