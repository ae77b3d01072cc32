"""The place that is named: which lines of a loop are one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.named_place import CodeLocation, named_places
from scalana.graphs.structure.psg import PSG, Place, VertexKind

SOURCE = """for row in rows:
    prepare(row)
    with lock:
        append(row)
"""


def test_a_line_that_waits_for_a_lock_stands_for_itself_alone(tmp_path: Path) -> None:
    """What it takes is what others do: it is neither the cause of the other lines of its loop nor caused by them."""
    file = tmp_path / "a.py"
    file.write_text(SOURCE)
    psg = PSG()
    psg.add(VertexKind.COMM, Place(str(file), 9, 9, 0, "barrier"), 0, 1)
    loop = psg.add(VertexKind.LOOP, Place(str(file), 1, 4, 0, "for row in rows"), 0)
    lines = psg.add(VertexKind.COMP, Place(str(file), 2, 4, 4, ""), loop)
    leaves = [CodeLocation(TargetKind.OWN, lines, line) for line in (2, 3, 4)]
    timeline: Any = SimpleNamespace(activities=SimpleNamespace(vertex=np.array([lines] * 3)))
    named = named_places(leaves, [0, 0, 0], [1.0, 7.0, 3.0], timeline, psg)
    assert [place.line for place in named] == [4, 3, 4]
