"""Collections of garbage are a place of their own, and a cause of their own where ranks collect at different times."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana import api
from scalana.graphs.samples.collected import COLLECTOR, collector_vertex
from scalana.runtime.record.format import SPAN_TYPE

from .runs import MS, build, by_name, make_ranks

RANKS, STEPS = 4, 24
WORK_MS, COLLECTION_MS, CALL_MS = 20.0, 60.0, 1.0


def write(folder: Path, collects, **line) -> None:
    """A run whose ranks collect in the steps that ``collects(step, rank)`` says, while they compute in ``mask``."""
    ranks = make_ranks(folder, RANKS)
    for step in range(STEPS):
        for rank in ranks:
            if collects(step, rank.rank):
                start = rank.now
                rank.work("mask", COLLECTION_MS)
                rank.writer.span(
                    SPAN_TYPE["collection"], "gc", round(start * MS), round(COLLECTION_MS * MS),
                    path=rank.path(line.get("path", "mask")), attributes={"generation": 2, "collected": 7},
                )  # fmt: skip
            rank.work("mask", WORK_MS)
        until = max(rank.now for rank in ranks) + CALL_MS
        for rank in ranks:
            rank.call("allreduce", until, seq=step)
    for rank in ranks:
        rank.end()


def in_turn(step: int, rank: int) -> bool:
    return step % RANKS == rank


def test_time_of_collections_is_a_place_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, in_turn)
    ppg = build(tmp_path)
    seconds = by_name(ppg, "time_s")
    assert seconds[COLLECTOR] == pytest.approx([STEPS / RANKS * COLLECTION_MS / 1000] * RANKS, rel=0.05)
    assert seconds["mask"] == pytest.approx([STEPS * WORK_MS / 1000] * RANKS, rel=0.05)
    assert ppg.psg.function_of(collector_vertex(ppg.psg)) == COLLECTOR


def test_ranks_that_collect_in_turn_are_one_finding(tmp_path: Path) -> None:
    write(tmp_path, in_turn)
    report = api.analyze(tmp_path)
    (finding,) = report.findings
    assert finding.kind == "garbage-collection" and finding.ranks == [0, 1, 2, 3]
    all_s = STEPS * COLLECTION_MS / 1000
    assert finding.lost_s == pytest.approx((RANKS - 1) * all_s, rel=0.05)
    found = finding.evidence.collecting
    assert found is not None
    assert found.longest_collection_s == pytest.approx(COLLECTION_MS / 1000)
    assert found.collections == pytest.approx(STEPS / RANKS, abs=1.0), "those of start-up do not count"
    assert found.frozen_saving_s == pytest.approx(all_s, rel=0.1)
    assert found.aligned_saving_s == finding.saving_s == pytest.approx(all_s * (1 - 1 / RANKS), rel=0.1)
    text = report.to_text()
    assert "Python's garbage collector runs on all 4 ranks" in text and "gc.freeze()" in text


def test_one_rank_that_collects_more_saves_what_it_is_late(tmp_path: Path) -> None:
    write(tmp_path, lambda step, rank: rank == 2 and step % 2 == 0)
    (finding,) = api.analyze(tmp_path).findings
    assert (finding.kind, finding.ranks) == ("garbage-collection", [2])
    assert finding.saving_s == pytest.approx(STEPS / 2 * COLLECTION_MS / 1000, rel=0.1)


def test_ranks_that_collect_together_make_nobody_wait(tmp_path: Path) -> None:
    """What all of them spend in each step is a cause that they share."""
    write(tmp_path, lambda step, rank: step % RANKS == 0)
    (finding,) = api.analyze(tmp_path).findings
    assert finding.kind == "collection-bound" and finding.ranks == list(range(RANKS))


def test_a_line_that_collects_keeps_its_time(tmp_path: Path) -> None:
    source = tmp_path / "sweep.py"
    source.write_text("import gc\ngc.collect()\n", encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir()
    write(folder, in_turn, path=[(str(source), "<module>", 2)])
    assert COLLECTOR not in by_name(build(folder), "time_s")


def test_a_run_without_collections_has_no_such_place(tmp_path: Path) -> None:
    write(tmp_path, lambda step, rank: False)
    assert collector_vertex(build(tmp_path).psg) == -1
