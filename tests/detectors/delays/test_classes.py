"""Waits of many ranks as one group: the same findings as rank by rank, and the causes that were planted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays import classes as grouping
from scalana.detectors.thresholds.limits import POOLED_WAITERS, SAMPLED_WAITERS
from scalana.graphs.arrays.hashing import _distinct, _ordered, distinct, ordered
from scalana.graphs.ppg import build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from tests.long import also
from tests.tools.generate_run import write_run
from tests.tools.job_model import Model

MODELS = {seed: Model(ranks=256, steps=40, functions=65, seed=seed) for seed in (1, 4)}
ALL = 1000
"""More than there are ranks: nobody is pooled."""
ONE_PLACE, MOVING = 0.01, 0.05
"""How far seconds of a pooled analysis may be off. Of a cause that moves from rank to rank each place has few seconds,
and whether they count is decided anew."""


def analysed(folder: Path, pooled: int, sampled: int) -> Analysis:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "POOLED_WAITERS", pooled)
        patch.setattr(grouping, "SAMPLED_WAITERS", sampled)
        return analyze(build_ppg(RunFolder(folder)))


@dataclass(frozen=True)
class Run:
    """One modelled job, and what is found with the values in force."""

    model: Model
    folder: Path
    pooled: Analysis
    exact: Analysis


@pytest.fixture(scope="module", params=[1, *also(4)], ids="seed {}".format)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run") / "run"
    write_run(folder, MODELS[request.param])
    pooled = analysed(folder, POOLED_WAITERS, SAMPLED_WAITERS)
    return Run(MODELS[request.param], folder, pooled, analysed(folder, ALL, ALL))


def places(analysis: Analysis) -> list[tuple[str, int, str]]:
    return [(finding.file, finding.line, finding.kind) for finding in analysis.findings]


@pytest.mark.slow
def test_pools_and_single_waiters_tell_the_same(run: Run):
    assert (run.exact.blame.groups.group_waiters == 1).all()
    assert run.pooled.blame.groups.group_waiters.max() > POOLED_WAITERS
    assert not run.pooled.blame.groups.sampled.all()
    assert places(run.pooled) == places(run.exact)
    for one, other in zip(run.pooled.findings[:3], run.exact.findings[:3], strict=True):
        assert one.lost_s == pytest.approx(other.lost_s, rel=ONE_PLACE if len(other.ranks) == 1 else MOVING)
    for analysis in (run.pooled, run.exact):
        assert analysis.blame.seconds.sum() == pytest.approx(analysis.waits.total_s)


@pytest.mark.slow
def test_small_pools_find_the_same(run: Run):
    small = analysed(run.folder, 12, 24)
    assert small.blame.groups.group_waiters.max() > 12
    assert places(small) == places(run.exact)
    assert small.blame.seconds.sum() == pytest.approx(small.waits.total_s)


@pytest.mark.slow
def test_planted_causes_are_on_top_with_their_seconds(run: Run):
    model = run.model
    found = {tuple(finding.ranks): finding for finding in run.pooled.findings[:3]}
    waiting = (model.ranks - 1) * model.steps * 1e-9
    assert found[(model.two_hops_rank,)].lost_s == pytest.approx(model.two_hops_ns * waiting, rel=0.15)
    assert found[(model.slow_rank,)].lost_s == pytest.approx(model.slow_rank_ns * waiting, rel=0.15)
    assert len(found[(model.two_hops_rank,)].path) == 3
    assert 0.8 * model.ranks < found[(model.slow_rank,)].path[0].ranks < model.ranks
    moving = max(found, key=len)
    assert set(moving) <= {model.moving_rank(step) for step in range(model.steps)}
    assert len(moving) > 5


@pytest.mark.parametrize("most", [10, 1000, 1 << 40])
def test_hash_tables_number_as_sorting_does(most: int):
    key = np.random.default_rng(most).integers(-5, most, 3000)
    key = np.concatenate([key, key[:1000]])
    for result, expected in zip(_distinct(key), distinct(key), strict=True):
        np.testing.assert_array_equal(result, expected)
    number = distinct(key)[2]
    np.testing.assert_array_equal(_ordered(number, int(number.max()) + 1), ordered(number, int(number.max()) + 1))
