"""The PPG as a pandas frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

    from scalana.graphs.ppg import PPG


def frame(ppg: PPG) -> pandas.DataFrame:
    """One row per vertex and rank in which any metric is not zero; see :meth:`scalana.api.Report.frame`."""
    import pandas

    shape = (len(ppg.psg.vertices), ppg.run.ranks)
    metrics = {name: np.asarray(values) for name, values in ppg.metrics.items() if np.shape(values) == shape}
    used = np.zeros(shape, dtype=bool)
    for values in metrics.values():
        used |= values != 0
    vertices, ranks = np.nonzero(used)
    rows = [ppg.psg.vertices[index] for index in vertices]
    return pandas.DataFrame(
        {
            "vertex": vertices,
            "rank": ranks,
            "kind": [str(row.kind.value) for row in rows],
            "file": [row.place.file for row in rows],
            "line": [row.place.line for row in rows],
            "end_line": [row.place.end_line for row in rows],
            "function": [ppg.psg.function_of(row.index) for row in rows],
            "name": [row.place.name for row in rows],
            **{name: values[vertices, ranks] for name, values in metrics.items()},
        }
    )
