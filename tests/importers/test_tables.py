"""Tables of operations: what is read of them, which cause is named first, and what is said of those that are wrong."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import scalana
from scalana.cli import main
from scalana.importers.errors import TraceError
from scalana.importers.registry import import_traces
from scalana.importers.tables import operations
from scalana.importers.tables.operation_kinds import Role, kind_of
from tests.importers.tables import STUDY, Job, study_text, text_of

ROOT = Path(__file__).resolve().parents[2]


def report_of(text: str, folder: Path, name: str = "table.csv"):
    """Write a table, import and analyse it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    import_traces([str(folder / name)], str(folder / "run"), str(folder))
    return scalana.analyze(folder / "run")


def first(report) -> tuple[str, list[int]]:
    """Kind and ranks of the first finding."""
    return report.findings[0].kind, list(report.findings[0].ranks)


def slow_worker(replica, stage, step, microbatch):
    return 1.8 if (replica, stage) == (1, 1) else 1.0


def heavy_stage(replica, stage, step, microbatch):
    return 1.6 if stage == 2 else 1.0


LENGTHS = np.random.default_rng(3).lognormal(0.0, 0.5, (4, 4, 4))


def unequal_lengths(replica, stage, step, microbatch):
    return float(LENGTHS[replica, step, microbatch])


def run_s(times, **changes) -> float:
    """How long a job takes without the time between its operations."""
    rows = Job(times=times, **changes).rows()
    return max(row.begin_s + row.duration_s for row in rows)


def test_an_even_job_has_no_finding(tmp_path):
    report = report_of(study_text(Job().rows()), tmp_path)
    assert [one for one in report.findings if one.kind != "pipeline-schedule"] == []
    found = json.loads(report.to_json())
    assert abs(found["slow_down"]["slow_down"] - 1.0) < 0.01
    assert found["pipeline"][0]["schedule"] == "1F1B"
    assert len(found["pipeline"]) == 2


def test_a_slow_worker_is_named_not_its_stage(tmp_path):
    report = report_of(study_text(Job(times=slow_worker).rows()), tmp_path)
    assert first(report) == ("pipeline-replica", [Job().rank(1, 1)])
    finding = report.findings[0]
    assert abs(finding.saving_s / (run_s(slow_worker) - run_s(lambda *_: 1.0)) - 1.0) < 0.1
    text = report.to_text()
    assert "Rank 3 takes 108 ms per microbatch, the same stage of other replicas 60 ms: all ranks wait." in text
    assert "the split of the layers is not the cause" in text
    slow = json.loads(report.to_json())["slow_down"]
    assert slow["slowest_workers_share"] > 0.95
    assert slow["last_stage_share"] < 0.05
    assert np.argmax(slow["by_replica"]) == 1 and np.argmax(slow["by_stage"]) == 1


def test_a_heavy_stage_is_one_finding_for_all_replicas(tmp_path):
    job = Job(times=heavy_stage)
    report = report_of(study_text(job.rows()), tmp_path)
    assert first(report) == ("pipeline-imbalance", [job.rank(0, 2), job.rank(1, 2)])
    assert report.findings[0].where.stage == 2
    assert [one.kind for one in report.findings].count("pipeline-imbalance") == 1
    assert "What would help most" not in report.to_text()
    slow = json.loads(report.to_json())["slow_down"]
    assert slow["last_stage_share"] > 0.95 > 0.6 > slow["slowest_workers_share"]


def test_unequal_lengths_are_named(tmp_path):
    job = Job(replicas=4, times=unequal_lengths)
    report = report_of(study_text(job.rows()), tmp_path)
    assert first(report)[0] == "pipeline-lengths"
    assert len(report.findings[0].ranks) == 12
    evidence = report.findings[0].evidence.pipeline
    assert evidence.correlation > 0.99
    longest = np.mean([LENGTHS[:, step].max() for step in range(4)]) / np.median(LENGTHS)
    assert abs(evidence.times / longest - 1.0) < 0.3
    mean = LENGTHS.mean()
    planted = run_s(unequal_lengths, replicas=4) - run_s(lambda *_: float(mean), replicas=4)
    assert abs(report.findings[0].saving_s / planted - 1.0) < 0.05
    text = report.to_text()
    assert "Microbatches differ in length: the longest of a step takes" in text
    assert "Slow-down of the job" in text


