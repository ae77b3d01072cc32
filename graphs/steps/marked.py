"""Steps that were marked while the job ran: by the program itself, its optimizer, a schedule, a trainer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.steps.steps import Steps


@dataclass(frozen=True, slots=True)
class Marks:
    """All marked steps, in no order."""

    marker: list[str]
    """Who marked it, empty where that is not known ``[marks]``."""
    number: IntArray
    """-1 where it has none ``[marks]``."""
    rank: IntArray
    """``[marks]``"""
    start_s: FloatArray
    """``[marks]``"""
    end_s: FloatArray
    """``[marks]``"""


def marked(marks: Marks, markers: tuple[str, ...], source: str, ranks: int) -> Steps | None:
    """The steps of some markers; None if they marked none.

    Where counting began anew on a rank, or a number is missing, a rank's steps are numbered in order of time. A step
    that only its end is known of (the first mark of a program ends a step that began somewhere before) is step 0.
    """
    rows = np.flatnonzero(np.array([who in markers for who in marks.marker], np.bool_))
    if not len(rows):
        return None
    rows = rows[np.lexsort((marks.start_s[rows], marks.rank[rows]))]
    rank, number, start, end = marks.rank[rows], marks.number[rows], marks.start_s[rows], marks.end_s[rows]
    same = np.diff(rank) == 0
    if (number < 0).any() or (np.diff(number)[same] <= 0).any():
        first = np.flatnonzero(np.append(True, ~same))
        number = np.arange(len(rank)) - np.repeat(first, np.diff(np.append(first, len(rank))))
    numbers, row = np.unique(number, return_inverse=True)
    starts, ends = (np.full((len(numbers), ranks), np.nan) for _ in range(2))
    starts[row, rank], ends[row, rank] = start, end
    if numbers[0] == 1:
        numbers = np.append(0, numbers)
        ends = np.concatenate((starts[:1], ends))
        starts = np.concatenate((np.full((1, ranks), np.nan), starts))
    return Steps(source, numbers.astype(np.int64), starts, ends)
