"""What timing the modules of a model takes: us for a call in a timed step, and part of the time of all steps; and what
a step takes whose operators are counted as well.

    python tests/benchmarks/module_cost.py

With and without take turns in one process. A call is one of 200 small layers in a row; the model that is trained is a
transformer of 4 layers. CPU time of the process is compared. How many steps are timed is chosen as in a job.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from scalana.runtime import _core, session  # noqa: E402
from scalana.runtime.torch.modules import ModuleTimes  # noqa: E402
from tests.benchmarks.ratios import interval  # noqa: E402

LAYERS = 200
ROUNDS = 40
PAIRS = 150
COUNTED = 50
"""Pairs, the second of which has its operators counted."""


def in_turns(times: ModuleTimes, run: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least seconds of a run without and with timing."""
    best = [float("inf")] * 2
    for number in range(2 * rounds):
        if number % 2:
            times.on()
        start = time.process_time_ns()
        run()
        best[number % 2] = min(best[number % 2], (time.process_time_ns() - start) * 1e-9)
        times.off()
    return best[0], best[1]


def calls(times: ModuleTimes) -> dict[str, float]:
    """us that timing adds to a call, by what is done with it."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(LAYERS)))
    x = torch.randn(2, 4, requires_grad=True)

    def forward() -> None:
        with torch.inference_mode():
            model(x)

    def both() -> None:
        model(x).sum().backward()

    return {
        name: 1e6 * (with_it - without) / LAYERS
        for name, (without, with_it) in {
            "forward, without gradients": in_turns(times, forward, ROUNDS),
            "forward and backward": in_turns(times, both, ROUNDS),
        }.items()
    }


def transformer() -> Callable[[], None]:
    """A step of training."""
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 64, 128)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def training(times: ModuleTimes, count: bool = False) -> tuple[list[float], float, int]:
    """How many times as much CPU time a timed step takes as the one before, ms of a step, and one of how many is
    timed by default. ``count`` its operators as well."""
    step = transformer()
    seconds: list[list[float]] = [[], []]
    for number in range(2 * (COUNTED if count else PAIRS) + 4):
        start = time.process_time_ns()
        if number % 2:
            times.on()
            if count:
                times.operators.start()
        step()
        times.off()
        times.operators.stop()
        seconds[number % 2].append((time.process_time_ns() - start) * 1e-9)
    times.chosen.cost(times.spent_ns, round(1e9 * statistics.median(seconds[1])))
    ratios = [with_it / without for without, with_it in zip(*seconds, strict=True)][2:]
    return ratios, 1e3 * statistics.median(seconds[0]), times.chosen.one_of


def main() -> None:
    """Print the numbers."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        _core.start(f"{folder}/r.rec", 0, 1 << 36)
        session.core, session.record_path = _core, f"{folder}/r.rec"
        times = ModuleTimes(sys.modules["torch.nn.modules.module"])
        for name, cost in calls(times).items():
            print(f"a call in a timed step, {name}: {cost:.1f} us")
        ratios, step_ms, one_of = training(times)
        counted, _, _ = training(times, count=True)
        session.core = None
        _core.stop(0)
    middle, (low, high, confidence) = statistics.median(ratios), interval(ratios)
    print(f"a timed step of {step_ms:.1f} ms, {len(ratios)} pairs: CPU time x {middle:.4f}")
    print(f"  [{low:.4f}, {high:.4f}], confidence {confidence:.2f}")
    if times.operators._library is None:
        print("operators are not counted: `scalana calibrate` compiles what does")
    else:
        least, most, _ = interval(counted)
        print(f"a counted step: CPU time x {statistics.median(counted):.4f}  [{least:.4f}, {most:.4f}]")
    print(f"all steps, one of {one_of} timed: x {1 + (middle - 1) / one_of:.5f}, at most {1 + (high - 1) / one_of:.5f}")


if __name__ == "__main__":
    main()
