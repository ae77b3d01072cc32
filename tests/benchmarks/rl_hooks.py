"""What the marks of reinforcement learning cost: microseconds a phase and a trajectory, and their part of a step.

Run: python tests/benchmarks/rl_hooks.py [ROUNDS]

The timer and the coroutine are those of a framework (stand-ins that do what the real ones do), called as they are and
as they are wrapped, in turns in one recorded process; so that what recording costs by itself is on both sides. All are
seconds of CPU time of the thread. The ratios of a round's two times are compared: their median, and an interval of it.
A step is as a loop makes it: 64 trajectories that are generated side by side, 8 phases, and work between them.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import scalana  # noqa: E402
from scalana.runtime.rl import answers as marked_answers  # noqa: E402
from scalana.runtime.rl.timers import wrap_timer  # noqa: E402
from tests.benchmarks.ratios import interval  # noqa: E402

ROUNDS = 40
CALLS = 500
TRAJECTORIES, PHASES = 64, 8
STEP_S = 0.4


class Timer:
    """Like codetiming's."""

    def __init__(self, name: str) -> None:
        self.name, self.last, self._start = name, 0.0, 0.0

    def start(self) -> None:
        self._start = time.perf_counter()

    def stop(self) -> float:
        self.last = time.perf_counter() - self._start
        return self.last


class Marked(Timer):
    """The same, wrapped."""

    def start(self) -> None:
        super().start()

    def stop(self) -> float:
        return super().stop()


class Engine:
    """Like AReaL's."""

    async def agenerate(self, req: Any) -> Any:
        await asyncio.sleep(0)
        return SimpleNamespace(input_len=len(req.input_ids), output_len=812)


wrap_timer(Marked, "start", "stop", "self.name", "benchmark")
WAYS: dict[bool, tuple[type[Timer], Any]] = {
    False: (Timer, Engine.agenerate),
    True: (
        Marked,
        marked_answers._coroutine(Engine.agenerate, marked_answers._areal, marked_answers._areal_end),
    ),
}


def phases(kind: type[Timer], times: int) -> float:
    """Seconds of CPU time of one."""
    start = time.thread_time()
    for _ in range(times):
        timer = kind("update_actor")
        timer.start()
        timer.stop()
    return (time.thread_time() - start) / times


async def generate(function: Any, times: int) -> float:
    """Seconds of CPU time of one of many trajectories, side by side."""
    engine = Engine()
    request = SimpleNamespace(rid="5f0c3c52-7c2e-4a0a-9c6e-0f6c5b8f6a55", input_ids=list(range(200)))
    start = time.thread_time()
    for _ in range(0, times, TRAJECTORIES):
        await asyncio.gather(*(function(engine, request) for _ in range(TRAJECTORIES)))
    return (time.thread_time() - start) / times


def busy(seconds: float) -> None:
    """Work that takes as many turns of a loop, however loaded the machine is."""
    for _ in range(int(seconds * 20_000_000)):
        pass


async def step(kind: type[Timer], function: Any) -> float:
    """Seconds of CPU time of a step."""
    start = time.thread_time()
    for number in range(PHASES):
        timer = kind("update_actor")
        timer.start()
        busy(STEP_S / PHASES)
        if number == 0:
            await generate(function, TRAJECTORIES)
        timer.stop()
    return time.thread_time() - start


def main(rounds: int) -> None:
    """Measure and print."""
    cost: dict[str, list[float]] = {"a phase": [], "a trajectory": []}
    steps: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        with scalana.profile(folder):
            for number in range(rounds):
                took: dict[bool, tuple[float, float, float]] = {}
                for wrapped in (False, True) if number % 2 else (True, False):
                    kind, function = WAYS[wrapped]
                    took[wrapped] = (
                        phases(kind, CALLS),
                        asyncio.run(generate(function, TRAJECTORIES * 4)),
                        asyncio.run(step(kind, function)),
                    )
                for values, plain, marked in zip(cost.values(), took[False], took[True], strict=False):
                    values.append(marked - plain)
                steps.append(took[True][2] / took[False][2])
        whole = size_of(folder)
    phase_s, trajectory_s = (statistics.median(values) for values in cost.values())
    marks_s = PHASES * phase_s + TRAJECTORIES * trajectory_s
    for name, values in cost.items():
        print(f"{name}: {statistics.median(values) * 1e6:.2f} us (best {min(values) * 1e6:.2f})")
    low, high, confidence = interval(steps)
    print(
        f"a step of {PHASES} phases and {TRAJECTORIES} trajectories: {statistics.median(steps) - 1:+.2%} "
        f"({low - 1:+.2%} to {high - 1:+.2%}, {confidence:.0%} sure)"
    )
    print(f"by the costs of its marks: {marks_s * 1e3:.2f} ms, {marks_s / STEP_S:.2%} of {STEP_S:.1f} s of work")
    spans = rounds * (CALLS + TRAJECTORIES * 4 + PHASES + TRAJECTORIES)
    print(f"record: {whole} bytes with {spans} spans and what else is recorded")
    print(f"a step adds {bytes_of_a_step() / 1024:.2f} KB to the record")


def size_of(folder: str) -> int:
    """Bytes of a run's records."""
    return sum(path.stat().st_size for path in (Path(folder) / "records").glob("*.rec"))


def bytes_of_a_step() -> float:
    """Bytes that the marks of one step take in a record: of a hundred steps without work, with and without them."""
    sizes = {}
    for wrapped, (kind, function) in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            with scalana.profile(folder):
                for _ in range(100):
                    phases(kind, PHASES)
                    asyncio.run(generate(function, TRAJECTORIES))
            sizes[wrapped] = size_of(folder)
    return (sizes[True] - sizes[False]) / 100


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
