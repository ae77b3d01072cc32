"""What a row of the table is: a claim with its bar, and how it is measured."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

Reader = Callable[[str], float]
"""Takes a value out of what a command prints."""

COMPARISONS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "<=": ("at most", operator.le),
    ">=": ("at least", operator.ge),
    "==": ("exactly", operator.eq),
}


@dataclass(frozen=True)
class Bar:
    """A number and how a value compares with it."""

    sign: str
    number: float
    decimals: int
    """With how many it is written: a value is compared after it is rounded to as many."""

    @classmethod
    def parse(cls, text: str) -> Bar:
        """From such a text as ``<= 1.1``.

        Raises:
            ValueError: the text is no bar.
        """
        found = re.fullmatch(r"(<=|>=|==) (-?\d+(?:\.(\d+))?)", text)
        if not found:
            raise ValueError(f"not a bar: {text!r}; write <=, >= or ==, a space and a number")
        return cls(found[1], float(found[2]), len(found[3] or ""))

    def holds(self, value: float) -> bool:
        """Whether a value meets the bar."""
        return COMPARISONS[self.sign][1](round(value, self.decimals), self.number)

    def words(self) -> str:
        """As a reader reads it."""
        return f"{COMPARISONS[self.sign][0]} {self.number:,g}"


@dataclass(frozen=True)
class Need:
    """A program or data that the repository does not have: an environment variable names the folder."""

    variable: str
    what: str


@dataclass(frozen=True)
class Command:
    """Shell lines, run from the root of the repository, one after the other; a row reads what the last one prints.

    ``python`` is the interpreter that runs them, ``$WORK`` an empty folder, ``$MPI`` the ``bin`` folder of the
    installed Open MPI.
    """

    steps: tuple[str, ...]
    gpu: bool = False
    quiet: bool = False
    """Whether other load on the machine changes the value."""
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class Sum:
    """The sum of the values of other rows."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Elsewhere:
    """Cannot be measured by a command of this repository."""

    reason: str


@dataclass(frozen=True)
class Row:
    """A figure."""

    name: str
    claim: str
    bar: str
    unit: str
    document: str
    """Path of the document that claims it."""
    measured_by: Command | Sum | Elsewhere
    read: Reader | None = None
    """Of rows with a command."""
