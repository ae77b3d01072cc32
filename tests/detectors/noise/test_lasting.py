"""Which part of a run a cause is compared with: the steps, where ranks are late all through them."""

from __future__ import annotations

import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.served import all_recorded_s
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.lasting import Lasting
from scalana.detectors.whatif.replay import prepare
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate

START_MS, STEPS = 30_000.0, 30


def job(late_ms: float = 15.0):  # type: ignore[no-untyped-def]
    """Two ranks that start for long, and the second of which is late in each step thereafter."""

    def cost(step: int, rank: int) -> dict[str, float]:
        if step == 0:
            return {"start": START_MS}
        return {"forward": 60.0, "log": late_ms if rank == 1 else 0.0}

    timeline, names = simulate(steps(2, 1 + STEPS, cost, noise=0.01))
    return timeline, names, find_waits(timeline)


def begin_of_steps_s(timeline) -> float:  # type: ignore[no-untyped-def]
    return float(timeline.locations.end_s.max()) - STEPS * 0.075


@pytest.mark.parametrize("knows_steps", [True, False])
def test_a_rank_that_is_late_in_each_step_is_found_however_long_the_start_takes(knows_steps: bool) -> None:
    timeline, names, waits = job()
    table = blame(timeline, waits)
    lasting = Lasting.of(timeline, table, begin_of_steps_s(timeline), float(timeline.locations.end_s.max()))
    assert table.seconds.max() < 0.01 * all_recorded_s(timeline)
    waiting = Waiting(waits, table, prepare(timeline), [], lasting=lasting if knows_steps else None)
    found = [(names[one.line - 1], one.ranks) for one in detect(timeline, structure(names), waiting)]
    assert found == ([("log", [1])] if knows_steps else [])


def test_what_is_late_by_turns_or_outside_the_steps_is_compared_with_the_whole_run() -> None:
    timeline, names, waits = job()
    table, end_s = blame(timeline, waits), float(timeline.locations.end_s.max())
    log = table.seconds.argsort()[-1:]
    in_steps = Lasting.of(timeline, table, begin_of_steps_s(timeline), end_s)
    assert in_steps.measured_by(log, 1.0) == pytest.approx(STEPS * 75.0 / (START_MS + STEPS * 75.0), rel=0.05)
    assert in_steps.measured_by(log, 0.0) == in_steps.measured_by(None, 1.0) == in_steps.measured_by(log, None) == 1.0
    assert Lasting.of(timeline, table, 0.0, begin_of_steps_s(timeline) - 1.0).measured_by(log, 1.0) == 1.0
