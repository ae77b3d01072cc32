"""A model below the call that runs it, in the graph of a program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from scalana.frontend.models.build import ModelGraph
from scalana.graphs.structure.psg import PSG


def graft(psg: PSG, vertex: int, model: ModelGraph) -> npt.NDArray[np.int64]:
    """Put a copy of a model's graph below a vertex, behind what stands there. O(vertices of the model).

    Args:
        psg: the graph of a program; it is changed, by appending.
        vertex: the call of the model in it, or any other vertex.
        model: what to put there; it is left as it is.

    Returns:
        Of each vertex of the model's graph its copy ``[vertices of the model]``; of its root, ``vertex``. It is the
        index of the model's arrays in those of the program.

    Raises:
        IndexError: there is no such vertex.
    """
    if not 0 <= vertex < len(psg):
        raise IndexError(f"no vertex {vertex} in a graph of {len(psg)}")
    to = np.full(len(model.psg), vertex, dtype=np.int64)
    for below in list(model.psg.vertices[1:]):  # children come after their parents
        parent = int(to[below.parent])
        to[below.index] = psg.add(below.kind, replace(below.place), parent, below.operation, site=below.site)
    psg.data += [(int(to[source]), int(to[target])) for source, target in model.psg.data]
    psg.warnings += [warning for warning in model.psg.warnings if warning not in psg.warnings]
    return to
