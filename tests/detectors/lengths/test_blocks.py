"""Sequences in a line that is cut into parts which are equal up to a tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalana.detectors.lengths.blocks import cut_in_line

SIZES = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20)


@given(SIZES, st.integers(1, 9))
def test_pieces_cover_sequences_and_parts_are_even_up_to_the_tolerance(sizes: list[float], parts: int) -> None:
    size = np.array(sizes)
    pieces = cut_in_line(size, parts, 0.1)
    load = np.zeros(parts)
    for sequence in range(len(size)):
        mine = [piece for piece in pieces if piece.sequence == sequence]
        assert mine[0].begin == 0.0 and mine[-1].end == 1.0
        for before, after in zip(mine, mine[1:], strict=False):
            assert before.end == after.begin and after.part == before.part + 1
        assert all(piece.end > piece.begin for piece in mine)
        for piece in mine:
            load[piece.part] += (piece.end - piece.begin) * size[sequence]
    even = size.sum() / parts
    assert load.sum() == pytest.approx(size.sum())
    assert load.max() <= even * 1.2000001


def test_only_sequences_that_are_too_large_are_cut() -> None:
    assert [piece.part for piece in cut_in_line(np.array([1.0, 1.0, 1.0, 1.0]), 4)] == [0, 1, 2, 3]
    assert [piece.part for piece in cut_in_line(np.array([1.05, 0.95, 1.0, 1.0]), 4)] == [0, 1, 2, 3]
    pieces = cut_in_line(np.array([3.0, 0.5, 0.5]), 4)
    assert [(piece.sequence, piece.part) for piece in pieces] == [(0, 0), (0, 1), (0, 2), (1, 3), (2, 3)]
    assert [piece.end - piece.begin for piece in pieces[:3]] == pytest.approx([1 / 3] * 3)
