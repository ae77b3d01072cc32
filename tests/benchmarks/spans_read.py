"""How long it takes to read spans: a million of one process, and those of many; with the bytes that one takes.

Run: python -m tests.benchmarks.spans_read [SPANS [RANKS]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.graphs.readers.columns.gather import gather  # noqa: E402
from scalana.graphs.readers.folder.reading import read_records  # noqa: E402
from scalana.graphs.readers.folder.run_folder import RunFolder  # noqa: E402
from scalana.graphs.readers.processes.rank_selection import choose_records  # noqa: E402
from tests.tools.generate_run import write_run  # noqa: E402
from tests.tools.job_model import Model  # noqa: E402

_TIMES = 5


def measure(spans: int, ranks: int) -> str:
    """A row: the best of several times."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        write_run(path, Model(ranks, 4), spans=spans // ranks)
        plain = Path(folder) / "plain"
        write_run(plain, Model(ranks, 4))
        bytes_of = [sum(file.stat().st_size for file in (run / "records").iterdir()) for run in (path, plain)]
        best = [float("inf")] * 3
        for _ in range(_TIMES):
            start = time.perf_counter()
            records = read_records(RunFolder(path))
            read = time.perf_counter()
            data = gather(choose_records(records))
            gathered = time.perf_counter()
            tokens = int(data.spans.value[data.spans.tag == 0].astype("int64").sum())
            used = time.perf_counter()
            assert len(data.spans) == spans // ranks * ranks and tokens > 0
            times = read - start, gathered - read, used - gathered
            best = [min(pair) for pair in zip(best, times, strict=True)]
        size = (bytes_of[0] - bytes_of[1]) / spans
    return f"| {spans:,} | {ranks:,} | {size:.1f} | {best[0]:.2f} | {best[1]:.2f} | {sum(best):.2f} |"


if __name__ == "__main__":
    wanted = [int(word) for word in sys.argv[1:]]
    print("| spans | ranks | bytes each | read s | gather s | both s |\n|---:|---:|---:|---:|---:|---:|")
    for spans, ranks in [(wanted[0], wanted[1] if len(wanted) > 1 else 4)] if wanted else ((10**6, 4), (10**6, 256)):
        print(measure(spans, ranks), flush=True)
