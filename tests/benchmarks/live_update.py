"""CPU seconds of a look at a run that goes on, after it has run for a while and after it has run for longer.

Run: python -m tests.benchmarks.live_update [--ranks 64] [STEPS ...]

For every number of steps (250 and 2000 unless given) a run folder is written by ``tests/tools/generate_run.py``, in
small blocks, and read as if it grew by two seconds between one look and the next. The first look, which reads all that
there is, is a figure of its own.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.live.look import Looker  # noqa: E402
from tests.tools import generate_run  # noqa: E402
from tests.tools.job_model import Model  # noqa: E402

_HEADER = struct.Struct("<IIII")
_FILE_HEADER = 16
_BLOCK = 2 << 10
LOOKS = 6
BETWEEN_S = 2.0
LAST = 20


def parts_of(data: bytes, seconds: float) -> list[int]:
    """Where a record ends that is cut before each of its last looks: its blocks are of about the same time."""
    ends = [_FILE_HEADER]
    while ends[-1] < len(data):
        ends.append(ends[-1] + _HEADER.size + _HEADER.unpack_from(data, ends[-1])[1])
    back = len(ends) * BETWEEN_S / seconds
    return [ends[max(int(len(ends) - 1 - back * look), 1)] for look in range(LOOKS, -1, -1)]


def measure(folder: Path, ranks: int, steps: int) -> tuple[float, float, float]:
    """CPU seconds of the first look, of one that reads what is new, and of one that finds the causes again."""
    generate_run._BLOCK_BYTES = _BLOCK
    model = Model(ranks, steps)
    generate_run.write_run(folder, model)
    files = {file: file.read_bytes() for file in (folder / "records").iterdir()}
    with Looker(str(folder), LAST) as looker:
        seconds = float(looker._run.info["seconds"])
        cuts = {file: parts_of(data, seconds) for file, data in files.items()}
        spent: list[tuple[float, float]] = []
        first_s = 0.0
        for look in range(LOOKS + 1):
            for file, data in files.items():
                file.write_bytes(data[: cuts[file][look]])
            begin = time.process_time()
            looker.look(analyse=False)
            middle = time.process_time()
            looker.look()
            first_s = first_s or middle - begin
            spent.append((middle - begin, time.process_time() - middle))
    news, causes = zip(*spent[2:], strict=True)  # what is compiled or loaded once is no part of them
    return first_s, statistics.median(news), statistics.median(causes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", type=int, default=[250, 2000])
    parser.add_argument("--ranks", type=int, default=64)
    args = parser.parse_args()
    for steps in args.steps:
        with tempfile.TemporaryDirectory() as folder:
            first, new, causes = measure(Path(folder) / "run", args.ranks, steps)
        print(f"{args.ranks} ranks, {steps} steps: first {first:.3f} s, update {new:.3f} s, causes {causes:.3f} s CPU")


if __name__ == "__main__":
    main()
