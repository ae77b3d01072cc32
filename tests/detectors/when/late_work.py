"""A job in which one rank takes longer for one of two things, and the finding that comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalana.detectors import analyze
from scalana.detectors.finding import Finding
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.span_columns import Spans
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

RANKS, STEPS, LATE, LATE_S = 4, 20, 2, 0.06


def first_finding(usual_ms: dict[str, float], late: str, spans_of: Callable[[list[Any]], Spans]) -> Finding:
    """What is found first where the late rank takes longer for ``late``, one of the things that all ranks do in a step;
    ``spans_of`` makes spans of what was worked."""
    everyone = ("coll", "allreduce", list(range(RANKS)), -1)
    program = [
        [
            action
            for _ in range(STEPS)
            for action in (
                *(
                    ("work", name, 1e3 * LATE_S if (rank, name) == (LATE, late) else ms)
                    for name, ms in usual_ms.items()
                ),
                everyone,
            )
        ]
        for rank in range(RANKS)
    ]
    worked: list[Any] = []
    timeline, names = simulate(program, worked=worked)
    psg = structure(names)
    seconds = float(timeline.locations.end_s.max())
    run = RunInfo(seconds=seconds, ranks=RANKS, calls_of_rank=[0] * RANKS, comm_s_of_rank=[0.0] * RANKS)
    found = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans_of(worked))).findings[0]
    assert (found.ranks, names[found.vertex]) == ([LATE], late)
    return found
