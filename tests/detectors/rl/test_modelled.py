"""The planted causes again, in records that are written rather than recorded: exact, fast, and of any size."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana import api
from scalana.detectors.annotate.advice import GROWS
from scalana.detectors.rl.account import RLAccount
from scalana.report.findings.over_steps import trend
from scalana.report.topics.rl import slower
from scalana.runtime.record.format import SPAN_TYPE

from ...tools import rl_run
from ...tools.rl_job import Plan
from . import jobs
from .jobs import Recorded

CASES = jobs.cases()


def modelled(plan: Plan, folder: Path) -> Recorded:
    rl_run.write(plan, folder)
    return Recorded(folder, plan)


@pytest.mark.parametrize("name", CASES)
def test_planted_causes_are_found(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    run, mended = modelled(case.plan, tmp_path / "run"), modelled(case.mended, tmp_path / "mended")
    assert jobs.problems_of(case, run, mended, 0.05) == []
    assert sum(run.account.shares.values()) == pytest.approx(1.0, abs=1e-6)
    expected = np.mean([case.plan.step_s(step) for step in range(jobs.STEPS)])
    assert run.step_s == pytest.approx(float(expected), abs=0.01)


def test_an_even_loop_gets_no_blame(tmp_path: Path) -> None:
    assert modelled(jobs.plan(data_s=0.0, sync_s=0.0), tmp_path / "run").findings == []


def test_many_processes_with_lengths_as_they_are(tmp_path: Path) -> None:
    """32 processes, lengths with a long tail, one that is slow: what each share must be follows from the plan."""
    ranks, steps = 32, 5
    rng = np.random.default_rng(3)
    lengths = np.clip(rng.lognormal(5.0, 0.7, (steps, ranks, 16)), 5, 4000).astype(int).tolist()
    slow = [1.8 if rank == 7 else 1.0 for rank in range(ranks)]
    plan = Plan(
        lengths, slow=slow, data_s=0.0, sync_s=0.0, train_tokens=[[sum(row) for row in part] for part in lengths]
    )
    run = modelled(plan, tmp_path / "run")
    shares, total_s = run.account.shares, run.account.total_s
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)
    ends = np.array([[max(plan.finish_s(step, rank)) for rank in range(ranks)] for step in range(steps)])
    trains = np.array([[plan.train_of(step, rank) for rank in range(ranks)] for step in range(steps)])
    idle = [(made.max(axis=1)[:, None] - made).sum() for made in (ends, trains)]
    assert (shares["generation"] + shares["under-batched"]) * total_s == pytest.approx(ends.sum(), rel=0.01)
    assert shares["training"] * total_s == pytest.approx(trains.sum(), rel=0.01)
    waiting = ("long-tail", "assignment", "training-imbalance", "slow-hardware", "other")
    assert sum(shares[key] for key in waiting) * total_s == pytest.approx(sum(idle), rel=0.02)
    assert shares["other"] < 0.01 and shares["slow-hardware"] > 0.02
    factor = [row for row in run.findings if row.kind == "rl-slow-hardware"]
    assert factor and factor[0].ranks == [7] and factor[0].evidence.as_dict()["times"] == "1.80"
    assert all(each.error < 0.02 for each in run.account.what_if)


@pytest.mark.parametrize("told", [True, False])
def test_a_process_that_is_slower_in_some_work_than_in_other(told: bool, tmp_path: Path) -> None:
    """Rank 3 takes 1.5 times as long to train and 4 times as long for log-probabilities; those that tell no tokens
    are of what it trains on."""
    usual = jobs.plan(log_prob_s=lambda step, rank: 0.1 + 0.02 * step, log_prob_tokens=told)
    slow = {"training": [1.0, 1.0, 1.0, 1.5], "log-prob": [1.0, 1.0, 1.0, 4.0]}
    run, mended = modelled(replace(usual, slow_in=slow), tmp_path / "run"), modelled(usual, tmp_path / "mended")
    first = run.findings[0]
    assert first.kind == "rl-slow-hardware" and first.ranks == [3]
    assert first.evidence.as_dict()["times_by_phase"] == "log-prob 4.00, training 1.50"
    told_slow = [(each.rank, each.phase, round(each.times, 2)) for each in run.account.slow]
    assert told_slow == [(3, "log-prob", 4.0), (3, "training", 1.5)]
    names = run.report.ppg.run.names
    assert slower(run.account.slow[1], names) == "Rank 3 takes 1.5 times as long as others for the same training."
    predicted = {each.change: each.step_s for each in run.account.what_if}
    assert predicted["no-slow-process"] == pytest.approx(mended.step_s, rel=0.01)
    assert first.saving_s == pytest.approx(jobs.STEPS * (run.step_s - mended.step_s), rel=0.01)


def test_a_process_that_is_slow_in_a_part_of_training(tmp_path: Path) -> None:
    """All meet behind the forward pass, in which alone rank 3 is slow: what mending it saves is saved there."""
    slow = jobs.plan(passes_s=lambda step, rank: 0.3 if rank == 3 else 0.1, log_prob_s=[])
    usual = replace(slow, passes_s=jobs.table(lambda step, rank: 0.1))
    run, mended = modelled(slow, tmp_path / "run"), modelled(usual, tmp_path / "mended")
    assert [(each.kind, each.ranks) for each in run.findings] == [("rl-slow-hardware", [3])]
    predicted = {each.change: each.step_s for each in run.account.what_if}
    assert predicted["no-slow-process"] == pytest.approx(mended.step_s, rel=0.01)


def test_a_process_that_is_slow_in_log_probabilities_alone(tmp_path: Path) -> None:
    """It is slow for the same work where that is told; else it is only late."""
    lags = {"log-prob": [1.0, 1.0, 3.0, 1.0]}
    found_in = {
        told: modelled(jobs.plan(slow_in=lags, log_prob_tokens=told), tmp_path / str(told)).findings
        for told in (True, False)
    }
    named = {told: [each.kind for each in found if each.kind.startswith("rl-")] for told, found in found_in.items()}
    assert named == {True: ["rl-slow-hardware"], False: []}


def test_lengths_guessed_by_prompts(tmp_path: Path) -> None:
    """All answers to one prompt are long, and one process has them: an assignment by what is known of prompts is as
    good as one by lengths."""
    groups = jobs.table(lambda step, rank: [rank] * (8 if rank == 1 else 2))
    lengths = jobs.table(lambda step, rank: [100] * 8 if rank == 1 else [40] * 2)
    heavy = replace(jobs.plan(lengths=lengths, groups=groups), sequence_s=0.001)
    run = modelled(heavy, tmp_path / "run")
    mended = replace(heavy, lengths=jobs.table(lambda step, rank: [100, 100, 40, 40]), groups=None)
    expected = float(np.mean([mended.step_s(step) for step in range(jobs.STEPS)]))
    predicted = {each.change: each.step_s for each in run.account.what_if}
    assert predicted["expected-first"] == pytest.approx(expected, rel=0.03)
    assert predicted["balance"] == pytest.approx(expected, rel=0.03)
    assert expected < 0.9 * run.step_s


def test_the_section_of_some_steps(tmp_path: Path) -> None:
    case = CASES["tail"]
    rl_run.write(case.plan, tmp_path / "run")
    for first, last in ((1, 2), (2, 2)):
        report = api.analyze(tmp_path / "run", steps=(first, last))
        account = report.analysis.sections["rl"]
        assert isinstance(account, RLAccount)
        steps = last - first + 1
        assert account.first_step == first and len(account.step_s) == steps
        assert sum(account.shares.values()) == pytest.approx(1.0, abs=1e-6)
        waited = (account.shares["long-tail"] + account.shares["assignment"]) * account.total_s
        assert waited == pytest.approx(case.lost_s * steps / jobs.STEPS, rel=0.05)
        assert account.step_s.mean() == pytest.approx(case.plan.step_s(first), rel=0.05)
        document = json.loads(report.to_json())["rl"]
        assert [each["step"] for each in document["by_step"]] == list(range(first, last + 1))
        assert report.findings[0].kind == "rl-long-tail" and report.findings[0].ranks == list(
            range(first + 1, last + 2)
        )


def test_processes_without_a_rollout_have_no_section(tmp_path: Path) -> None:
    """Phases of training alone, as a job that is no reinforcement learning may name them, and no trajectories."""
    run = modelled(Plan([[[10], [10]]]), tmp_path / "run")
    assert "rl" in run.report.analysis.sections  # the check itself sees one
    spans = run.report.ppg.spans
    spans.table.names[spans.number("rollout")] = "evaluation"
    spans.table.type[spans.rows("trajectory")] = SPAN_TYPE["region"]
    from scalana.detectors.facts import Facts
    from scalana.detectors.rl.detector import RLStragglers

    outcome = RLStragglers().detect(Facts(run.report.ppg))
    assert outcome.sections == {} and outcome.verdicts == []


def test_a_verifier_that_takes_longer_from_step_to_step_is_told_so(tmp_path: Path) -> None:
    steps, slow_s, more_s = 30, 0.1, 0.02

    def loop(verifier_s: float, more_s: float = 0.0) -> Plan:
        def table(of: Callable[[int, int], Any]) -> list[list[Any]]:
            return [[of(step, rank) for rank in range(jobs.RANKS)] for step in range(steps)]

        usual = jobs.plan(verifier_s=table(lambda step, rank: 0.03 + (rank == 2) * (verifier_s + step * more_s)))
        lengths, log_prob = table(lambda step, rank: list(jobs.EVEN)), table(lambda step, rank: 0.03)
        return replace(usual, lengths=lengths, log_prob_s=log_prob, train_tokens=table(lambda step, rank: 500))

    run = modelled(loop(slow_s, more_s), tmp_path / "run")
    (found,) = [each for each in run.findings if each.kind == "rl-verifier"]
    told = found.evidence.as_dict()["over_steps"]
    assert (found.ranks, told["shape"], told["cost"], told["of"]) == ([2], "line", "idle", steps)
    others = jobs.RANKS - 1
    assert told["per_step_s"] == pytest.approx(others * more_s, rel=0.05)
    assert told["so_far_s"] == pytest.approx(found.lost_s, rel=0.02)
    assert "The idle time that it causes grows with the steps" in trend(found) and GROWS not in found.advice
    steady = modelled(loop(slow_s), tmp_path / "steady").findings
    assert steady and not any("over_steps" in each.evidence.as_dict() for each in steady)
