"""Waits of many ranks as one group: the same findings as rank by rank, and the causes that were planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import analyze, grouping
from scalana.detectors.findings import Analysis
from scalana.graphs.hashing import _distinct, _ordered, distinct, ordered
from scalana.graphs.ppg import build_ppg
from scalana.runtime.record_format import RunFolder
from tests.tools.generate_run import write_run
from tests.tools.job_model import Model

MODEL = Model(ranks=256, steps=40, functions=65)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run"
    write_run(path, MODEL)
    return path


def analysed(folder: Path, monkeypatch: pytest.MonkeyPatch, pooled: int, sampled: int) -> Analysis:
    monkeypatch.setattr(grouping, "POOLED", pooled)
    monkeypatch.setattr(grouping, "SAMPLED", sampled)
    return analyze(build_ppg(RunFolder(folder)))


def test_pools_and_single_waiters_tell_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch):
    exact = analysed(folder, monkeypatch, 1000, 1000)
    pooled = analysed(folder, monkeypatch, 12, 24)
    assert (exact.blame.groups.group_waiters == 1).all()
    assert pooled.blame.groups.group_waiters.max() > 12
    assert not pooled.blame.groups.sampled.all()
    assert [(f.file, f.line, f.kind) for f in pooled.findings] == [(f.file, f.line, f.kind) for f in exact.findings]
    for one, other in zip(pooled.findings[:3], exact.findings[:3], strict=True):
        assert one.lost_s == pytest.approx(other.lost_s, rel=0.02)
    assert pooled.blame.seconds.sum() == pytest.approx(pooled.waits.total_s)
    assert exact.blame.seconds.sum() == pytest.approx(exact.waits.total_s)


def test_planted_causes_are_on_top_with_their_seconds(folder: Path, monkeypatch: pytest.MonkeyPatch):
    findings = analysed(folder, monkeypatch, grouping.POOLED, grouping.SAMPLED).findings
    found = {tuple(finding.ranks): finding for finding in findings[:3]}
    waiting = (MODEL.ranks - 1) * MODEL.steps * 1e-9
    assert found[(MODEL.two_hops_rank,)].lost_s == pytest.approx(MODEL.two_hops_ns * waiting, rel=0.15)
    assert found[(MODEL.slow_rank,)].lost_s == pytest.approx(MODEL.slow_rank_ns * waiting, rel=0.15)
    assert len(found[(MODEL.two_hops_rank,)].path) == 3
    moving = max(found, key=len)
    assert set(moving) <= {MODEL.moving_rank(step) for step in range(MODEL.steps)}
    assert len(moving) > 5


@pytest.mark.parametrize("most", [10, 1000, 1 << 40])
def test_hash_tables_number_as_sorting_does(most: int):
    key = np.random.default_rng(most).integers(-5, most, 3000)
    key = np.concatenate([key, key[:1000]])
    for result, expected in zip(_distinct(key), distinct(key), strict=True):
        np.testing.assert_array_equal(result, expected)
    number = distinct(key)[2]
    np.testing.assert_array_equal(_ordered(number, int(number.max()) + 1), ordered(number, int(number.max()) + 1))