def test_reports_of_tables_keep_to_the_schema(tmp_path, capsys):
    text = study_text(Job(times=slow_worker).rows())
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(text.encode()))
    command = ["import", str(tmp_path / "table.csv.gz"), "-o", str(tmp_path / "run"), "--format", "json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    assert found["run"]["ranks"] == 6 and found["run"]["rate_hz"] is None
    assert found["steps"]["count"] == 4


def same_job(tmp_path, text: str, name: str, expected):
    """Whether another form of a table says the same."""
    report = report_of(text, tmp_path / name, name)
    assert first(report) == first(expected)
    assert abs(report.findings[0].saving_s / expected.findings[0].saving_s - 1.0) < 0.02


def test_other_forms_of_the_same_table_say_the_same(tmp_path):
    rows = Job(times=slow_worker).rows()
    expected = report_of(study_text(rows), tmp_path / "study")
    shuffled = list(STUDY)
    random.Random(1).shuffle(shuffled)
    mixed = rows[:]
    random.Random(2).shuffle(mixed)
    same_job(tmp_path, study_text(mixed, shuffled), "shuffled.csv", expected)
    cells = [
        {
            "Rank": row.rank, "kind": row.kind.replace("-compute", ""), "iteration": row.step,
            "begin_us": round(row.begin_s * 1e6, 3) + 1.7e15, "end_us": (row.begin_s + row.duration_s) * 1e6 + 1.7e15,
            "microbatch": row.microbatch + 100 if row.microbatch >= 0 else "", "stage": row.stage, "note": "x",
        }
        for row in rows
        if "recv" not in row.kind  # then the end of what makes the input says when it came
    ]  # fmt: skip
    same_job(tmp_path, text_of(cells, list(cells[0])), "own.csv", expected)
    same_job(tmp_path, text_of(cells, list(cells[0])).replace(",", "\t"), "own.tsv", expected)
    for number in range(2):
        part = text_of([cell for cell in cells if cell["iteration"] % 2 == number], list(cells[0]))
        (tmp_path / f"part{number}.csv").write_text(part, encoding="utf-8")
    import_traces([str(tmp_path / f"part{number}.csv") for number in range(2)], str(tmp_path / "parts"), str(tmp_path))
    assert first(scalana.analyze(tmp_path / "parts")) == first(expected)
    lines = "".join(json.dumps(cell) + "\n" for cell in cells)
    same_job(tmp_path, lines, "own.jsonl", expected)


def test_steps_that_each_count_from_nothing_are_put_one_behind_the_other(tmp_path):
    rows = Job(times=slow_worker).rows()
    begin = {step: min(row.begin_s for row in rows if row.step == step) for step in range(4)}
    cells = [
        {"rank": r.rank, "kind": r.kind, "step": 10 * r.step + 7, "begin_s": r.begin_s - begin[r.step],
         "duration_s": r.duration_s, "stage": r.stage, "microbatch": r.microbatch, "replica": r.replica}
        for r in rows
    ]  # fmt: skip
    report = report_of(text_of(cells, list(cells[0])), tmp_path)
    assert first(report) == ("pipeline-replica", [3])
    assert abs(report.ppg.run.seconds / run_s(slow_worker) - 1.0) < 0.01
    warnings = "\n".join(report.warnings)
    assert "times start again in every step" in warnings
    assert "the table has 4 of the steps 7 to 37; the time of the others is left out" in warnings
    assert [int(one) for one in report.ppg.timeline.step_number[:4]] == [7, 17, 27, 37]


def test_a_table_without_a_pipeline_has_late_ranks(tmp_path):
    cells = []
    for step in range(5):
        for rank in range(3):
            work = 30 if rank == 2 else 10
            begin = 40 * step
            cells.append({"rank": rank, "kind": "augment", "step": step, "begin_ms": begin, "duration_ms": work})
            cells.append({"rank": rank, "kind": "all_reduce", "step": step, "begin_ms": begin + work,
                          "duration_ms": 32 - work})  # fmt: skip
            cells.append({"rank": rank, "kind": "optimizer", "step": step, "begin_ms": begin + 32, "duration_ms": 8})
    report = report_of(text_of(cells, list(cells[0])), tmp_path)
    finding = report.findings[0]
    assert (finding.kind, finding.ranks, finding.function) == ("late-ranks", [2], "augment")
    assert abs(finding.lost_s - 2 * 5 * 0.02) < 0.01
    assert abs(finding.saving_s - 5 * 0.02) < 0.01


def test_ranks_that_the_table_lacks_are_named(tmp_path):
    report = report_of(study_text(Job(times=slow_worker, tensor_parallel=4).rows()), tmp_path)
    assert first(report) == ("pipeline-replica", [12])
    assert any("no record of ranks 1, 2, 3, 5" in warning for warning in report.warnings)


GOOD = "rank,kind,begin_s,duration_s,step,stage,microbatch\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + "0,forward,0,0.1,0,0,0\n1,forward,0,abc,0,1,0\n", "row 2, column duration_s: 'abc' is not a number"),
        (GOOD + "0,forward,0,-0.1,0,0,0\n", "row 1, column duration_s: '-0.1' is less than nothing"),
        (GOOD + ",forward,0,0.1,0,0,0\n", "row 1, column rank: '' is no rank"),
        (GOOD + "0,forward,,0.1,0,0,0\n", "row 1, column begin_s: '' is no time"),
        (GOOD + "0,forward,0,0.1,half,0,0\n", "row 1, column step: 'half' is not a number"),
        (GOOD + "0,forward,0,0.1,0.5,0,0\n", "row 1, column step: '0.5' is not a whole number"),
        (GOOD + "0,,0,0.1,0,0,0\n", "row 1, column kind: '' is no kind of operation"),
        (GOOD, "the table has no rows"),
        (GOOD + "0,forward,0,0.1,0,0,0\n0,forward,0.01,0.1,0,0,1\n", "rank 0 computes two things at once"),
        (GOOD + "0,forward,0,0.1,0,0,0\n1,forward,0,0.1,0,,0\n", "some forwards or backwards have a stage"),
        ("rank,kind,begin,duration\n0,forward,0,1\n", "the unit of begin, duration is unknown: end the name with _s"),
        ("rank,kind,step,stage\n0,forward,0,1\n", "no column begin_s, duration_s or end_s (it has rank"),
        ("rank,kind,begin_s,begin_ms,end_s\n0,a,0,0,1\n", "columns begin_s and begin_ms both mean begin: keep one"),
        ("rank,kind,begin_s,end_s\n0,forward,2,1\n", "row 1, column end_s: '1' lies before the begin of its row"),
        (
            "rank,kind,begin_s,end_s,group\n0,mystery,0,1,a\n",
            "column kind: 'mystery' has a group, but is no known collective: name it all_reduce",
        ),
        ('{"rank": 0, "kind": "forward", "begin_s": 0, "duration_s": 1}\n{"rank"\n', "line 2 is not JSON"),
        (
            "rank,kind,begin_s,duration_s,stage,replica\n0,forward,0,1,0,0\n1,forward,0,1,0,0\n",
            "ranks [0, 1] hold stage 0 of one replica: the column replica tells them apart",
        ),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used_say_why(text, says, tmp_path):
    with pytest.raises(TraceError) as error:
        report_of(text, tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/table.csv: ")
    assert says in str(error.value)


def test_parquet_without_what_reads_it_says_what_to_install(tmp_path, monkeypatch):
    import pandas as pd

    def missing(*_, **__):
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", missing)
    (tmp_path / "table.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(TraceError, match=r"table\.parquet: reading parquet needs the package pyarrow.*pip install"):
        import_traces([str(tmp_path / "table.parquet")], str(tmp_path / "run"), str(tmp_path))


def test_what_is_no_table_is_left_to_others():
    assert operations.recognises(b"rank,kind,begin_s,end_s\n")
    assert operations.recognises(b'{"rank": 0, "kind": "forward", "begin_s": 0.5}\n')
    assert not operations.recognises(b'{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0}}')
    assert not operations.recognises(b'{"traceEvents": [{"name": "x", "ph": "X", "rank": 1, "kind": 2}]}')
    assert not operations.recognises(b"name,value\n")


def test_kinds_are_known_by_many_names():
    assert [kind_of(name).action for name in ("forward-compute", "FWD", "Backward pass", "W")] == ["F", "F", "B", "W"]
    assert kind_of("forward-recv").role is kind_of("recv_forward").role is Role.RECEIVE
    assert kind_of("grads-reduce-scatter").operation == "reduce_scatter"
    assert kind_of("separate-grads-all-reduce").role is Role.COLLECTIVE
    assert kind_of("layernorm-grads-all-reduce").role is kind_of("gc").role is Role.OWN
    assert kind_of("optimizer").span == "optimizer"
