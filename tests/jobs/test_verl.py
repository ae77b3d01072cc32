"""A whole job of verl, as its users start it: what its report says of three causes that are planted in some steps."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from scalana.runtime.operations import BY_NAME
from tests.needs import torch_or_skip
from tests.tools import verl_job

pytestmark = pytest.mark.slow

torch_or_skip()

STEPS, ANSWERS = 5, 8
LONG_IN, SLOW_IN, SLOW_S, TRAINER_S = [1, 3], [2, 4], 0.8, 0.15
"""Steps with a long answer, and with slow rewards, and what one of these, and a forward pass of the slow trainer, takes
longer: as the programs have it."""
PASSES = 3
"""Forward passes in a step: of two parts of a batch to train, and one for log-probabilities."""

if not verl_job.is_installed():
    pytest.skip("verl is not installed: make verl", allow_module_level=True)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[api.Report, str]:
    folder = tmp_path_factory.mktemp("verl")
    stdout = verl_job.record(folder, STEPS, "long rewards trainer")
    return api.analyze(os.fspath(folder / "run")), stdout


@pytest.fixture(scope="module")
def report(job: tuple[api.Report, str]) -> api.Report:
    return job[0]


def told(stdout: str, metric: str) -> list[float]:
    """What verl itself prints of every step."""
    return [float(number) for number in re.findall(rf"{metric}:([-\d.e]+)", stdout)]


def account_of(report: api.Report) -> RLAccount:
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    return account


def test_processes_are_known_by_what_they_do(report: api.Report) -> None:
    names = report.ppg.run.names
    assert {role: names.many(ranks) for role, ranks in account_of(report).roles.items()} == {
        "driver": "the TaskRunner",
        "rollout": "the AgentLoopWorker and server 0, 1",
        "trainer": "WorkerDict 0, 1",
        "verifier": "reward_loop_worker 0",
    }


def test_phases_and_lengths_are_those_of_verl(job: tuple[api.Report, str]) -> None:
    report, stdout = job
    spans = report.ppg.spans
    phases = {spans.names[name] for name in spans.table.name[spans.rows("phase")].tolist()}
    assert phases >= {"step", "gen", "old_log_prob", "adv", "update_actor", "update_weights"}  # the driver's
    assert phases >= {"generate_sequences", "compute_score", "eval_batch", "train_batch"}
    rows = spans.rows("trajectory")
    rows = rows[np.argsort(spans.start_s(rows), kind="stable")]
    tokens = spans.integers("tokens")[rows].reshape(STEPS, ANSWERS)
    assert tokens.mean(axis=1) == pytest.approx(told(stdout, "response_length/mean"))
    assert tokens.max(axis=1) == pytest.approx(told(stdout, "response_length/max"))


def test_process_time_adds_up_and_each_cause_has_its_process(report: api.Report) -> None:
    account, names = account_of(report), report.ppg.run.names
    assert len(account.step_s) == STEPS and sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert account.framework == "verl" and np.isfinite(account.floor_s)
    awaited = {key: names.many([int(rank)]) for key, rank in zip(account.keys, account.worst, strict=True) if rank >= 0}
    assert awaited["verifier"] == "reward_loop_worker 0"
    found = {finding.kind: finding for finding in report.findings}
    assert names.many(found["rl-verifier"].ranks).endswith("reward_loop_worker 0")
    # Two long answers of one server, which no assignment would shorten; and one trainer that is slow all the time.
    assert awaited["long-tail"] == "server 1" and "rl-long-tail" in found
    assert names.many(found["rl-slow-hardware"].ranks) == "WorkerDict 1"


def test_savings_are_what_was_planted(report: api.Report) -> None:
    """Rewards are slow in as many rounds as the reward worker has threads for; the long answers outlast all others; and
    the trainers meet in each forward pass, before which one of them sleeps."""
    spans, found = report.ppg.spans, {finding.kind: finding for finding in report.findings}
    threads = min(32, (os.cpu_count() or 1) + 4)  # of asyncio
    slow_s = len(SLOW_IN) * -(-ANSWERS // threads) * SLOW_S
    assert found["rl-verifier"].saving_s == pytest.approx(slow_s, rel=0.15)
    rows = spans.rows("trajectory")
    ends = spans.end_s(rows[np.argsort(spans.start_s(rows), kind="stable")]).reshape(STEPS, ANSWERS)
    last = np.sort(ends, axis=1)[LONG_IN, -2:]
    assert found["rl-slow-hardware"].saving_s == pytest.approx(STEPS * PASSES * TRAINER_S, rel=0.15)
    assert found["rl-long-tail"].saving_s == pytest.approx(float((last[:, 1] - last[:, 0]).sum()), rel=0.15)


def test_a_job_by_the_queue_of_verl_is_told_like_others(tmp_path: Path) -> None:
    """Its trainer asks the queue every other second, which no setting changes, so that a delay that ends before it asks
    costs nothing: what is promised is not compared."""
    verl_job.record(tmp_path, STEPS, "long rewards trainer", *verl_job.BY_QUEUE)
    report = api.analyze(os.fspath(tmp_path / "run"))
    account, names, timeline = account_of(report), report.ppg.run.names, report.ppg.timeline
    assert {role: names.many(ranks) for role, ranks in account.roles.items()} == {
        "driver": "the TaskRunnerV1",
        "rollout": "the AgentLoopWorkerTQ and server 0, 1",
        "trainer": "WorkerDict 0, 1",
        "verifier": "reward_loop_worker 0",
    }
    assert len(account.step_s) == STEPS and sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    awaited = {key: names.many([int(rank)]) for key, rank in zip(account.keys, account.worst, strict=True) if rank >= 0}
    assert awaited["verifier"] == "reward_loop_worker 0" and awaited["slow-hardware"] == "WorkerDict 1"
    assert not [warning for warning in report.ppg.run.warnings if "incomplete" in warning]
    # What is received over ZeroMQ was sent by a process that is known: all but what was under way at the end.
    received = timeline.calls.operation == BY_NAME["get"].code
    assert received.sum() > 300 and (np.diff(timeline.calls.wait_first) > 0)[received].mean() > 0.95
