"""A run of which a sample of the calls was written tells the same as one of which all were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_COMPLETION, EVENT_POST, THREAD_MAIN, THREAD_NATIVE
from scalana.runtime.record.writer import RecordWriter
from tests.tools.thin_run import thin_run

RANKS, ROUNDS, LATE = 4, 4000, 1
PERIOD_NS = 200_000
"""Of the samples: many of them, for a run of a fifth of a second."""
WORK, EXTRA, SEND, RECEIVE, WAIT, SUM = range(1, 7)
"""Call paths, each a line of the program."""


def _write_run(folder: Path) -> None:
    """Rounds of work, a message around a ring, and a sum; one rank has more to do in a function of its own."""
    (folder / "records").mkdir(parents=True)
    rng = np.random.default_rng(1)
    now = np.full(RANKS, 1_000_000_000)
    writers = [RecordWriter(folder / "records" / f"host-{rank}-0.rec") for rank in range(RANKS)]
    thinned_calls: list[list[tuple[int, int]]] = [[] for _ in range(RANKS)]  # since when at which path
    for rank, writer in enumerate(writers):
        for key, value in (("rank", rank), ("world_size", RANKS), ("role", "rank"), ("start_ns", 1_000_000_000)):
            writer.meta(key, str(value))
        writer.meta("rate_hz", str(1e9 / PERIOD_NS))
        writer.code(1, "/job/program.c", "main")
        writer.code(2, "/job/program.c", "extra", 100)
        for path in (WORK, EXTRA, SEND, RECEIVE, WAIT, SUM):
            writer.call_path(path, 0, 2 if path == EXTRA else 1, 10 * path)
        writer.thread(0, 100 + rank, "main", THREAD_MAIN | THREAD_NATIVE)
        writer.group(1, "world", rank, range(RANKS))
    ends = [0] * RANKS

    def call(rank: int, path: int, name: str, leave: int, **more: int) -> None:
        ends[rank] += 2
        enter = int(now[rank])
        operation = BY_NAME[name].code
        writers[rank].event(
            ends[rank], operation, enter, leave - enter, group=1, path=path, cpu_enter_ns=enter, cpu_ns=leave - enter,
            **more,
        )  # fmt: skip
        thinned_calls[rank].append((enter, path))
        now[rank] = leave

    for turn in range(ROUNDS):
        works = rng.integers(8_000, 12_000, RANKS)
        for rank in range(RANKS):
            thinned_calls[rank].append((int(now[rank]), WORK))
            now[rank] += works[rank]
            if rank == LATE:
                thinned_calls[rank].append((int(now[rank]), EXTRA))
                now[rank] += 25_000
        for rank in range(RANKS):
            left, right = (rank - 1) % RANKS, (rank + 1) % RANKS
            call(rank, RECEIVE, "recv", int(now[rank]) + 300, peer=left, tag=7, seq=turn, flags=EVENT_POST)
            call(rank, SEND, "blocking_send", int(now[rank]) + 500, peer=right, tag=7, seq=turn)
        sent = now.copy()
        for rank in range(RANKS):
            post = ends[rank] - 2
            leave = max(int(now[rank]), int(sent[rank - 1])) + 400
            call(rank, WAIT, "wait", leave, flags=EVENT_COMPLETION | 1, completes=post)
        leave = int(now.max()) + 1000
        for rank in range(RANKS):
            call(rank, SUM, "allreduce", leave + 10 * rank, seq=turn)
    for rank, writer in enumerate(writers):
        since = np.array([time for time, _ in thinned_calls[rank]])
        for time in range(int(since[0]) + 1000 * rank, int(now[rank]), PERIOD_NS):
            writer.sample(
                0, time, thinned_calls[rank][int(np.searchsorted(since, time, "right")) - 1][1], PERIOD_NS // 1000
            )
        writer.end(int(now[rank]))
        writer.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, Analysis]:
    folder = tmp_path_factory.mktemp("runs")
    _write_run(folder / "all")
    thin_run(folder / "all", folder / "some", 3)
    whole, thinned = (analyze(build_ppg(RunFolder(folder / name))) for name in ("all", "some"))
    return whole, thinned


def test_a_sample_of_the_calls_is_left(runs: tuple[Analysis, Analysis]) -> None:
    whole, thinned = (analysis.ppg.timeline for analysis in runs)
    assert 0.09 < len(thinned.calls) / len(whole.calls) < 0.16
    assert whole.unwritten is None
    assert thinned.unwritten is not None
    assert runs[1].ppg.run.thinned_ranks == [0, 1, 2, 3]


def test_time_divides_as_if_all_calls_were_there(runs: tuple[Analysis, Analysis]) -> None:
    whole, thinned = (analysis.time for analysis in runs)
    assert thinned.work_s == pytest.approx(whole.work_s, rel=0.01)
    assert thinned.wait_s == pytest.approx(whole.wait_s, rel=0.1)
    assert thinned.wait_s + thinned.transfer_s == pytest.approx(whole.wait_s + whole.transfer_s, rel=0.01)


def test_seconds_of_places_agree(runs: tuple[Analysis, Analysis]) -> None:
    whole, thinned = (analysis.ppg for analysis in runs)
    names = [(vertex.kind, vertex.place.name, vertex.place.line) for vertex in whole.psg.vertices]
    assert names == [(vertex.kind, vertex.place.name, vertex.place.line) for vertex in thinned.psg.vertices]
    for metric in ("calls", "comm_s"):
        assert thinned.metrics[metric] == pytest.approx(whole.metrics[metric], rel=0.01, abs=1e-6)
    for metric, tolerance in (("time_s", 0.1), ("cpu_s", 0.1), ("wait_s", 0.15)):
        large = whole.metrics[metric] > 0.05 * whole.metrics[metric].max()
        assert thinned.metrics[metric][large] == pytest.approx(whole.metrics[metric][large], rel=tolerance)
    locations = thinned.timeline.locations
    assert thinned.metrics["time_s"].sum(axis=0) == pytest.approx(locations.end_s - locations.start_s)


def test_the_cause_is_the_same(runs: tuple[Analysis, Analysis]) -> None:
    whole, thinned = (analysis.findings[0] for analysis in runs)
    assert (whole.function, whole.ranks) == (thinned.function, thinned.ranks) == ("extra", [LATE])
    assert thinned.lost_s == pytest.approx(whole.lost_s, rel=0.1)
    assert thinned.saving_s == pytest.approx(whole.saving_s, rel=0.15)
