"""Sequences cut into blocks where one rank would have too much of them, and whole elsewhere.

As in dynamic context parallelism (DCP, Jiang et al., SOSP 2025): ranks need not have equal parts, but parts that are
equal up to a tolerance, so that only sequences are cut that must be, each over as few ranks as possible. Here sequences
lie in a line that is cut into equal parts, and a cut moves to the end of a sequence that is near.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.types import FloatArray


class Piece(NamedTuple):
    """What one part has of a sequence."""

    sequence: int
    part: int
    begin: float
    """From which share of the sequence on."""
    end: float


def cut_in_line(size: FloatArray, parts: int, tolerance: float = MINOR) -> list[Piece]:
    """Sequences of some sizes, in this order, for parts of equal size up to a tolerance (of each of its ends): a piece
    that is no larger than that goes to the part that has the rest of its sequence."""
    even = float(size.sum()) / parts
    pieces, at = [], 0.0
    for sequence, one in enumerate(size.tolist()):
        begin, end = at / even, (at + one) / even
        at += one
        first = min(int(begin + tolerance), parts - 1)
        last = max(min(int(np.ceil(end - tolerance)), parts), first + 1)
        cuts = [0.0, *((part * even - (at - one)) / one for part in range(first + 1, last)), 1.0]
        pieces += [Piece(sequence, first + row, cuts[row], cuts[row + 1]) for row in range(last - first)]
    return pieces
