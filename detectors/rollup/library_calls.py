"""Parts of a library's call: which of them are a cause by themselves.

A call that communicates has parts, and so has one that leads into a model: of each line of its code one, below the
line that called it (:mod:`scalana.graphs.attribution`). All of them stand at the user's line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from scalana.detectors.thresholds.shares import MAJORITY, SHARE_OF_ITS_OWN
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.structure.psg import PSG, Place, VertexKind


class PartSeconds(NamedTuple):
    """What lies at a vertex."""

    vertex: int
    ranks: Sequence[int]
    """Those that it is about."""
    seconds: FloatArray
    """``[ranks]``"""


def library_place(vertex: int, psg: PSG) -> Place | None:
    """Of a vertex that is a part of a library's call, the place in the library; None for any other."""
    return psg[vertex].site if 0 <= vertex < len(psg) and psg[vertex].kind is VertexKind.CALL else None


def whole_call(vertex: int, psg: PSG) -> int:
    """The vertex of a library's call of which a vertex is a part; itself if it is none."""
    while library_place(vertex, psg) is not None:
        vertex = psg[vertex].parent
    return vertex


def settled(held: Sequence[PartSeconds], psg: PSG) -> list[int]:
    """The vertex at which each of these is to stand: itself, where it is no part of a call ``[held]``.

    From the call inwards as long as a part holds a large part of what lies around it, on its own ranks; inside of a
    part, where one line holds most. What is spread over the lines of a function stands at the line that calls it.
    """
    chains = [_chain(one.vertex, psg) for one in held]
    within: dict[int, FloatArray] = {}
    for one, chain in zip(held, chains, strict=True):
        for vertex in chain if len(chain) > 1 else ():
            within[vertex] = within.get(vertex, 0.0) + one.seconds
    below: dict[int, list[int]] = defaultdict(list)
    for vertex in within:
        below[psg[vertex].parent].append(vertex)

    found = []
    for one, chain in zip(held, chains, strict=True):
        at, ranks = chain[0], list(one.ranks)
        for inner in chain[1:]:
            whole_s = within[at][ranks].sum()
            most_s = max(within[other][ranks].sum() for other in below[at])
            inside = library_place(at, psg) is not None
            if within[inner][ranks].sum() < SHARE_OF_ITS_OWN * whole_s or (inside and most_s < MAJORITY * whole_s):
                break
            at = inner
        found.append(at)
    return found


def _chain(vertex: int, psg: PSG) -> list[int]:
    """A call, and the parts of it that lead to a vertex, inwards."""
    chain = [vertex]
    while library_place(chain[-1], psg) is not None:
        chain.append(psg[chain[-1]].parent)
    return chain[::-1]
