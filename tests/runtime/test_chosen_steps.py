"""Steps that are looked at: the same on all ranks, and a part of them on a rank for which that is dear."""

from __future__ import annotations

from scalana.runtime.chosen_steps import FIRST, Chosen

MS = 1_000_000


def steps(chosen: Chosen) -> list[int]:
    return [number for number in range(300) if number in chosen]


def test_a_dear_step_ends_the_first_ones_and_makes_later_ones_rare() -> None:
    usual, dear = Chosen(), Chosen()
    usual.cost(1 * MS, 1000 * MS)
    dear.cost(200 * MS, 1000 * MS)
    assert [number for number in steps(usual) if number in FIRST] == list(FIRST)
    assert not set(FIRST) & set(steps(dear))
    assert set(steps(dear)) < set(steps(usual)) and len(steps(dear)) < 10


def test_steps_of_a_millisecond_are_looked_at_whatever_that_costs() -> None:
    tiny = Chosen()
    tiny.cost(1 * MS, 2 * MS)
    assert set(FIRST) <= set(steps(tiny))
