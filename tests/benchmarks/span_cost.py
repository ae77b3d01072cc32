"""What a span costs, recorded and not: ns of wall-clock time each, less an empty loop, best of several rounds.

Run: python tests/benchmarks/span_cost.py

The ways take turns within a round, and the recorded ones are compared with the same that are not in one process. The
last rows are what the clocks cost here: a span reads the monotonic clock twice, and the CPU clock of its thread twice
if it is longer than 20 us, else not at all (a thread that has just been seen to run is taken to have run since then).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime import _core  # noqa: E402
from scalana.runtime.spans import span  # noqa: E402

ROUNDS = 200
TIMES = 2_000
LONG_NS = 60_000


def nothing(times: int) -> None:
    for _ in range(times):
        pass


def context(times: int) -> None:
    for _ in range(times):
        with span("augment"):
            pass


def context_3(times: int) -> None:
    for _ in range(times):
        with span("verify", kind="phase", trajectory=17, tokens=812, share=0.5):
            pass


def made_before(times: int) -> None:
    made = span("augment")
    for _ in range(times):
        with made:
            pass


def begin_end(times: int) -> None:
    for _ in range(times):
        span.begin("augment").end()


def begin_end_3(times: int) -> None:
    for _ in range(times):
        span.begin("verify", "phase", trajectory=17).end(tokens=812, share=0.5)


@span("called")
def called() -> None:
    pass


def decorated(times: int) -> None:
    for _ in range(times):
        called()


def of_recorder(times: int) -> None:
    name, lane = _core.intern("F"), _core.lane(3, "stage 1")
    stage, microbatch, moment = _core.intern("stage"), _core.intern("microbatch"), _core.now()
    for number in range(times):
        _core.span(6, lane, name, moment, moment + 1000, -1, 0, (stage, 1, microbatch, number))


def clock(times: int) -> None:
    for _ in range(times):
        _core.now()


def cpu_clock(times: int) -> None:
    for _ in range(times):
        _core.thread_cpu()


WAYS: dict[str, Callable[[int], None]] = {
    "`with span(name)`": context,
    "`with span(name, kind, 3 attributes)`": context_3,
    "`with made_before`": made_before,
    "`span.begin(name)`, `end()`": begin_end,
    "`span.begin(name, kind, 1 attribute)`, `end(2 attributes)`": begin_end_3,
    "a decorated call": decorated,
    "a recorder's `core.span`, 2 attributes": of_recorder,
    "a look at the monotonic clock": clock,
    "a look at the thread's CPU clock": cpu_clock,
}


def best_of_all() -> dict[str, float]:
    """ns of each way, less the loop."""
    best = dict.fromkeys(["", *WAYS], float("inf"))
    for _ in range(ROUNDS):
        for name, way in {"": nothing, **WAYS}.items():
            start = time.perf_counter_ns()
            way(TIMES)
            best[name] = min(best[name], (time.perf_counter_ns() - start) / TIMES)
    return {name: best[name] - best[""] for name in WAYS}


def long_spans() -> float:
    """ns that a recorded span of :data:`LONG_NS` adds: with the CPU clock read twice."""

    def busy(until: int) -> None:
        while time.perf_counter_ns() < until:
            pass

    best = [float("inf")] * 2
    for _ in range(400):
        for number, marked in enumerate((False, True)):
            start = time.perf_counter_ns()
            if marked:
                with span("long"):
                    busy(start + LONG_NS)
            else:
                busy(start + LONG_NS)
            end = time.perf_counter_ns()
            best[number] = min(best[number], end - start)
    return best[1] - best[0]


def main() -> None:
    off = best_of_all()
    with tempfile.TemporaryDirectory() as folder:
        _core.start(f"{folder}/r.rec", 0, 1 << 36)
        on, long = best_of_all(), long_spans()
        _core.stop(0)
    print("| a span | recorded, ns | not recorded, ns | ratio |\n|---|---:|---:|---:|")
    for name in WAYS:
        print(f"| {name} | {on[name]:.0f} | {off[name]:.0f} | {on[name] / off[name]:.1f} |")
    print(f"\na span of {LONG_NS // 1000} us, whose thread's CPU clock is read: {long:.0f} ns")


if __name__ == "__main__":
    main()
