"""A finding whose cost changes over the steps says so, and no other that waits are shared with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.annotate.advice import GROWS
from scalana.detectors.evidence import Evidence, OverSteps
from scalana.detectors.finding import Finding
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.report.findings.over_steps import trend
from tests.detectors.jobs import steps as job
from tests.detectors.jobs import structure
from tests.detectors.simulator import sampled, simulate

COUNT = 60


def findings(cost, *, ranks=4, count=COUNT, period_s=0.0, noise=0.1, core_wait=None):
    """By the name of their place. ``core_wait`` gives the part of a step's work that is waiting for a core."""
    timeline, names = simulate(job(ranks, count, cost, noise=noise))
    if core_wait is not None:
        own = timeline.own
        step = np.clip(np.arange(len(timeline.calls)) - timeline.calls.first[timeline.calls.location] - 1, 0, count - 1)
        own.core_wait_s[:] = own.seconds * np.append(core_wait(step), np.zeros(ranks))[own.burst]
        own.cpu_s[:] = own.seconds - own.core_wait_s
    if period_s:
        timeline = sampled(timeline, period_s)
    psg = structure(names)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=ranks)
    found = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)).findings
    return {names[finding.line - 1]: finding for finding in found}


def growing(step, rank):
    """Rank 1 keeps what it has and writes all of it in each step, and augments for as long as ever."""
    return {"compute": 20.0, **({"write": 6.0 + 1.2 * step, "augment": 15.0} if rank == 1 else {})}


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_what_grows_is_told_and_what_is_steady_beside_it_is_not(period_s: float) -> None:
    found = findings(growing, period_s=period_s)
    told = found["write"].evidence.as_dict()["over_steps"]
    assert (told["shape"], told["cost"], told["steps"], told["of"]) == ("line", "work", COUNT, COUNT)
    assert (told["first_step"], told["last_step"]) == (0, COUNT - 1)
    assert told["per_step_s"] == pytest.approx(1.2e-3, rel=0.1) and told["before_s"] == pytest.approx(6e-3, abs=3e-3)
    assert told["so_far_s"] == pytest.approx(found["write"].evidence.as_dict()["seconds_here"], rel=0.05)
    assert told["next_s"] == pytest.approx(COUNT * (0.006 + 1.2e-3 * 1.5 * COUNT), rel=0.1)
    assert told["series_steps"] == list(range(COUNT)) and len(told["series_s"]) == COUNT
    assert sum(told["series_s"]) == pytest.approx(told["so_far_s"])
    assert found["write"].advice.endswith(GROWS)
    assert "over_steps" not in found["augment"].evidence.as_dict() and GROWS not in found["augment"].advice


def test_of_many_steps_the_series_has_means() -> None:
    found = findings(growing, ranks=2, count=4 * COUNT)
    told = found["write"].evidence.as_dict()["over_steps"]
    assert told["series_steps"] == list(range(0, 4 * COUNT, 2)) and len(told["series_s"]) == 2 * COUNT
    assert 2 * sum(told["series_s"]) == pytest.approx(told["so_far_s"])


def test_what_grows_on_all_ranks_alike_is_not_what_the_finding_costs() -> None:
    found = findings(lambda step, rank: {"compute": 10.0 + step + 30.0 * (rank == 1)}, noise=0.02)
    assert found["compute"].ranks == [1] and "over_steps" not in found["compute"].evidence.as_dict()


def test_what_grows_faster_on_a_rank_is_told_without_what_others_take() -> None:
    found = findings(lambda step, rank: {"compute": 10.0 + step * (1.0 + (rank == 1))}, noise=0.02)
    told = found["compute"].evidence.as_dict()["over_steps"]
    assert told["shape"] == "line" and told["per_step_s"] == pytest.approx(1e-3, rel=0.1)


def test_from_which_step_on_a_rank_is_slow() -> None:
    found = findings(lambda step, rank: {"compute": 20.0 * (1.0 + 0.2 * (rank == 2) + (rank == 2 and step >= 41))})
    told = found["compute"].evidence.as_dict()["over_steps"]
    assert (told["shape"], told["from_step"]) == ("jump", 41) and "per_step_s" not in told
    assert told["before_s"] == pytest.approx(4e-3, rel=0.5) and told["after_s"] == pytest.approx(24e-3, rel=0.2)
    assert "from step 41 on" in found["compute"].advice


def test_ranks_that_take_turns_are_told_by_the_waiting() -> None:
    found = findings(lambda step, rank: {"compute": 20.0, **({"repair": 10.0 + step} if step % 4 == rank else {})})
    told = found["repair"].evidence.as_dict()["over_steps"]
    assert found["repair"].ranks == [0, 1, 2, 3] and (told["shape"], told["cost"]) == ("line", "waiting")
    assert told["per_step_s"] == pytest.approx(3e-3, rel=0.1)  # three ranks wait


