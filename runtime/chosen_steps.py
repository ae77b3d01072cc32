"""Steps that are looked at more closely than the others: all ranks choose the same, without agreeing on it.

The choice depends on the number of the step alone. A rank that finds its own too dear chooses fewer: a part of those
that the other ranks choose.
"""

from __future__ import annotations

FIRST = (1, 2, 3, 4)
"""Chosen as well, as a program may not make many: those after one that is too dear are not."""
DEAR, DEAR_NS = 0.1, 20_000_000
"""Part of a step, and time, from which looking at it is too dear to go on at once: loops that generate token by token
call small modules thousands of times in each step."""
ONE_OF = 16
"""Of later steps one of so many, to begin with."""
FEWEST = 1 << 16
COST = 0.005
"""Part of the time of all steps that looking at some of them may take."""


def is_chosen(number: int, one_of: int = ONE_OF) -> bool:
    """Whether a step is; of the steps for one power of two those for the next are a part."""
    return number in FIRST or (number > 0 and (number * 0x9E3779B1 >> 16) % one_of == 0)


class Chosen:
    """The choice of one process, which learns what its own steps cost."""

    __slots__ = ("is_dear", "one_of")

    def __init__(self, one_of: int = ONE_OF) -> None:
        self.one_of = one_of
        self.is_dear = False
        """Whether the last one was too dear to look at the next ones of :data:`FIRST`, too."""

    def __contains__(self, number: int) -> bool:
        return is_chosen(number, self.one_of) and not (self.is_dear and number in FIRST)

    def cost(self, spent_ns: int, step_ns: int) -> None:
        """Looking at a step of so many ns took some of them: choose so few from now on that this is no great part."""
        self.is_dear = spent_ns > max(DEAR * step_ns, DEAR_NS)
        while self.one_of < FEWEST and spent_ns > COST * self.one_of * max(step_ns, 1):
            self.one_of *= 2
