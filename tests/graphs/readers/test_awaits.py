"""Samples of loops at rest are where the coroutines were that the rests were for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.record.format import SPAN_TYPE, STATE_ASLEEP, STATE_RUNNING
from scalana.runtime.record.run_writer import RunWriter

START_NS, MS = 5_000_000_000, 1_000_000
SELECTOR, FIRST, SECOND = 1, 2, 3
RESTS = ((10, 30, FIRST), (30, 60, SECOND), (80, 90, FIRST))
"""Begin and end in ms, and path."""
SAMPLES = (
    # time in ms, state, where it is told to have been
    (5, STATE_ASLEEP, SELECTOR),
    (12, STATE_ASLEEP, FIRST),
    (30, STATE_ASLEEP, SECOND),
    (40, STATE_RUNNING, SELECTOR),  # something else was done meanwhile
    (60, STATE_ASLEEP, SECOND),
    (70, STATE_ASLEEP, SELECTOR),
    (85, STATE_ASLEEP, FIRST),
)


@pytest.mark.parametrize("cpu_us", [10, -1], ids=["CPU time known", "unknown"])
@pytest.mark.parametrize("lane", [0, 1], ids=["of this thread", "of another one"])
def test_samples_of_loops_at_rest(tmp_path: Path, cpu_us: int, lane: int) -> None:
    record = RunWriter(tmp_path / "run", {"command": ["modelled"]}).process("host", start_ns=START_NS)
    for thread in (0, 1):
        record.thread(thread, 1 + thread)
    for path in (SELECTOR, FIRST, SECOND):
        record.code(path, "train.py", f"function {path}")
        record.call_path(path, 0, path, 0)
    for time_ms, state, _ in SAMPLES:
        record.sample(0, START_NS + time_ms * MS, SELECTOR, cpu_us, 0, state)
    record.span(SPAN_TYPE["region"], "mine", START_NS, MS, attributes={"key": 7})
    for begin_ms, end_ms, path in RESTS:
        where = record.lane(thread=lane)
        length_ns = (end_ms - begin_ms) * MS
        record.span(SPAN_TYPE["await"], "await", START_NS + begin_ms * MS, length_ns, lane=where, path=path)
    record.span(SPAN_TYPE["region"], "yours", START_NS, MS, attributes={"key": 8})
    record.span_total(SPAN_TYPE["await"], "await", 3, 60 * MS)
    record.span_total(SPAN_TYPE["region"], "mine", 1, MS)
    record.end(START_NS + 100 * MS, 0)
    record.close()
    (read,) = RunFolder(tmp_path / "run").processes()
    assert list(read.samples.path) == [SELECTOR if lane else path for _, _, path in SAMPLES]
    assert [read.names[name] for name in read.spans.name] == ["mine", "yours"]
    assert list(read.spans.last) == [1, 2] and list(read.attributes.value) == [7, 8]
    assert [read.names[name] for name in read.span_totals.name] == ["mine"]
