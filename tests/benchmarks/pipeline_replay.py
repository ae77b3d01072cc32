"""How long a replay of a pipeline takes, beside PerFlow-AI's simulator where there is one.

Run: python tests/benchmarks/pipeline_replay.py [PERFLOW_AI]

`PERFLOW_AI` is a folder with its sources (github.com/yuyangJin/PerFlow-AI, Apache-2.0); without it, its column is left
out. Both simulate forward = backward = weight = 1 in this process, by CPU time, the best of several runs; what prints
is sent nowhere. Its order is its own (a queue of ready events); ours is the schedule's.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.detectors.pipeline.diagnosis.attribution import attribute  # noqa: E402
from scalana.detectors.pipeline.measured.replayable import read_rows  # noqa: E402
from scalana.detectors.pipeline.model.actions import spread_costs  # noqa: E402
from scalana.detectors.pipeline.model.engines import ENGINES  # noqa: E402
from scalana.detectors.pipeline.model.lowering import lower  # noqa: E402
from scalana.detectors.pipeline.model.schedules import BY_NAME  # noqa: E402
from scalana.detectors.pipeline.model.simulate import Setting, replay  # noqa: E402

CASES = (
    ("GPipe", 8, 64, 1),
    ("1F1B", 8, 64, 1),
    ("Interleaved1F1B", 8, 64, 2),
    ("ZBV", 8, 64, 2),
    ("1F1B", 64, 512, 1),
)
"""Schedule, ranks, microbatches, chunks."""


def best_s(run: Callable[[], Any], most_s: float = 5.0) -> tuple[float, Any]:
    """The least CPU time of several runs, and the last result."""
    taken: list[float] = []
    while not taken or (sum(taken) < most_s and len(taken) < 50):
        begin = time.process_time()
        result = run()
        taken.append(time.process_time() - begin)
    return min(taken), result


def ours(name: str, ranks: int, microbatches: int, chunks: int, engine: str) -> tuple[float, float, float, float]:
    """Seconds of a replay that tells how long a step is, of one that also tells when each operation ends, of building
    and lowering the order, and the makespan."""
    costs = np.repeat(np.array([[1.0], [2.0], [1.0], [1.0]]), ranks * chunks, axis=1) / chunks
    build_s, program = best_s(lambda: BY_NAME[name].program(ranks, microbatches, chunks), 1.0)
    lower_s, operations = best_s(lambda: lower(program, ENGINES[engine]), 1.0)
    setting = Setting.plain(operations, spread_costs(program, costs))
    replay(operations, setting).end_s.sum()  # compiled by then
    replay_s, makespan_s = best_s(lambda: replay(operations, setting).makespan_s, 2.0)
    every_s, _ = best_s(lambda: replay(operations, setting).end_s, 2.0)
    return replay_s, every_s, build_s + lower_s, makespan_s


def theirs(name: str, ranks: int, microbatches: int, chunks: int) -> tuple[float, float]:
    """Seconds of PerFlow-AI's simulator without building its graph, and its makespan."""
    from perflowai.parallel.pipeline_parallel import gpipe, interleaved1f1b, pipedream, zerobubble
    from perflowai.parallel.pipeline_parallel.ppgraph import PipeCostConfig
    from perflowai.simulator.pp_simulator import PipeType, PPSimulator

    whole = PipeCostConfig(fwd_time=2, bwd_time=4, wgt_time=2)
    split = PipeCostConfig(fwd_time=2, bwd_time=2, wgt_time=2)
    kinds: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
        "GPipe": (gpipe.GPipeGraph, PipeType.GPipe, {"cost_config": whole}),
        "1F1B": (pipedream.PipeDreamGraph, PipeType.PipeDream, {"cost_config": whole}),
        "Interleaved1F1B": (
            interleaved1f1b.Interleaved1F1BGraph,
            PipeType.Interleaved1F1B,
            {"cost_config": whole},
        ),
        "ZBV": (
            zerobubble.ZeroBubbleGraph,
            PipeType.ZeroBubble,
            {"cost_config": split, "schedule_type": zerobubble.ScheduleType.ZBV},
        ),
    }
    graph_of, kind, options = kinds[name]
    taken = []
    for _ in range(3):
        with contextlib.redirect_stdout(io.StringIO()):
            graph = graph_of(ranks, microbatches, chunks, **options)
            graph.build_graph()
            simulator = PPSimulator(kind, graph)
            begin = time.process_time()
            trace = simulator.run()
            taken.append(time.process_time() - begin)
        if taken[-1] > 2:
            break
    ends = [event.get_timestamp() + event.get_duration() for s in range(ranks) for event in trace.get_events(s)]
    return min(taken), max(ends) / 2 / chunks


def attribution_s(ranks: int, microbatches: int) -> tuple[float, int]:
    """Seconds of attributing one measured step with an unbalanced stage, stragglers, links and a host in the way."""
    from tests.detectors.pipeline.examples import rows_of

    program = BY_NAME["1F1B"].program(ranks, microbatches)
    costs = np.random.default_rng(1).uniform(0.9, 1.1, (4, ranks, microbatches))
    costs[1] *= 2
    costs[:, -1] *= 1.5
    rows = rows_of(program, costs, "torch-1f1b", 1, latency_s=0.05, host_s=0.01)
    measured = read_rows(rows, ENGINES["torch-1f1b"])
    attribute(measured)
    seconds, found = best_s(lambda: attribute(measured), 3.0)
    return seconds, len(found.alone_s)


def main() -> None:
    """Print a table."""
    with_theirs = len(sys.argv) > 1
    if with_theirs:
        sys.path.insert(0, sys.argv[1])
        for drawing in ("drawsvg", "matplotlib", "matplotlib.pyplot"):  # it imports them, a simulation needs none
            sys.modules.setdefault(drawing, types.ModuleType(drawing))
    print(f"{'case':30} {'makespan':>9} {'order ms':>9} {'replay ms':>10} {'all ends':>9}", end="")
    print(f" {'blocking ms':>12} {'all ends':>9}", end="")
    print(f" {'PerFlow-AI':>11} {'its ms':>9} {'ratio':>8}" if with_theirs else "")
    for name, ranks, microbatches, chunks in CASES:
        replay_s, every_s, order_s, makespan = ours(name, ranks, microbatches, chunks, "ideal")
        blocking = "torch-1f1b" if name == "1F1B" else "torch-gpipe" if name == "GPipe" else "torch"
        blocking_s, all_blocking_s, _, _ = ours(name, ranks, microbatches, chunks, blocking)
        text = f"{name} P{ranks} M{microbatches} v{chunks}"
        print(f"{text:30} {makespan:9.1f} {order_s * 1e3:9.1f} {replay_s * 1e3:10.3f} {every_s * 1e3:9.3f}", end="")
        print(f" {blocking_s * 1e3:12.3f} {all_blocking_s * 1e3:9.3f}", end="")
        if with_theirs:
            their_s, their_makespan = theirs(name, ranks, microbatches, chunks)
            print(f" {their_makespan:11.1f} {their_s * 1e3:9.1f} {their_s / replay_s:8.0f}", end="")
        print()
    for ranks, microbatches in ((4, 8), (64, 512)):
        seconds, causes = attribution_s(ranks, microbatches)
        print(f"attribution of a step, P{ranks} M{microbatches}, {causes} causes: {seconds * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
