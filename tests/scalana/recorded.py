"""A run folder as two ranks would leave it, written without running anything."""

from __future__ import annotations

from pathlib import Path

from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.layout import write_info
from scalana.runtime.record.writer import RecordWriter

SOURCE = """\
import torch.distributed as dist


def prepare(batch):
    return sorted(batch)


def main():
    for batch in range(40):
        prepare(batch)
        dist.all_reduce(batch)


main()
"""
PREPARE_LINE, REDUCE_LINE = 5, 11

STEPS = 40
MS = 1_000_000
WORK_MS = (10, 50)
"""What ``prepare`` takes on each rank and step."""


def write_run(folder: Path, job: Path, work_ms: tuple[int, ...] = WORK_MS) -> None:
    """Rank 1 takes 50 ms a step in ``prepare``, rank 0 takes 10 ms and waits 40 ms in the all-reduce.

    ``work_ms`` is what each rank takes instead (multiples of 5); the slowest of them makes the others wait.
    """
    job.mkdir(parents=True, exist_ok=True)
    script = job / "job.py"
    script.write_text(SOURCE)
    (folder / "records").mkdir(parents=True)
    for rank in range(len(work_ms)):
        _write_rank(folder / "records" / f"host-{100 + rank}-0.rec", rank, script, work_ms)
    info = {
        "command": ["torchrun", "job.py"],
        "cwd": str(job),
        "seconds": STEPS * (max(work_ms) + 1) / 1000,
        "exit_code": 0,
        "rate_hz": 200.0,
        "start_unix_s": script.stat().st_mtime,
        "version": "0.1.0",
    }
    write_info(folder, info)


def _write_rank(file: Path, rank: int, script: Path, work_ms: tuple[int, ...]) -> None:
    begin, step_ms = 1_000 * MS, max(work_ms) + 1
    with RecordWriter(file) as record:
        for key, value in {
            "rank": str(rank),
            "world_size": str(len(work_ms)),
            "role": "rank",
            "host": "host",
            "boot_id": "boot",
            "pid": str(100 + rank),
            "rate_hz": "200",
            "start_ns": str(begin),
            "cores": "2",
            "cwd": str(script.parent),
            "sampler": "native",
        }.items():
            record.meta(key, value)
        record.thread(0, 100 + rank)
        record.group(1, "world", rank, list(range(len(work_ms))))
        for code, name, first in ((1, "<module>", 1), (2, "main", 8), (3, "prepare", 4)):
            record.code(code, str(script), name, first)
        # Without a line table, the position in the code is the line itself.
        for path, parent, code, line in ((1, 0, 1, 14), (2, 1, 2, 10), (3, 2, 3, PREPARE_LINE), (4, 1, 2, REDUCE_LINE)):
            record.call_path(path, parent, code, line)
        cpu = 0
        for step in range(STEPS):
            now = begin + step * step_ms * MS
            for at in range(0, work_ms[rank], 5):
                record.sample(0, now + (at + 2) * MS, 3, cpu_us=5000 if at else 1000)
            cpu += work_ms[rank] * MS
            record.event(
                2 * (step + 1),
                BY_NAME["allreduce"].code,
                now + work_ms[rank] * MS,
                (step_ms - work_ms[rank]) * MS,
                group=1,
                seq=step,
                nbytes=4,
                path=4,
                cpu_enter_ns=cpu,
            )
            record.flush()
        record.end(begin + STEPS * step_ms * MS)