def test_a_checkpoint_is_no_growth_but_one_that_grows_is() -> None:
    steady = findings(lambda step, rank: {"compute": 5.0, **({"save": 90.0} if rank == 0 and step % 10 == 9 else {})})
    assert "over_steps" not in steady["save"].evidence.as_dict()
    grown = findings(
        lambda step, rank: {"compute": 5.0, **({"save": 2.0 * step} if rank == 0 and step % 10 == 9 else {})},
        count=250,
    )
    told = grown["save"].evidence.as_dict()["over_steps"]
    assert (told["first_step"], told["last_step"], told["steps"], told["of"]) == (9, 249, 25, 250)
    assert told["per_step_s"] == pytest.approx(2e-3, rel=0.1)


def test_what_does_not_change_is_not_told_to() -> None:
    told = [
        findings(lambda step, rank, by=by: {"compute": 20.0 + 10.0 * (rank == by)}, noise=0.3)["compute"].evidence
        for by in range(4)
    ]
    assert not any(evidence.over_steps for evidence in told)


def told_of(**evidence):
    series = {"series_s": [], "series_steps": []}
    known = {"shape": "line", "cost": "work", "first_step": 0, "steps": 60, "of": 60, **series, **evidence}
    finding = Finding("late-ranks", 0, "/job/train.py", 1, 1, "main", "comp", [1], 1.0, 1.0, 1.0)
    return trend(replace(finding, evidence=Evidence(over_steps=OverSteps(**known))))


def test_the_sentences() -> None:
    line = {"before_s": 0.006, "after_s": 0.078, "per_step_s": 0.0012, "so_far_s": 2.5, "next_s": 7.1, "last_step": 60}
    assert told_of(**line) == (
        "Its cost grows with the steps, from 6.0 ms in step 0 to 78 ms in step 60, by 1.2 ms a step. If this "
        "continues, the next 60 steps cost 7.10 s, after 2.50 s in these."
    )
    assert told_of(**line | {"cost": "waiting"}).startswith(
        "The waiting that it causes grows with the steps, from 6.0 ms"
    )
    assert told_of(**(line | {"before_s": 0.078, "after_s": 0.006})).startswith("Its cost falls with the steps")
    jump = line | {"shape": "jump", "from_step": 31, "per_step_s": None}
    assert told_of(**jump) == (
        "Its cost is 78 ms a step from step 31 on, before that 6.0 ms. If this continues, the next 60 steps cost "
        "7.10 s, after 2.50 s in these."
    )
    assert told_of(**jump, steps=12).startswith("Its cost is 78 ms each time from step 31 on")
    unclear = line | {"shape": "unclear", "per_step_s": None, "so_far_s": None, "next_s": None}
    assert told_of(**unclear) == (
        "Its cost rises over the steps, steadily or at once, from about 6.0 ms a step to 78 ms."
    )


def test_waiting_for_a_core_that_grows_is_no_growth_of_the_cost() -> None:
    """Rank 1 computes the same in each step, and waits longer and longer for a core."""

    def cost(step, rank):
        return {"compute": 20.0, **({"write": 40.0 + step} if rank == 1 else {})}

    found = findings(cost, core_wait=lambda step: step / (40.0 + step))
    assert found["write"].ranks == [1] and "over_steps" not in found["write"].evidence.as_dict()


def test_growth_is_seen_below_waiting_for_a_core() -> None:
    found = findings(growing, core_wait=lambda step: 0.5 * (step % 3 == 0))
    told = found["write"].evidence.as_dict()["over_steps"]
    assert (told["shape"], told["cost"]) == ("line", "work") and told["so_far_s"] < found["write"].lost_s


def test_waiting_for_a_core_from_some_step_on_is_told_as_that() -> None:
    def cost(step, rank):
        return {"compute": 20.0, **({"write": 80.0 if step >= 25 else 40.0} if rank == 1 else {})}

    found = findings(cost, core_wait=lambda step: 0.5 * (step >= 25))
    told = found["write"].evidence.as_dict()["over_steps"]
    assert (told["shape"], told["cost"], told["from_step"]) == ("jump", "time", 25)
    assert trend(found["write"]).startswith("Its cost, including waits for a core, is 8")


def test_ranks_in_the_hundreds_are_looked_at_in_part() -> None:
    found = findings(growing, ranks=200, count=24, noise=0.02)
    assert np.isclose(found["write"].evidence.as_dict()["over_steps"]["per_step_s"], 1.2e-3, rtol=0.1)
