"""Spans of a run: columns, attributes, vertices, and the same whoever reads them."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana.graphs.readers.columns import blocks
from scalana.graphs.readers.columns.gather import collect
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import LANE_SLOT, LANE_STREAM, SPAN_TYPE, ProcessRecord
from tests.graphs.runs import MS, build, make_ranks

ALLREDUCE = BY_NAME["allreduce"].code


def write(folder: Path, ranks: int = 3) -> None:
    for rank in make_ranks(folder, ranks):
        number, writer = rank.rank, rank.writer
        stream = writer.lane(LANE_STREAM, f"stream {number}", 0)
        slot = writer.lane(LANE_SLOT, "slot")
        for step in range(3):
            at = (1000 + 40 * step) * MS
            rank.work("mask", 20)
            rank.call("allreduce", rank.now + 2)
            trajectory: dict[str, Any] = {"id": 100 * number + step, "share": step / 4, "mode": f"m{number % 2}"}
            path = rank.path("load")
            writer.span(SPAN_TYPE["trajectory"], f"only {number}", at, MS, lane=slot, path=path, attributes=trajectory)
            writer.span(
                SPAN_TYPE["kernel"], "gemm", at, 2 * MS, lane=stream, event=2 * step + 2, path=rank.path("mask")
            )
            writer.span(SPAN_TYPE["step"], "step", at, 40 * MS, step=step, cpu_ns=5 * MS)
            if ranks == 5 and number % 3 == 1:
                writer.span_total(SPAN_TYPE["kernel"], "gemm", step + 1, MS, lane=stream, path=path)
        rank.end()


def test_columns_lanes_attributes_and_vertices(tmp_path: Path) -> None:
    write(tmp_path)
    ppg = build(tmp_path)
    spans = ppg.spans
    assert (
        len(spans) == 27 and set(spans.rank.tolist()) == {0, 1, 2} and sorted(spans.keys()) == ["id", "mode", "share"]
    )
    kernels = spans.rows("kernel", "gemm")
    assert len(kernels) == 9 and len(spans.rows("kernel", "no such")) == 0
    assert np.isnan(spans.cpu_s(kernels)).all() and spans.cpu_s(spans.rows("step")) == pytest.approx(0.005)
    lanes = spans.table.lane[kernels]
    assert [spans.names[name] for name in spans.lanes.name[lanes].tolist()] == [f"stream {r // 3}" for r in range(9)]
    assert (spans.lanes.kind[lanes] == LANE_STREAM).all() and (spans.lanes.thread[lanes] >= 0).all()
    assert spans.start_s(kernels[:3]) == pytest.approx([0, 0.04, 0.08])
    assert spans.end_s(kernels[:1]) == pytest.approx(0.002)
    trajectories = spans.rows("trajectory")
    assert spans.numbers("id")[trajectories].tolist() == [100 * r + s for r in range(3) for s in range(3)]
    assert spans.integers("id")[trajectories].tolist() == spans.numbers("id")[trajectories].tolist()
    assert spans.numbers("share")[trajectories].tolist() == [0, 0.25, 0.5] * 3
    modes = spans.texts("mode")[trajectories]
    assert [spans.names[mode] for mode in modes.tolist()] == ["m0"] * 3 + ["m1"] * 3 + ["m0"] * 3
    others = np.setdiff1d(np.arange(len(spans)), trajectories)
    assert np.isnan(spans.numbers("id")[others]).all() and (spans.texts("mode")[others] == -1).all()
    assert (spans.integers("share") == -1).all() and (spans.texts("nothing") == -1).all()
    assert np.isnan(spans.numbers("mode")).all()
    assert spans.attributes(int(trajectories[4])) == {"id": 101, "share": 0.25, "mode": "m1"}
    assert {ppg.psg.function_of(v) for v in spans.vertex[trajectories].tolist()} == {"load"}
    by_vertex = ppg.metrics["span_s"].sum(axis=1)
    assert ppg.metrics["spans"].sum() == 27 and by_vertex.sum() == pytest.approx(9 * (0.001 + 0.002 + 0.04))
    (vertex,) = set(spans.vertex[kernels].tolist())
    assert ppg.metrics["span_s"][vertex].tolist() == pytest.approx([0.006] * 3)
    calls = spans.call[kernels]
    assert (ppg.timeline.calls.operation[calls] == ALLREDUCE).all() and len(set(calls.tolist())) == 9
    assert (ppg.timeline.locations.rank[ppg.timeline.calls.location[calls]] == spans.rank[kernels]).all()
    assert ppg.timeline.step_number.tolist() == [0, 1, 2] * 3
    assert [region.type for region in ppg.regions] == ["step"] * 9


def test_spans_that_were_left_out_count_by_their_sums(tmp_path: Path) -> None:
    for rank in make_ranks(tmp_path, 2):
        rank.work("mask", 20)
        path = rank.path("load")
        rank.writer.span(SPAN_TYPE["phase"], "a", 1000 * MS, MS, path=path)
        if rank.rank:
            rank.writer.span_total(SPAN_TYPE["phase"], "a", 9, 30 * MS, path=path)
            rank.writer.span_total(SPAN_TYPE["phase"], "b", 1, 2 * MS, path=path)
        rank.end()
    ppg = build(tmp_path)
    (vertex,) = set(ppg.spans.vertex.tolist())
    assert ppg.metrics["spans"][vertex].tolist() == [1, 10] and ppg.metrics["spans"].sum() == 11
    assert ppg.metrics["span_s"][vertex].tolist() == pytest.approx([0.001, 0.032])


def test_an_unknown_type_is_an_error() -> None:
    from scalana.graphs.spans.span_columns import Spans

    with pytest.raises(KeyError):
        Spans().rows("nonsense")


def test_blocks_hold_the_same_spans(tmp_path: Path) -> None:
    write(tmp_path, 5)
    records = RunFolder(tmp_path).processes()
    ranks = [record.rank for record in records]
    own = [True] * len(records)
    whole = collect(list(records), list(ranks), list(own))
    parts = []
    for number in range(2):
        rows = list(range(number, len(records), 2))
        held = pickle.loads(pickle.dumps(blocks.Held([records[row] for row in rows], [])))
        share = blocks.Share(list(range(len(rows))), rows, [ranks[row] for row in rows], [True] * len(rows))
        parts.append(pickle.loads(pickle.dumps(blocks.collect_block(held, share, {}))))
    merged = blocks.merge(parts)
    assert merged.spans.names == whole.spans.names and len(whole.spans) == 45
    assert len(whole.span_totals) == 2
    for mine, theirs in (
        (merged.spans, whole.spans),
        (merged.spans.lanes, whole.spans.lanes),
        (merged.span_totals, whole.span_totals),
    ):
        for column in dataclasses.fields(theirs):
            values = getattr(theirs, column.name)
            if isinstance(values, np.ndarray):
                np.testing.assert_array_equal(getattr(mine, column.name), values, column.name)


def test_the_most_telling_marks_of_steps_count(tmp_path: Path) -> None:
    for rank in make_ranks(tmp_path, 2):
        rank.work("mask", 40)
        for source, step in (("trainer", 7), ("optimizer", 1), ("optimizer", 2), ("user", 0)):
            start = (1000 + step) * MS
            rank.writer.span(SPAN_TYPE["step"], "step", start, MS, step=step, attributes={"source": source})
        rank.end()
    timeline = build(tmp_path).timeline
    assert timeline.step_number.tolist() == [0, 0] and timeline.steps[:, 0].tolist() == [0, 1]


def test_a_run_of_version_1_has_its_regions_and_steps(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    old = Path(__file__).parents[1] / "runtime" / "data" / "version1.rec"
    (tmp_path / "records" / "host-1-0.rec").write_bytes(old.read_bytes())
    assert ProcessRecord.read(old).troubles == []
    ppg = build(tmp_path)
    assert [(r.type, r.name) for r in ppg.regions] == [
        ("region", "augment"),
        ("step", "0"),
        ("step", "1"),
        ("region", "augment"),
    ]
    assert ppg.timeline.step_number.tolist() == [0, 1]


@pytest.mark.parametrize("samples", [True, False])
def test_unknown_cpu_time_is_told_once_and_is_not_idleness(tmp_path: Path, samples: bool) -> None:
    for rank in make_ranks(tmp_path, 2):
        writer = rank.writer
        for step in range(4):
            begin = round(rank.now * MS)
            for tick in range(8 if samples else 0):
                writer.sample(0, begin + (5 * tick + 2) * MS, rank.path("mask"), -1)
            enter = begin + 40 * MS
            writer.event(2 * step + 2, ALLREDUCE, enter, 2 * MS, group=1, seq=step, path=rank.path("sum"), cpu_ns=-1)
            rank.now += 42
        rank.end()
    ppg = build(tmp_path)
    metrics = {name: values.sum() for name, values in ppg.metrics.items()}
    assert metrics["comm_s"] == pytest.approx(0.016) and metrics["time_s"] == pytest.approx(0.336, abs=0.01)
    work = metrics["time_s"] - metrics["comm_s"]
    assert metrics["cpu_s"] == pytest.approx(work, abs=0.01) and metrics["stall_s"] == pytest.approx(0, abs=1e-6)
    assert sum("CPU time" in warning for warning in ppg.run.warnings) == 1
