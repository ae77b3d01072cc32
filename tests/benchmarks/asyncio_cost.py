"""What recording costs an event loop: us of CPU time of a rest and of a turn, median of rounds in turns in one process.

Run: python tests/benchmarks/asyncio_cost.py [RESTS]

Coroutines that are five deep rest for 3 ms, 1,000 times by default; and others go on at once, over and over. The
process is not recorded in one round, and is in the next.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import scalana

ROUNDS, TURNS, DEEP, REST_S = 5, 50_000, 5, 0.003


async def deep(levels: int, seconds: float) -> None:
    """Rest, as many calls further in."""
    if levels:
        await deep(levels - 1, seconds)
    else:
        await asyncio.sleep(seconds)


async def rests(count: int) -> None:
    """Rest so often."""
    for _ in range(count):
        await deep(DEEP, REST_S)


async def turns() -> None:
    """Go on at once."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def cost_us(count: int) -> tuple[float, float]:
    """CPU time of a rest, and of a turn."""
    begin_s = time.process_time()
    asyncio.run(rests(count))
    middle_s = time.process_time()
    asyncio.run(turns())
    return (middle_s - begin_s) / count * 1e6, (time.process_time() - middle_s) / TURNS * 1e6


def main(count: int) -> None:
    """Measure, and print."""
    plain, recorded = [], []
    for _ in range(ROUNDS):
        plain.append(cost_us(count))
        with tempfile.TemporaryDirectory() as folder, scalana.profile(Path(folder) / "run"):
            recorded.append(cost_us(count))
    columns = zip(*plain, strict=True), zip(*recorded, strict=True)
    for what, without, within in zip(("rest", "turn"), *columns, strict=True):
        print(f"{what}: {median(without):.2f} us, recorded {median(within):.2f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
