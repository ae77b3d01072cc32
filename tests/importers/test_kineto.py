"""What is read of traces of torch.profiler, whole and damaged, old and new, and what is said of those that are none."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import jsonschema
import pytest

import scalana
from scalana.cli import main
from scalana.importers import json_stream
from scalana.importers.collectives import operation_of
from scalana.importers.errors import TraceError
from scalana.importers.files import TraceFile, trace_files
from scalana.importers.kineto import read
from scalana.importers.registry import import_traces
from scalana.runtime.operations import BY_CODE
from tests.tools.device_job import MS, Fault, Job

ROOT = Path(__file__).resolve().parents[2]
JOB = Job(ranks=2, steps=2, fault=Fault(1, kernel_ns=3 * MS))


def run_of(path, folder):
    """Import, and analyse."""
    import_traces([str(path)], str(folder / "run"), str(folder))
    return scalana.analyze(folder / "run")


def found(report):
    """What matters of the one finding."""
    return [(f.kind, f.ranks, f.function, round(f.lost_s, 4)) for f in report.findings]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    report = run_of(JOB.write(folder / "traces"), folder)
    assert [entry[:3] for entry in found(report)] == [("device-late", [1], "aten::sort")]
    return found(report)


def test_compressed_and_in_an_archive(expected, tmp_path):
    plain = JOB.write(tmp_path / "plain")
    archive = tmp_path / "traces.tar"
    with tarfile.open(archive, "w") as tar:
        for file in sorted(plain.iterdir()):
            data = gzip.compress(file.read_bytes())
            member = tarfile.TarInfo(f"traces/{file.name}.gz")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    assert [file.name for file in trace_files([str(archive)])] == [
        f"{archive}:traces/rank0.json.gz", f"{archive}:traces/rank1.json.gz"
    ]  # fmt: skip
    assert found(run_of(archive, tmp_path)) == expected


@pytest.mark.parametrize("categories", [{"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime"}, {}])
def test_a_list_of_events_and_names_of_other_times(categories, expected, tmp_path):
    (tmp_path / "traces").mkdir()
    for rank, trace in enumerate(JOB.traces()):
        events = [{**event, "cat": categories.get(event["cat"], event["cat"])} for event in trace["traceEvents"]]
        (tmp_path / "traces" / f"worker{rank}.pt.trace.json").write_text(json.dumps(events))
    assert found(run_of(tmp_path / "traces", tmp_path)) == expected


def test_ranks_are_numbered_by_the_order_of_names_where_nothing_tells_them(expected, tmp_path):
    (tmp_path / "traces").mkdir()
    for name, trace in zip("ab", JOB.traces()):
        (tmp_path / "traces" / f"{name}.json").write_text(json.dumps({"traceEvents": trace["traceEvents"]}))
    report = run_of(tmp_path / "traces", tmp_path)
    assert found(report) == expected
    assert any("contain no ranks" in warning for warning in report.warnings)


def test_ranks_that_missed_operations_are_matched_by_their_ends(tmp_path):
    """Without groups and numbers, and with the first collectives of one rank not recorded."""
    job = Job(ranks=4, steps=4, fault=Fault(1, kernel_ns=3 * MS), old=True)
    traces = job.traces()
    starts = sorted(e["ts"] for e in traces[3]["traceEvents"] if e["cat"] == "kernel" and "nccl" in e["name"])
    traces[3]["traceEvents"] = [event for event in traces[3]["traceEvents"] if event["ts"] > starts[2]]
    (tmp_path / "traces").mkdir()
    for rank, trace in enumerate(traces):
        (tmp_path / "traces" / f"rank{rank}.json").write_text(json.dumps(trace))
    report = run_of(tmp_path / "traces", tmp_path)
    assert any("rank 3 began to record later" in warning for warning in report.warnings)
    assert {(f.kind, tuple(f.ranks)) for f in report.findings if f.kind != "initial-skew"} == {("device-late", (1,))}
    instances = report.ppg.timeline.instances
    assert sorted((instances.first[1:] - instances.first[:-1]).tolist()) == [3] * 3 + [4] * 5


def test_what_is_whole_of_a_damaged_file_is_used_and_the_rest_is_named(expected, tmp_path):
    folder = JOB.write(tmp_path / "traces")
    whole = (folder / "rank0.json").read_text()
    (folder / "rank0.json").write_text(whole[: len(whole) * 9 // 10])
    (folder / "notes.json").write_text("{}")
    report = run_of(folder, tmp_path)
    assert [entry[:3] for entry in found(report)] == [entry[:3] for entry in expected]
    assert any("rank0.json: the file ends in the middle; its complete part is used" in w for w in report.warnings)
    assert any("notes.json" in w and "not a trace" in w for w in report.warnings)


def test_a_torn_compressed_file(tmp_path):
    folder = JOB.write(tmp_path / "traces")
    packed = gzip.compress((folder / "rank1.json").read_bytes())
    (folder / "rank1.json").unlink()
    (folder / "rank1.json.gz").write_bytes(packed[: len(packed) // 2])
    report = run_of(folder, tmp_path)
    assert any("rank1.json.gz: cannot be read to its end" in warning for warning in report.warnings)


def test_events_that_make_no_sense_are_counted(tmp_path):
    trace = JOB.traces()[0]
    good = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    trace["traceEvents"] += [
        {"ph": "X", "cat": "kernel"},
        {"ph": "X", "cat": "cpu_op", "name": 1, "ts": "x"},
        7,
        {**good, "ts": 1e300},
        {**good, "ts": float("nan")},
        {**good, "args": {"correlation": 1 << 70}},
        {**good, "pid": {}},
    ]
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps(trace))
    told = read(TraceFile(str(file), lambda: open(file, "rb")))
    assert told.odd == 7 and told.rank == 0 and told.world_size == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty file"),
        (b"\x7fELF", "not a supported trace format (table of operations, flight recorder, kineto)"),
        (b'{"a": 1}', "has no list traceEvents"),
        (b'{"traceEvents": []}', "contains no operator, kernel or annotation"),
        (b'{"traceEvents": [{"ph": "X", "na', "the file ends in the middle"),
        (b"\x1f\x8bnothing", "cannot be read"),
    ],
)
def test_no_trace(content, says, tmp_path, capsys):
    file = tmp_path / "rank0.json"
    file.write_bytes(content)
    assert main(["import", str(file), "-o", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert str(file) in error and says in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kept", ["kernel", "cpu_op", "user_annotation", "cuda_runtime"])
def test_traces_of_one_kind_of_event_alone(kept, tmp_path):
    (tmp_path / "traces").mkdir()
    for rank, trace in enumerate(JOB.traces()):
        trace["traceEvents"] = [event for event in trace["traceEvents"] if event["cat"] == kept]
        (tmp_path / "traces" / f"rank{rank}.json").write_text(json.dumps(trace))
    report = run_of(tmp_path / "traces", tmp_path)
    assert report.ppg.run.ranks == 2 and report.to_text() and report.to_json()
    assert [f.ranks for f in report.findings] == ([[1]] if kept == "kernel" else [])


def test_two_files_of_one_rank_and_a_file_without_one(tmp_path):
    folder = JOB.write(tmp_path / "traces")
    trace = json.loads((folder / "rank0.json").read_text())
    (folder / "again.json").write_text(json.dumps(trace))
    with pytest.raises(TraceError, match=r"rank0\.json and .*again\.json are both of rank 0"):
        import_traces([str(folder)], str(tmp_path / "run"), ".")
    del trace["distributedInfo"]
    (folder / "again.json").write_text(json.dumps(trace))
    with pytest.raises(TraceError, match=r"again\.json: contains no rank"):
        import_traces([str(folder)], str(tmp_path / "run"), ".")


def test_usage(tmp_path, capsys):
    folder = JOB.write(tmp_path / "traces")
    assert main(["import", str(tmp_path / "none"), "-o", str(tmp_path / "run")]) == 1
    assert "no such file or folder" in capsys.readouterr().err
    assert main(["import", str(folder), "-o", str(folder)]) == 1
    assert "is not empty; choose another folder with -o" in capsys.readouterr().err
    assert main(["import", str(folder), "-o", str(tmp_path / "run"), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    device = document["device"]
    shares = [device[key] for key in ("busy_share", "waiting_share", "communication_share", "gap_share")]
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)
    assert {lane["name"] for lane in device["lanes"]} == {"stream 7", "stream 20"}


def test_the_events_of_a_file_in_pieces(monkeypatch):
    """Cuts inside of texts, characters of several bytes, and lists of objects inside of events."""
    monkeypatch.setattr(json_stream, "PIECE_BYTES", 64)
    events = [{"name": f'}} , {{ "é€{number}', "args": {"list": [{"a": 1}, {"b": "],"}]}} for number in range(50)]
    for indent in (None, 2):
        text = json.dumps({"before": {"x": [1]}, "traceEvents": events, "after": 3}, ensure_ascii=False, indent=indent)
        taken: list = []
        stream = json_stream.read(io.BytesIO(text.encode()), "name", taken.extend)
        assert taken == events and stream.header == {"before": {"x": [1]}, "after": 3} and not stream.damage


@pytest.mark.parametrize(
    ("names", "operation"),
    [
        (("c10d::_allgather_base_",), "allgather"),
        (("c10d::alltoall_base_", "ncclKernel_SendRecv"), "alltoall"),
        (("allreduce_coalesced",), "allreduce"),
        (("nccl:_reduce_scatter_base",), "reduce_scatter"),
        (("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",), "reduce_scatter"),
        (("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)",), "broadcast"),
        (("all_to_allv",), "alltoall"),
        (("send",), "send"),
        (("void gemm<float>()",), "unknown"),
    ],
)
def test_operations_by_their_many_names(names, operation):
    assert BY_CODE[operation_of(*names)].name == operation


def test_operations_are_matched_by_their_ids_where_there_are_no_numbers(tmp_path):
    """A rank that lacks an operation in the middle would be matched wrongly by order."""
    folder = JOB.write(tmp_path / "traces")
    for rank in range(2):
        file = folder / f"rank{rank}.json"
        trace = json.loads(file.read_text())
        left_out = set()
        for event in trace["traceEvents"]:
            if event["name"] == "record_param_comms":
                number = event["args"].pop("Seq")
                event["args"]["Comms Id"] = f"9{number:x}77"
                if rank == 0 and number == 1:
                    left_out.add(event["ts"])
        assert len(left_out) == (rank == 0)
        if rank == 0:
            (begin,) = left_out
            launch = next(
                e for e in trace["traceEvents"] if e["name"] == "cudaLaunchKernel" and begin < e["ts"] < begin + 50
            )
            correlation = launch["args"]["correlation"]
            trace["traceEvents"] = [e for e in trace["traceEvents"] if e["args"].get("correlation") != correlation]
        file.write_text(json.dumps(trace))
    report = run_of(folder, tmp_path)
    (finding,) = report.findings
    assert (finding.kind, finding.ranks, finding.function) == ("device-late", [1], "aten::sort")
    assert sorted(report.ppg.timeline.instances.complete.tolist()) == [False, True, True, True]
