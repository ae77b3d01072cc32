"""Calls that are made one at a time, in records with exact times."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana import api
from scalana.runtime.record.run_writer import RunWriter
from tests.tools.call_run import Process, write_pool

KIND = "one-at-a-time"


def write_turns(folder: Path, workers: int, calls: int) -> float:
    """A process that makes calls of 100 ms one at a time, which workers take in turn; returns when it ends."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0})
    main, pool = Process(run, "main process", 0), [Process(run, "worker", 1 + number) for number in range(workers)]
    for call in range(calls):
        begin_s, end_s = 0.1 * call, 0.1 * (call + 1)
        main.call("submit", 1 + call, begin_s, begin_s)
        pool[call % workers].do(1 + call, begin_s, end_s)
        main.call("result", 1 + call, begin_s, end_s)
    for process in (main, *pool):
        process.end(max(0.1 * calls if process is main else process.since_s, 0.0))
    return 0.1 * calls


@pytest.mark.parametrize("workers", [2, 4])
def test_calls_that_wait_for_each_other_are_named_with_what_all_at_once_save(workers: int, tmp_path: Path) -> None:
    ended_s = write_turns(tmp_path, workers, 24)
    first = api.analyze(tmp_path).findings[0]
    calls = first.evidence.one_at_a_time
    assert calls is not None and (first.kind, calls.calls_in_turn, calls.could_take) == (KIND, 24, workers)
    assert first.saving_s == pytest.approx(ended_s * (1.0 - 1.0 / workers), rel=0.02)


@pytest.mark.parametrize(
    ("rounds", "workers", "own_s"),
    [([[0.1]] * 24, 1, 0.0), ([[0.1, 0.1]] * 12, 2, 0.0), ([[0.1]] * 24, 2, 0.2)],
    ids=["one worker", "several at a time", "work of its own in between"],
)
def test_other_calls_are_left_alone(rounds: list[list[float]], workers: int, own_s: float, tmp_path: Path) -> None:
    write_pool(tmp_path, rounds, [1.0] * workers, own_s=own_s)
    assert KIND not in [finding.kind for finding in api.analyze(tmp_path).findings]
