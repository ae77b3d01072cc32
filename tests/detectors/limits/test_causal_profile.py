"""The critical path, and what faster places would bring: against the program run again, really faster."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.limits.causal_profile import LIMITS, CausalProfile
from scalana.detectors.whatif.critical_path import critical_path
from tests.detectors.jobs import analysed, steps
from tests.detectors.simulator import simulate

STEPS = 12


def costs(step: int, rank: int) -> dict[str, float]:
    """Ranks that share a forward, of which another one writes for long in each step."""
    return {"forward": 10.0 + rank, "write": 20.0 if step % 3 == rank else 14.0, "optimiser": 4.0}


def faster(place: str, part: float):  # type: ignore[no-untyped-def]
    """The same program with a part of one place taken out."""
    return lambda step, rank: {
        name: ms * (1.0 - part if name == place else 1.0) for name, ms in costs(step, rank).items()
    }


def seconds_of(program) -> float:  # type: ignore[no-untyped-def]
    timeline, _ = simulate(program)
    return float(timeline.locations.end_s.max())


def profile_of(program) -> tuple[CausalProfile, dict[str, object]]:  # type: ignore[no-untyped-def]
    analysis = analysed(program)
    profile = analysis.section(LIMITS)
    assert profile is not None
    psg = analysis.ppg.psg
    return profile, {psg[place.location.vertex].place.name: place for place in profile.places}


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_critical_path_adds_up_to_the_stretch(ranks: int, seed: int) -> None:
    program = steps(ranks, STEPS, costs, seed=seed, noise=0.3)
    timeline, _ = simulate(program)
    end_s = float(timeline.locations.end_s.max())
    for begin_s in (0.0, end_s / 3):
        path = critical_path(timeline, find_waits(timeline), begin_s, end_s)
        assert path.total_s == pytest.approx(end_s - begin_s)
        assert path.unknown_s == 0.0
        assert (path.burst_s >= 0.0).all() and (path.call_s >= 0.0).all()


def test_the_critical_path_lies_on_who_comes_last() -> None:
    program = steps(3, STEPS, lambda step, rank: {"work": 10.0 if rank == 1 else 2.0})
    timeline, _ = simulate(program)
    path = critical_path(timeline, find_waits(timeline), 0.0, float(timeline.locations.end_s.max()))
    location = np.concatenate((timeline.calls.location, np.arange(3)))
    of_location = np.bincount(location, path.burst_s, 3)
    assert of_location == pytest.approx([0.0, STEPS * 0.01, 0.0])


@pytest.mark.parametrize("place", ["forward", "write", "optimiser"])
def test_what_a_faster_place_brings_is_what_comes_out(place: str) -> None:
    measured_s = seconds_of(steps(3, STEPS, costs))
    profile, places = profile_of(steps(3, STEPS, costs))
    found = places[place]
    for part, step_s in ((0.5, found.half_s), (1.0, found.without_s)):  # type: ignore[attr-defined]
        really_s = measured_s - seconds_of(steps(3, STEPS, faster(place, part)))
        per_step_s = really_s / STEPS
        assert profile.step_s - step_s == pytest.approx(per_step_s, rel=0.1)


def test_what_hides_behind_another_place_saves_nothing() -> None:
    def hidden(step: int, rank: int) -> dict[str, float]:
        return {"short": 6.0} if rank else {"long": 10.0}

    profile, places = profile_of(steps(2, STEPS, hidden))
    assert places["short"].without_s == pytest.approx(profile.step_s)  # type: ignore[attr-defined]
    assert places["long"].without_s == pytest.approx(profile.step_s - 0.004, rel=0.01)  # type: ignore[attr-defined]


def test_an_ideal_network_takes_the_transfers_out() -> None:
    program = [
        [("work", "forward", 10.0), ("coll", "allreduce", [0, 1], -1, 5.0)] * STEPS,
        [("work", "forward", 10.0), ("coll", "allreduce", [0, 1], -1, 5.0)] * STEPS,
    ]
    profile, _ = profile_of(program)
    assert profile.step_s - profile.ideal_network_s == pytest.approx(0.005, rel=0.01)
