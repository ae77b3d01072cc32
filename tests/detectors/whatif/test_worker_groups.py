"""Pools that are too slow, in records with exact times: what more workers would bring is what they bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.facts import Facts
from scalana.detectors.whatif.worker_groups import worker_groups
from tests.tools.call_run import write_pool

UNEVEN = [0.05 + 0.01 * (number % 3) for number in range(24)]


def facts_of(folder: Path) -> Facts:
    return Facts(api.analyze(folder).ppg)


@pytest.mark.parametrize("lengths", [[0.05] * 16, UNEVEN, [0.4, *[0.05] * 8]])
@pytest.mark.parametrize("times", [2, 4])
def test_more_workers_bring_what_they_bring(lengths: list[float], times: int, tmp_path: Path) -> None:
    rounds = [lengths] * 3
    ended_s = write_pool(tmp_path / "run", rounds, [1.0] * 2)
    more_s = write_pool(tmp_path / "more", rounds, [1.0] * 2 * times)
    facts = facts_of(tmp_path / "run")
    (group,) = worker_groups(facts.timeline, facts.run.names, facts.call_pools)
    assert (len(group.ranks), len(group.rounds)) == (2, 3)
    assert facts.run.names.one(group.giver) == "the main process"
    assert group.waited_s(facts.timeline) == pytest.approx(ended_s)
    assert group.busy_s().sum() == pytest.approx(3 * sum(lengths))
    measured_s, (predicted_s,) = facts.replay.run_ends_s([group.with_more(times, facts.timeline, 0)])
    assert measured_s == pytest.approx(ended_s)
    assert predicted_s == pytest.approx(more_s, rel=0.02)


def test_a_pool_that_is_too_slow_is_named_with_what_more_workers_bring(tmp_path: Path) -> None:
    write_pool(tmp_path / "run", [[0.05] * 16] * 3, [1.0] * 2, own_s=0.1)
    (finding,) = (each for each in api.analyze(tmp_path / "run").findings if each.kind == "worker-bound")
    bound = finding.evidence.worker_bound
    assert bound is not None and bound.workers == 2 and bound.predicted_workers == [4, 8]
    assert bound.step_s == pytest.approx(0.5, rel=0.01)
    assert bound.predicted_step_s == pytest.approx([0.3, 0.2], rel=0.02)


def test_one_long_task_is_not_made_shorter_by_more_workers(tmp_path: Path) -> None:
    write_pool(tmp_path / "run", [[0.4, 0.2, 0.2]] * 3, [1.0] * 2, own_s=0.1)
    assert not [each for each in api.analyze(tmp_path / "run").findings if each.kind == "worker-bound"]


def test_a_process_that_only_hands_out_work_has_not_too_few_workers(tmp_path: Path) -> None:
    write_pool(tmp_path / "run", [[0.05] * 16] * 3, [1.0] * 2)
    assert not [each for each in api.analyze(tmp_path / "run").findings if each.kind == "worker-bound"]
