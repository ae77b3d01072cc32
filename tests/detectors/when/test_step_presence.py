"""Work of single ranks now and then: in how many steps it happens, and that slow steps name the same place."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.when.slow_steps import SLOW_STEPS
from scalana.detectors.when.step_presence import steps_with_cost
from scalana.report.findings.over_steps import when
from tests.detectors.jobs import analysed, steps

COUNT = 100
PERIOD_S = 0.005


def evaluating(every, ms, jitter=6.0):
    """Rank 0 evaluates in some steps; in each, either rank may wait for the other, which is a little slower then."""
    random = np.random.default_rng(3)

    def cost(step, rank):
        return {
            "forward": 20.0 + random.uniform(0.0, jitter),
            **({"evaluate": ms} if rank == 0 and every(step) else {}),
        }

    return steps(2, COUNT, cost)


@pytest.mark.parametrize("interval", [1, 2, 7, 20, 50])
def test_steps_with_work_of_one_rank_are_counted_right(interval: int) -> None:
    """Whatever else ranks wait for in the other steps, and in however many it happens."""
    analysis = analysed(evaluating(lambda step: step % interval == interval - 1, 80.0))
    finding = next(one for one in analysis.findings if one.ranks == [0])
    known = finding.evidence.in_steps
    assert known is not None and known.counted
    assert (known.steps, known.of) == (COUNT // interval, COUNT)
    assert ("in every step" in when(finding)) == (interval == 1)
    if interval == 50:
        assert known.numbers == [49, 99]


def test_slow_steps_name_the_place_of_the_finding_that_explains_them() -> None:
    analysis = analysed(evaluating(lambda step: step in (30, 60, 90), 90.0))
    (finding, *_) = analysis.findings
    slow = analysis.section(SLOW_STEPS)
    assert [step.number for step in slow] and {step.number for step in slow} == {30, 60, 90}
    assert {(step.cause.line, step.cause.function) for step in slow} == {(finding.line, finding.function)}


def test_what_few_samples_see_is_not_counted() -> None:
    """A sample falls into some of the steps only, where each costs less than the time between two."""
    random = np.random.default_rng(1)
    seen = random.poisson(0.5, COUNT) * PERIOD_S
    assert steps_with_cost(seen, PERIOD_S) is None
    assert steps_with_cost(np.zeros(COUNT), PERIOD_S) is None


def test_samples_at_the_border_of_a_step_are_none_of_its_cost() -> None:
    cost_s = np.where(np.arange(COUNT) % 10 == 0, 0.2, 0.0)
    cost_s[1::10] = PERIOD_S / 2
    present = steps_with_cost(cost_s, PERIOD_S)
    assert present is not None and np.flatnonzero(present).tolist() == list(range(0, COUNT, 10))


@pytest.mark.parametrize(("samples", "counted"), [(1, False), (10, True)])
def test_steps_are_counted_only_where_the_samples_are_dense(samples: int, counted: bool) -> None:
    """A sampler that gets no core sees one moment of 50 ms: what it sees in a third of the steps may be in each."""
    analysis = analysed(evaluating(lambda step: step % 3 == 0, 50.0), samples=samples)
    known = next(one for one in analysis.findings if one.ranks == [0]).evidence.in_steps
    assert known is not None and known.counted == counted
    if counted:
        assert known.steps in (33, 34)
