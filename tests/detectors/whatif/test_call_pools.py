"""Pools of processes that are called, in records with exact times: what other orders bring is what they bring."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana import api
from scalana.detectors.evidence import PoolOrder
from scalana.detectors.facts import Facts
from scalana.detectors.late_ranks.advice import advise_order
from scalana.detectors.slow_workers.detector import detect
from scalana.detectors.whatif.replay import Change
from scalana.runtime.record.run_writer import RunWriter
from tests.tools.call_run import Process, write_pool

LONG_LAST = [0.03] * 40 + [0.5] * 3
WORKERS = 4


def facts_of(folder: Path) -> Facts:
    return Facts(api.analyze(folder).ppg)


def test_orders_bring_what_they_bring_where_they_are_followed(tmp_path: Path) -> None:
    rounds = [LONG_LAST, LONG_LAST]
    ended_s = write_pool(tmp_path / "run", rounds, [1.0] * WORKERS)
    facts = facts_of(tmp_path / "run")
    (pool,) = facts.call_pools
    assert len(pool.workers) == WORKERS and len(pool.rounds) == 2 and pool.knows_ahead and pool.error < 0.01
    first_s = write_pool(tmp_path / "first", [sorted(each, reverse=True) for each in rounds], [1.0] * WORKERS)
    halves_s = write_pool(tmp_path / "halves", [np.repeat(np.array(each) / 2, 2) for each in rounds], [1.0] * WORKERS)
    lengths = [each.tasks.end_s - each.tasks.begin_s for each in pool.rounds]
    assert np.concatenate(lengths) == pytest.approx(LONG_LAST * 2)
    saved_s = pool.saved_s(facts.timeline, lambda tasks: tasks.end_s - tasks.begin_s, longest_first=True)
    assert saved_s == pytest.approx(ended_s - first_s, rel=0.02) and saved_s > 0.1 * ended_s
    saved_s = pool.saved_s(facts.timeline, lambda tasks: np.repeat((tasks.end_s - tasks.begin_s) / 2, 2))
    assert saved_s == pytest.approx(ended_s - halves_s, rel=0.02)


@pytest.mark.parametrize("slow", [1, 2])
def test_slow_workers_cost_what_the_pool_takes_longer(slow: int, tmp_path: Path) -> None:
    """Two of four, too: they do fewer tasks, so that a usual one is done by the others."""
    pace = [3.0] * slow + [1.0] * (WORKERS - slow)
    ended_s = write_pool(tmp_path / "run", [[0.03] * 50] * 4, pace)
    mended_s = write_pool(tmp_path / "mended", [[0.03] * 50] * 4, [1.0] * WORKERS)
    facts = facts_of(tmp_path / "run")
    (finding,) = detect(facts.task_farms, facts.blamed)
    names = facts.run.names
    assert names.many(finding.ranks) == ("worker 0" if slow == 1 else "worker 0, 1")
    assert finding.saving_s == pytest.approx(ended_s - mended_s, rel=0.05)


def test_processes_with_calls_of_their_own_are_no_pool(tmp_path: Path) -> None:
    """One has longer ones, and others idle while calls for it are there."""
    lengths = [0.2 if number % WORKERS == 1 else 0.03 for number in range(5 * WORKERS)]
    write_pool(tmp_path / "run", [lengths], [1.0] * WORKERS, to=[number % WORKERS for number in range(len(lengths))])
    facts = facts_of(tmp_path / "run")
    assert facts.call_pools == []
    assert detect(facts.task_farms, facts.blamed) == []


def test_advice_says_what_pays() -> None:
    pool = PoolOrder(workers=4, tasks=86, error=0.01, longest_first_s=0.51, halves_s=0.4)
    both = advise_order(pool)
    assert "the longest first" in both and "0.51 s" in both and "0.4 s" in both
    assert "smaller pieces" not in advise_order(replace(pool, halves_s=0.0))
    assert "in any order" in advise_order(replace(pool, longest_first_s=0.0))


def test_a_run_whose_processes_are_all_ended_by_others_ends_with_their_last_call(tmp_path: Path) -> None:
    """What comes behind it is as long whatever is mended, and no process holds on for another that idles."""
    run = RunWriter(tmp_path / "run", {"command": ["modelled"], "exit_code": 0})
    slow, waits, idles = (Process(run, "worker", number) for number in range(3))
    for call, process in enumerate((slow, waits, idles), 1):
        process.call("take", call, 0.0, 0.0)
    slow.call("reply", 1, 1.0, 1.0)
    waits.call("result", 1, 0.1, 1.0)
    waits.call("reply", 2, 1.2, 1.2)
    idles.call("reply", 3, 0.3, 0.3)
    for process in (slow, waits, idles):
        process.end(5.0)
    replay = facts_of(tmp_path / "run").replay
    calls = replay.timeline.calls
    removed_s = np.zeros(len(calls) + len(replay.timeline.locations))
    # The burst before the first reply at one second.
    removed_s[np.flatnonzero((calls.enter_s == 1.0) & (calls.exit_s == 1.0))[0]] = 0.5
    ended_s, (mended_s,) = replay.run_ends_s([Change.of(removed_s)])
    assert ended_s == pytest.approx(1.2) and mended_s == pytest.approx(0.7)
