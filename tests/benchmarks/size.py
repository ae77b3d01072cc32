"""Time and memory of analysing runs of many ranks, and whether their planted causes come out on top.

Run: python -m tests.benchmarks.size [--steps 72] [--spans 0] [--keep DIR] [RANKS ...]

For every number of ranks (256, 1024 and 4096 unless told; 16384 takes 2 GB of disk) a run folder is written by
``tests/tools/generate_run.py``, and analysed in a process of its own as ``scalana report --format json`` does it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.generate_run import write_run  # noqa: E402
from tests.tools.job_model import Model, program_of  # noqa: E402

CAUSES = ("two_hops", "slow_rank", "moving")


def planted(model: Model) -> dict[str, tuple[int, int]]:
    """Line and rank (-1: many) of every planted cause: the last line sampled in its stretch of work."""
    kernels = program_of(model).kernels
    segment = {"two_hops": 0, "slow_rank": 4, "moving": 3 * model.layers}
    rank = {"two_hops": model.two_hops_rank, "slow_rank": model.slow_rank, "moving": -1}
    return {cause: (kernels[segment[cause]][-1][2][-1], rank[cause]) for cause in CAUSES}


def measure(folder: str, model: Model) -> dict[str, object]:
    """Analyse a folder, in this process."""
    from scalana import api, memory

    stages: list[tuple[str, float, float]] = []

    def progress(what: str, done: int, total: int) -> None:
        stages.append((what, time.perf_counter(), time.process_time()))

    import scalana.detectors.run  # loaded before the clock starts, as what follows
    import scalana.frontend.build
    import scalana.report.json  # noqa: F401

    memory.keep_freed()
    report = api.analyze(folder, progress=progress)
    progress("report", 0, 0)
    text = report.to_json()
    progress("", 0, 0)
    found = json.loads(text)["findings"]
    causes = planted(model)
    top = []
    for finding in found[: len(CAUSES)]:
        for cause, (line, rank) in causes.items():
            if finding["root"]["line"] == line and (rank < 0 or finding["ranks"] == [rank]):
                top.append(cause)
    timeline = report.analysis.ppg.timeline
    return {
        "stages": [(a[0], b[1] - a[1], b[2] - a[2]) for a, b in zip(stages[:-1], stages[1:], strict=True)],
        "seconds": stages[-1][1] - stages[0][1],
        "cpu_s": stages[-1][2] - stages[0][2],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "calls": len(timeline.calls),
        "spans": len(report.analysis.ppg.spans),
        "vertices": len(report.analysis.ppg.psg),
        "found": top,
        "lost_s": [finding["lost_s"] for finding in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="*", type=int, default=[256, 1024, 4096])
    parser.add_argument("--steps", type=int, default=72)
    parser.add_argument("--spans", type=int, default=0, help="spans of every rank (0)")
    parser.add_argument("--keep", metavar="DIR", help="folder for the runs; those that are there are used again")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder, Model(options.ranks[0], options.steps))))
        return
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(options.keep or name) / (f"r{ranks}-{options.spans}" if options.spans else f"r{ranks}")
            if not folder.exists():
                write_run(folder, Model(ranks, options.steps), spans=options.spans)
            command = [sys.executable, "-m", "tests.benchmarks.size", str(ranks), "--steps", str(options.steps)]
            done = subprocess.run([*command, "--folder", str(folder)], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{ranks} ranks: exit code {done.returncode}\n{done.stderr[-2000:]}")
        result = json.loads(done.stdout.splitlines()[-1])
        for what, seconds, cpu_s in result["stages"]:
            print(f"  {what:24s} {seconds:8.2f} s {cpu_s:8.2f} CPU s")
        print(
            f"{ranks} ranks, {result['calls']} calls, {result['spans']} spans, {result['vertices']} vertices: "
            f"{result['seconds']:.1f} s, "
            f"{result['cpu_s']:.1f} CPU s, {result['peak_mib']:.0f} MiB; on top: {', '.join(result['found'])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
