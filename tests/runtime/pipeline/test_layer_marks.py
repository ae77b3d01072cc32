"""How many layers of a pipeline are marked on the device, and in which steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scalana.runtime import session
from scalana.runtime.device import marks
from scalana.runtime.pipeline.layer_marks import MOST, LayerMarks


class Core:
    """The clock and the step."""

    def __init__(self) -> None:
        self.step, self.time = 1, 0

    def now(self) -> int:
        return self.time

    def current_step(self) -> int:
        return self.step


class Pool:
    """Marks that take their time."""

    def __init__(self, core: Core, mark_ns: int) -> None:
        self.core, self.mark_ns, self.count = core, mark_ns, 0

    def mark(self) -> int:
        self.core.time += self.mark_ns
        self.count += 1
        return self.count

    def span(self, *_: object) -> None:
        self.core.time += self.mark_ns


def run_of(number: int, microbatches: int, trains: bool = True) -> Any:
    plan = SimpleNamespace(attributes={"microbatches": microbatches})
    return SimpleNamespace(number=number, trains=trains, plan=plan, marks=SimpleNamespace(chunk={0: 0}))


def mark_all(told: LayerMarks, layers: int, microbatches: int) -> list[int]:
    """Mark what a run marks; the microbatches whose layers had all their marks."""
    whole = []
    for microbatch in range(microbatches):
        if told.of(microbatch):
            marked = [told.mark() for _ in range(4 * layers + 1)]
            if min(marked) >= 0:
                whole.append(microbatch)
    return whole


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> Core:
    core = Core()
    monkeypatch.setattr(session, "core", core)
    return core


@pytest.mark.parametrize(("layers", "microbatches"), [(4, 8), (24, 8), (24, 64), (80, 128), (300, 4)])
def test_every_so_many_microbatches_have_all_their_layers_marked_and_a_step_not_too_many(
    layers: int, microbatches: int, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(core, 0)
    monkeypatch.setattr(marks, "pool", lambda: pool)
    told, seen = LayerMarks(), set()
    for step in range(1, 5):
        core.step, before = step, pool.count
        assert told.wants(run_of(step, microbatches))
        told.share(run_of(step, microbatches), layers)
        whole = mark_all(told, layers, microbatches)
        assert pool.count - before <= MOST
        assert whole == [microbatch for microbatch in range(microbatches) if told.of(microbatch)]
        if len(whole) > 1:
            assert len({b - a for a, b in zip(whole, whole[1:], strict=False)}) == 1  # evenly
        seen.update(whole)
    all_marked = microbatches * (5 * layers + 2) <= MOST
    assert seen and (len(seen) == microbatches) >= all_marked


def test_a_later_run_of_a_step_has_what_marks_are_left(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(core, 0)
    monkeypatch.setattr(marks, "pool", lambda: pool)
    told = LayerMarks()
    for number in range(20):
        assert told.wants(run_of(number, 16))
        told.share(run_of(number, 16), 24)
        mark_all(told, 24, 16)
    assert 0 < pool.count <= MOST


def test_marks_that_are_dear_are_made_in_fewer_steps(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps_with_marks(mark_ns: int) -> int:
        pool = Pool(core, mark_ns)
        monkeypatch.setattr(marks, "pool", lambda: pool)
        told, marked = LayerMarks(), 0
        for step in range(1, 2000):
            core.step, begin = step, core.time
            if told.wants(run_of(step, 8)):
                told.share(run_of(step, 8), 8)
                marked += bool(mark_all(told, 8, 8))
            core.time = max(core.time, begin + 10_000_000)
        return marked

    cheap, dear = steps_with_marks(100), steps_with_marks(16_000)
    assert 100 < cheap and 4 <= dear < cheap / 4


def test_what_is_told_of_marks_counts_as_their_cost(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(core, 1_000_000)
    monkeypatch.setattr(marks, "pool", lambda: pool)
    told = LayerMarks()
    assert told.wants(run_of(1, 1))
    for _ in range(10):
        told.span(1, 2, "layer", "F", 0, 0)
    core.step, core.time = 2, core.time + 100_000_000
    told.wants(run_of(2, 1))
    assert 0.005 * told.chosen.one_of * 110_000_000 >= 10_000_000 > 0.005 * told.chosen.one_of / 2 * 110_000_000


def test_an_evaluation_is_not_marked_and_without_a_device_runs_are_chosen_by_their_numbers(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, pool = LayerMarks(), Pool(core, 0)
    monkeypatch.setattr(marks, "pool", lambda: pool)
    assert told.wants(run_of(1, 8)) and not told.wants(run_of(1, 8, trains=False))
    monkeypatch.setattr(marks, "pool", lambda: None)
    core.step = 0
    told = LayerMarks()
    assert told.wants(run_of(1, 8)) and not told.wants(run_of(0, 8))
    assert not told.of(0) and told.mark() == -1
