"""What is said of dumps of flight recorders: who did not come, who came late, and what is left of damaged files."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

import scalana
from scalana.importers.errors import TraceError
from scalana.importers.files import TraceFile
from scalana.importers.flight_dump import read
from scalana.importers.registry import import_traces
from tests.needs import torch_or_skip
from tests.runtime.jobs import forked
from tests.tools.flight_dumps import MS, FlightJob

PROGRAMS = Path(__file__).parent / "programs"


def run_of(path, folder):
    """Import, and analyse."""
    import_traces([str(path)], str(folder / "run"), str(folder))
    return scalana.analyze(folder / "run")


def file_of(path):
    """As the importer opens it."""
    return TraceFile(str(path), lambda: path.open("rb"))


@pytest.mark.parametrize("as_json", [False, True])
def test_the_rank_that_did_not_come_is_named(as_json, tmp_path):
    job = FlightJob(missing=2)
    report = run_of(job.write(tmp_path / "dumps", as_json), tmp_path)
    (finding,) = report.findings
    assert (finding.kind, finding.ranks, finding.file, finding.line) == ("hang", [2], job.program, 31)
    assert finding.evidence.as_dict()["waiting_ranks"] == [0, 1, 3]
    assert finding.evidence.as_dict()["sequence"] == job.steps
    symptom = finding.path[0]
    assert (symptom.operation, symptom.line) == ("allreduce", 31)


@pytest.mark.parametrize("library", ["nccl", "gloo"])
def test_the_rank_that_comes_late_is_named(library, tmp_path):
    job = FlightJob(late={1: 30 * MS}, library=library)
    report = run_of(job.write(tmp_path / "dumps"), tmp_path)
    (finding,) = report.findings
    # A dump does not tell what a rank did in between.
    assert (finding.kind, finding.ranks, finding.line) == ("unresolved", [1], 31)
    assert finding.lost_s == pytest.approx(3 * job.steps * 0.030, rel=0.1)
    assert "has no samples between calls" in report.to_text()


def test_without_durations_nobody_is_called_late_on_a_device(tmp_path):
    report = run_of(FlightJob(late={1: 30 * MS}, timing=False).write(tmp_path / "dumps"), tmp_path)
    assert not report.findings
    assert any("TORCH_NCCL_ENABLE_TIMING" in warning for warning in report.warnings)


def test_what_all_have_called_and_nobody_completed_is_told(tmp_path):
    job = FlightJob(missing=2)
    folder = job.write(tmp_path / "dumps")
    dumps = job.dumps()
    dumps[2]["entries"].append(dict(dumps[0]["entries"][-1]))
    (folder / "nccl_trace_rank_2").write_bytes(pickle.dumps(dumps[2], 2))
    report = run_of(folder, tmp_path)
    assert not report.findings
    assert any("all 4 ranks of group 0 have called allreduce number 12" in warning for warning in report.warnings)


def test_a_rank_that_reaches_back_less_far_is_matched_by_numbers(tmp_path):
    job = FlightJob(late={1: 30 * MS})
    folder = job.write(tmp_path / "dumps")
    dump = job.dumps()[3]
    dump["entries"] = dump["entries"][4:]
    (folder / "nccl_trace_rank_3").write_bytes(pickle.dumps(dump, 2))
    (finding,) = run_of(folder, tmp_path).findings
    assert finding.ranks == [1]
    assert finding.lost_s == pytest.approx(3 * (job.steps - 4) * 0.030, rel=0.15)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_torn_dump_is_used_as_far_as_it_goes(as_json, tmp_path):
    folder = FlightJob().write(tmp_path / "dumps", as_json)
    file = folder / "nccl_trace_rank_1"
    whole = file.read_bytes()
    file.write_bytes(whole[: 3 * len(whole) // 4])
    dump = read(file_of(file))
    assert 6 <= len(dump.entries) < 12 and dump.damage
    assert dump.entries[0].frames[-1][1] == "all_reduce"
    report = run_of(folder, tmp_path)
    assert any("nccl_trace_rank_1" in warning and "complete operations" in warning for warning in report.warnings)


def test_odd_entries_are_left_out_and_counted(tmp_path):
    job = FlightJob(ranks=2)
    folder = job.write(tmp_path / "dumps")
    dump = job.dumps()[1]
    dump["entries"][3] = {"profiling_name": None}
    (folder / "nccl_trace_rank_1").write_bytes(pickle.dumps(dump, 2))
    assert any("1 invalid operations are left out" in warning for warning in run_of(folder, tmp_path).warnings)


class _Runs:
    def __reduce__(self):
        return os.mkdir, ("made by a pickle",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_would_run_something_does_not(protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(pickle.dumps({"entries": [], "x": _Runs()}, protocol))
    with pytest.raises(TraceError):
        import_traces([str(file)], str(tmp_path / "run"), str(tmp_path))
    assert not (tmp_path / "made by a pickle").exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00.", b'{"pg_config": {}}', b"\x80\x02\x00\xff"])
def test_what_is_no_dump_is_refused_by_name(content, tmp_path):
    file = tmp_path / "nccl_trace_rank_0"
    file.write_bytes(content)
    with pytest.raises(TraceError, match="nccl_trace_rank_0"):
        import_traces([str(file)], str(tmp_path / "run"), str(tmp_path))


def test_dumps_and_traces_do_not_make_one_run(tmp_path):
    folder = FlightJob(ranks=1).write(tmp_path / "dumps")
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (folder / "rank1.json").write_text(json.dumps({"traceEvents": [event]}))
    with pytest.raises(TraceError, match="different tools"):
        import_traces([str(folder)], str(tmp_path / "run"), str(tmp_path))


@pytest.mark.slow
def test_a_dump_that_torch_makes_of_a_job_that_hangs(tmp_path):
    torch_or_skip()
    program = PROGRAMS / "stuck.py"
    forked(2, str(program), tmp_path, extra={"TORCH_FR_BUFFER_SIZE": "200"})
    report = run_of(tmp_path, tmp_path / "out")
    finding = report.findings[0]
    assert (finding.kind, finding.ranks) == ("hang", [1])
    lines = program.read_text().splitlines()
    assert "all_reduce" in lines[finding.path[0].line - 1]
    assert finding.path[0].function == "average"
