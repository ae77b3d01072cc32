"""Whether reading a record is linear: seconds for ten times the events, as a ratio, in turns within one process.

Run: python tests/benchmarks/reading.py [EVENTS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime.record.format import ProcessRecord  # noqa: E402
from scalana.runtime.record.writer import RecordWriter  # noqa: E402

TURNS = 7
PER_BLOCK = 5_000


def write(file: Path, events: int) -> None:
    """A record of so many events, all from one place."""
    with RecordWriter(file) as writer:
        writer.code(1, "a.py", "f", 10)
        writer.call_path(1, 0, 1, 12)
        for number in range(events):
            writer.event(2 * number + 2, 2, 10**12 + number * 1000, 500, seq=number, path=1)
            if (number + 1) % PER_BLOCK == 0:
                writer.flush()
        writer.end(10**12 + events * 1000, 0)


def seconds(file: Path) -> float:
    """CPU seconds of reading it once."""
    start = time.process_time()
    ProcessRecord.read(file)
    return time.process_time() - start


def main(events: int) -> None:
    """Print the least seconds of both sizes, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{count}.rec" for count in (events, 10 * events)]
        for file, count in zip(files, (events, 10 * events)):
            write(file, count)
        few, many = (min(taken) for taken in zip(*([seconds(file) for file in files] for _ in range(TURNS))))
    print(f"{events} events: {few * 1e3:.2f} ms of CPU; {10 * events}: {many * 1e3:.2f} ms; ratio {many / few:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
