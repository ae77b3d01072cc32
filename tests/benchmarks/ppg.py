"""Time and memory of building the program performance graph of a synthetic run.

Run: python tests/benchmarks/ppg.py [RANKS] [STEPS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.graphs.ppg import build_ppg  # noqa: E402
from scalana.graphs.readers.folder.run_folder import RunFolder  # noqa: E402
from scalana.runtime.operations import BY_NAME  # noqa: E402
from scalana.runtime.record.writer import RecordWriter  # noqa: E402

MS = 1_000_000
PERIOD_MS = 5
PATHS = 200


def write_rank(folder: Path, rank: int, ranks: int, steps: int) -> None:
    """One rank: every step 20 ms of work in one of many places, and an allreduce."""
    with RecordWriter(folder / "records" / f"host{rank // 64}-{rank}-0.rec") as writer:
        meta = {"role": "rank", "rank": rank, "world_size": ranks, "start_ns": 10**9, "unix_ns": 10**18, "rate_hz": 200}
        for key, value in {**meta, "boot_id": f"boot{rank // 64}", "host": f"host{rank // 64}"}.items():
            writer.meta(key, str(value))
        writer.thread(0, rank)
        writer.group(1, "world", rank, range(ranks))
        writer.code(1, "/job/train.py", "<module>")
        writer.call_path(1, 0, 1, 10)
        for path in range(2, PATHS):
            writer.code(path, "/job/model.py", f"f{path}", path)
            writer.call_path(path, 1, path, path)
        now, cpu = 10**9, 0
        for step in range(steps):
            late = 5 * MS if step % ranks == rank else 0
            for tick in range(20 // PERIOD_MS):
                at = now + tick * PERIOD_MS * MS
                writer.sample(0, at, 2 + (step * 7 + tick) % (PATHS - 2), PERIOD_MS * 1000, 0, 0)
            enter, cpu = now + 20 * MS + late, cpu + 20 * MS + late
            now += 26 * MS
            writer.event(
                2 * step + 2,
                BY_NAME["allreduce"].code,
                enter,
                now - enter,
                group=1,
                seq=step,
                nbytes=4096,
                cpu_enter_ns=cpu,
                path=1,
            )
        writer.end(now)


if __name__ == "__main__":
    ranks, steps = (int(word) for word in (*sys.argv[1:], 256, 200)[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "records").mkdir()
        for rank in range(ranks):
            write_rank(folder, rank, ranks, steps)
        begin = last = time.perf_counter()
        stages: list[tuple[str, float]] = []

        def progress(what: str, done: int, total: int) -> None:
            stages.append((what, time.perf_counter()))

        ppg = build_ppg(RunFolder(folder), progress=progress)
        stages.append(("", time.perf_counter()))
        for (what, start), (_, end) in zip(stages[:-1], stages[1:], strict=True):
            print(f"{what}: {end - start:.2f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{ranks} ranks, {len(ppg.timeline.calls)} calls, {len(ppg.timeline.own)} rows of own work: "
            f"{time.perf_counter() - begin:.2f} s, peak memory {peak:.0f} MiB"
        )
