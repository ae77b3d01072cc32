"""Exports: read back as their viewers would, with the sums of the report."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalana
from scalana.commands.export import NAMES
from scalana.detectors.analysis import Analysis
from scalana.export.chrome import layers
from scalana.export.registry import FORMATS
from scalana.export.speedscope import BLAMED
from scalana.runtime.record.format import LANE_SLOT, SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from tests.scalana.command import command
from tests.scalana.recorded import PREPARE_LINE, REDUCE_LINE, STEPS, write_run

Json = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("recorded")
    write_run(base / "run", base / "job", (10, 50, 20))
    return base / "run"


@pytest.fixture(scope="module")
def analysis(folder: Path) -> Analysis:
    return scalana.analyze(folder).analysis


def written(analysis: Analysis, name: str) -> Json:
    made: Json = json.loads("".join(FORMATS[name].pieces(analysis)))
    return made


def slices(trace: Json, kind: str) -> list[Json]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] == kind]


def assert_nested(trace: Json) -> None:
    """On every lane a slice lies beside another, inside it or around it: viewers drop what overlaps else."""
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append((round(1e3 * event["ts"]), -round(1e3 * event["dur"])))
    assert lanes
    for found in lanes.values():
        ends: list[float] = []
        for begin, length in sorted(found):
            while ends and ends[-1] <= begin:
                ends.pop()
            assert not ends or begin - length <= ends[-1]
            ends.append(begin - length)


def test_chrome_has_the_seconds_of_the_report(analysis: Analysis) -> None:
    trace = written(analysis, "chrome")
    seconds = {kind: sum(event["dur"] for event in slices(trace, kind)) / 1e6 for kind in ("work", "call", "wait")}
    time = analysis.time
    assert seconds["wait"] == pytest.approx(time.wait_s) and seconds["wait"] == pytest.approx(STEPS * 0.070)
    assert seconds["call"] == pytest.approx(time.wait_s + time.transfer_s)
    assert seconds["work"] == pytest.approx(time.work_s + time.stall_s)
    assert sum(event["args"]["seconds"] for event in slices(trace, "work")) == pytest.approx(seconds["work"])
    assert_nested(trace)


def test_chrome_names_ranks_lanes_and_places(analysis: Analysis) -> None:
    trace = written(analysis, "chrome")
    named = {
        (event["name"], event["pid"], event["tid"]): event["args"]
        for event in trace["traceEvents"]
        if event["ph"] == "M"
    }
    assert [named["process_name", rank, 0]["name"] for rank in range(3)] == ["rank 0", "rank 1", "rank 2"]
    assert [rank for rank in range(3) if ("process_labels", rank, 0) in named] == [1]
    for event in trace["traceEvents"]:
        assert event["ph"] == "M" or ("thread_name", event["pid"], event["tid"]) in named
    assert {event["args"]["place"] for event in slices(trace, "call")} == {f"job.py:{REDUCE_LINE}"}
    assert {event["name"] for event in slices(trace, "work")} == {"prepare"}
    assert list(slices(trace, "work")[0]["args"]["places"]) == [f"job.py:{PREPARE_LINE}"]
    assert trace["otherData"]["findings"][0].startswith(f"job.py:{PREPARE_LINE} prepare: Rank 1 spends")


def test_chrome_has_an_arrow_from_every_wait_to_who_is_awaited(analysis: Analysis) -> None:
    trace = written(analysis, "chrome")
    waits = slices(trace, "wait")
    begins = {event["id"]: event for event in trace["traceEvents"] if event["ph"] == "s"}
    ends = {event["id"]: event for event in trace["traceEvents"] if event["ph"] == "f"}
    assert len(begins) == len(waits) == 2 * STEPS and begins.keys() == ends.keys()
    calls = {(event["pid"], event["ts"]) for event in slices(trace, "call")}
    for number, event in ends.items():
        assert event["pid"] == 1 and (1, event["ts"]) in calls and event["ts"] >= begins[number]["ts"]
    assert {event["name"] for event in waits} == {"waits for rank 1"}


def test_chrome_puts_spans_that_overlap_onto_lanes_of_their_own(tmp_path: Path) -> None:
    ms = 1_000_000
    run = RunWriter(tmp_path / "run", {"command": ["job"], "cwd": str(tmp_path), "seconds": 0.1})
    record = run.process("host", rank=0, world_size=1, start_ns=0)
    record.thread(0, 1)
    slot = record.lane(LANE_SLOT, "slot")
    for begin, end in ((10, 40), (12, 20), (30, 60), (61, 70)):
        record.span(SPAN_TYPE["trajectory"], f"of {begin}", begin * ms, (end - begin) * ms, lane=slot)
    record.end(100 * ms)
    record.close()
    trace = written(scalana.analyze(tmp_path / "run").analysis, "chrome")
    assert_nested(trace)
    spans = slices(trace, "trajectory")
    assert sorted(event["name"] for event in spans) == ["of 10", "of 12", "of 30", "of 61"]
    assert len({event["tid"] for event in spans}) == 2


def test_speedscope_has_the_seconds_of_the_report(analysis: Analysis) -> None:
    found = written(analysis, "speedscope")
    blamed, *ranks = found["profiles"]
    assert [profile["name"] for profile in ranks] == ["rank 0", "rank 1", "rank 2"]
    recorded = analysis.ppg.metrics["time_s"].sum(axis=0)
    for profile, seconds in zip(ranks, recorded, strict=True):
        assert profile["endValue"] == pytest.approx(seconds, abs=1e-4) == pytest.approx(sum(profile["weights"]))
    assert blamed["name"] == BLAMED
    assert sum(blamed["weights"]) == pytest.approx(analysis.time.wait_s, abs=1e-4)
    frames = found["shared"]["frames"]
    for profile in found["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert np.max([number for stack in profile["samples"] for number in stack]) < len(frames)
    top, *_, leaf = (frames[number] for number in blamed["samples"][0])
    assert top == {"name": "rank 1"}
    assert (leaf["file"], leaf["line"]) == ("job.py", PREPARE_LINE)


def test_hatchet_has_a_row_a_vertex_and_rank(analysis: Analysis) -> None:
    found = written(analysis, "hatchet")
    (graph,), rows = found["graph"], found["dataframe"]
    assert found["dataframe_indices"] == ["node", "rank"]
    columns = ["node", "rank", *found["exclusive_metrics"], *found["inclusive_metrics"]]
    assert set(columns) <= set(rows) and {len(values) for values in rows.values()} == {3 * len(graph)}
    assert sorted(set(rows["node"])) == sorted(map(int, graph)) and set(rows["rank"]) == {0, 1, 2}
    time, waiting = np.array(rows["time"]), np.array(rows["waiting"])
    rank, node = np.array(rows["rank"]), np.array(rows["node"])
    recorded = analysis.ppg.metrics["time_s"].sum(axis=0)
    assert [time[rank == one].sum() for one in range(3)] == pytest.approx(recorded, abs=1e-4)
    assert waiting.sum() == pytest.approx(analysis.time.wait_s, abs=1e-4)
    assert np.array(rows["time (inc)"])[node == 0] == pytest.approx(recorded, abs=1e-4)
    above = [child for entry in graph.values() for child in entry["children"]]
    assert sorted([0, *above]) == sorted(map(int, graph))
    assert {entry["data"]["name"] for entry in graph.values()} >= {"main", "prepare", "dist.all_reduce"}


@pytest.mark.parametrize("name", FORMATS)
def test_command_writes_the_same_plain_and_compressed(folder: Path, tmp_path: Path, name: str) -> None:
    plain, packed, again = tmp_path / "run.json", tmp_path / "run.json.gz", tmp_path / "again.json.gz"
    for target in (plain, packed, again):
        result = command("export", folder, "--to", name, "-o", target)
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    assert json.loads(command("export", folder, "--to", name).stdout) == json.loads(plain.read_bytes())


def test_what_cannot_be_exported(folder: Path, tmp_path: Path) -> None:
    missing = command("export", tmp_path / "none", "--to", "chrome")
    assert missing.returncode == 1 and "no such folder" in missing.stderr
    nowhere = command("export", folder, "--to", "chrome", "-o", tmp_path / "no" / "where")
    assert nowhere.returncode == 1 and "cannot write" in nowhere.stderr
    assert command("export", folder, "--to", "paper").returncode == 2
    assert command("export", folder).returncode == 2


def test_the_command_line_knows_every_format() -> None:
    assert tuple(FORMATS) == NAMES


def test_layers_of_slices() -> None:
    assert layers([0, 0, 2, 4], [4, 2, 4, 5]) == [0, 0, 0, 0]
    assert layers([0, 1, 2], [3, 4, 5]) == [0, 1, 2]
    assert layers([], []) == []
