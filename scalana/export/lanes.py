"""Slices that lie over each other without one holding the other, put onto lanes of their own: viewers lose them."""

from __future__ import annotations

from collections.abc import Sequence


def layers(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """For each slice the first layer in which it lies beside the others, inside one of them, or around it.

    Slices have to be in the order of their beginnings, of those that begin together the longest first.

    >>> layers([0, 1, 3, 5], [4, 2, 6, 6])
    [0, 0, 1, 1]
    """
    open_ends: list[list[int]] = []
    chosen = []
    for first, last in zip(begin, end, strict=True):
        for layer, ends in enumerate(open_ends):
            while ends and ends[-1] <= first:
                ends.pop()
            if not ends or last <= ends[-1]:
                ends.append(last)
                chosen.append(layer)
                break
        else:
            chosen.append(len(open_ends))
            open_ends.append([last])
    return chosen
