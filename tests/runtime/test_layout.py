"""Run folders: one layout for all who write and read them, with and without Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import scalana
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import launchers, layout
from scalana.runtime.record.format import LANE_SLOT, SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from tests.installed import RUNTIME

MS = 1_000_000


def test_c_has_the_same_names() -> None:
    header = (RUNTIME / "_core" / "record" / "run_layout.h").read_text()
    found = dict(re.findall(r"#define (\w+) (\"[^\"]*\"|.+)", header))
    assert {name: text.strip('"') for name, text in found.items() if text.startswith('"')} == {
        "RUN_VARIABLE": layout.RUN_VARIABLE,
        "RATE_VARIABLE": layout.RATE_VARIABLE,
        "BUDGET_VARIABLE": layout.BUDGET_VARIABLE,
        "JOB_VARIABLE": layout.JOB_VARIABLE,
        "NATIVE_VARIABLE": layout.NATIVE_VARIABLE,
        "PRELOAD_VARIABLE": layout.PRELOAD_VARIABLE,
        "WITHOUT_MPI": layout.WITHOUT_MPI,
        "RUN_WORLDS": layout.WORLDS,
        "RUN_LAUNCHES": layout.LAUNCHES,
        "RUN_RECORDS": layout.RECORDS,
        "RUN_RECORD_END": layout.RECORD,
        "RUN_NOTE_END": layout.NOTE,
    }
    assert float(found["DEFAULT_RATE_HZ"]) == layout.DEFAULT_RATE_HZ
    assert eval(found["DEFAULT_BUDGET_BYTES"]) == layout.DEFAULT_BUDGET_BYTES


def test_names_of_files(tmp_path: Path) -> None:
    assert layout.record_files(tmp_path) == layout.note_files(tmp_path) == []
    layout.make_records(tmp_path)
    for number in range(2):
        path = Path(layout.new_record(tmp_path, "a/b", 7))
        assert path.name == f"a_b-7-{number}.rec" and layout.stem_of(path.name) == path.stem
        path.touch()
    Path(layout.note_file(tmp_path, "a", 8)).write_text("why\n")
    assert [Path(file).name for file in layout.record_files(tmp_path)] == ["a_b-7-0.rec", "a_b-7-1.rec"]
    assert RunFolder(tmp_path).notes() == ["why"]
    with pytest.raises(OSError):
        layout.write_info(tmp_path / "missing", {})


def test_the_first_launcher_that_tells_a_rank_counts() -> None:
    environ = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "PMI_RANK": "x", "PMI_SIZE": "4"}
    assert launchers.rank_of(environ) == ("3", "8", "")
    assert launchers.rank_of({**environ, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}) == ("1", "2", "1")
    assert launchers.rank_of({}) is None


def test_a_run_that_is_written_from_what_another_tool_knew(tmp_path: Path) -> None:
    """No samples, no CPU times, no call paths: events, spans and lanes alone make a run that can be reported."""
    run = RunWriter(tmp_path / "run", {"command": ["python", "train.py"], "seconds": 0.9, "exit_code": 0})
    late_ms, steps = 60, 8
    for rank in range(4):
        with run.process(f"host{rank // 2}", rank=rank, world_size=4, start_ns=1000 * MS, unix_ns=10**18) as writer:
            writer.thread(0, rank + 1)
            writer.group(1, "world", rank, range(4))
            slot, now = writer.lane(LANE_SLOT, "slot 0"), 1000 * MS
            for step in range(steps):
                work = (40 + late_ms * (rank == 2)) * MS
                writer.span(SPAN_TYPE["phase"], "rollout", now, work, lane=slot, step=step, attributes={"n": rank})
                enter = now + work
                now += (40 + late_ms) * MS + MS
                writer.event(2 * step + 2, BY_NAME["allreduce"].code, enter, now - enter, group=1, seq=step, cpu_ns=-1)
            writer.end(now)
    report = scalana.analyze(tmp_path / "run")
    data = json.loads(report.to_json())
    assert data["run"]["ranks"] == 4
    assert data["time"]["wait_s"] == pytest.approx(3 * steps * late_ms / 1000, rel=0.05)
    assert data["time"]["stall_s"] == pytest.approx(0, abs=1e-6)
    assert sum("CPU time" in warning for warning in report.warnings) == 1
    assert data["findings"][0]["ranks"] == [2]
    spans = report.ppg.spans
    assert len(spans.rows("phase", "rollout")) == 4 * steps
    with pytest.raises(FileExistsError, match="not empty"):
        RunWriter(tmp_path / "run", {})
