"""What timing the modules of a model takes: us for a call in a timed step, and part of the time of all steps.

    python tests/benchmarks/module_cost.py

With and without take turns in one process. A call is one of 200 small layers in a row; the model that is trained is a
transformer of 4 layers, in blocks of 64 steps that are timed as by default. CPU time of the process is compared.
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

from scalana.runtime import _core, session, steps  # noqa: E402
from scalana.runtime.torch.modules import ModuleTimes  # noqa: E402
from tests.benchmarks.ratios import interval  # noqa: E402

LAYERS = 200
ROUNDS = 60
BLOCKS = 16
BLOCK = 64


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


def training(times: ModuleTimes) -> tuple[list[float], float]:
    """How many times as much CPU time a block of steps takes with timing, and ms of a step."""
    step = transformer()
    seconds: list[list[float]] = [[], []]
    number = 0
    for block in range(2 * BLOCKS + 2):
        start = time.process_time_ns()
        for _ in range(BLOCK):
            number += 1
            if block % 2:
                times.marked(number)
            step()
        seconds[block % 2].append((time.process_time_ns() - start) * 1e-9)
        times.off()
    ratios = [with_it / without for without, with_it in zip(*seconds, strict=True)][1:]
    return ratios, 1e3 * statistics.median(seconds[0]) / BLOCK


def main() -> None:
    """Print the numbers."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        _core.start(f"{folder}/r.rec", 0, 1 << 36)
        session.core, session.record_path = _core, f"{folder}/r.rec"
        times = ModuleTimes(sys.modules["torch.nn.modules.module"])
        steps.when_marked(times.marked)
        for name, cost in calls(times).items():
            print(f"a call in a timed step, {name}: {cost:.1f} us")
        ratios, step_ms = training(times)
        session.core = None
        _core.stop(0)
    low, high, confidence = interval(ratios)
    print(f"steps of {step_ms:.1f} ms, {len(ratios)} blocks of {BLOCK}: CPU time x {statistics.median(ratios):.4f}")
    print(
        f"  [{low:.4f}, {high:.4f}] with a confidence of {confidence:.2f}; 1 of {times.chosen.one_of} steps in the end"
    )


if __name__ == "__main__":
    main()
