"""HTA's answers about the traces of one run: `peers_hta.py FOLDER RANKS`, in the environment of the peers.

The last line of the output is a JSON object: what each analysis returned, in words, or how it failed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")


def attempt(analysis: Callable[[], Any]) -> Any:
    try:
        return analysis()
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"[:300]


def critical_path(trace: Any, rank: int, step: int) -> str:
    graph, found = trace.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=step)
    return str(graph.summary()) if found else "none found"


def main() -> None:
    folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
    from hta.trace_analysis import TraceAnalysis

    files = {rank: str(folder / f"rank{rank}.json") for rank in range(ranks)}
    trace = TraceAnalysis(trace_files=files, trace_dir=str(folder))
    steps = attempt(trace.get_profiler_steps)
    steps = [int(step) for step in steps] if isinstance(steps, list) else []
    middle = steps[len(steps) // 2] if steps else 0
    said = {
        "steps": len(steps),
        "stragglers": attempt(lambda: trace.get_potential_stragglers(profiler_steps=steps[1:-1], num_candidates=1)),
        "temporal breakdown": str(attempt(lambda: trace.get_temporal_breakdown(visualize=False))),
        "idle time": str(attempt(lambda: trace.get_idle_time_breakdown(visualize=False))),
        "overlap": str(attempt(lambda: trace.get_comm_comp_overlap(visualize=False))),
        "critical path": {rank: attempt(partial(critical_path, trace, rank, middle)) for rank in range(ranks)},
    }
    print(json.dumps(said, default=str))


if __name__ == "__main__":
    main()
