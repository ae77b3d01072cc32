"""Where a phase that begins in a library stands: in the program's function that the library calls back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.rl import work_lines
from scalana.detectors.rl.phases import Doing
from scalana.detectors.rl.work_lines import place_of
from scalana.graphs.structure.psg import PSG, Place, VertexKind

FILE = "/job/train.py"


def program() -> tuple[PSG, dict[str, int]]:
    """A call of a trainer, which calls a reward function of the program that calls a helper."""
    psg, at = PSG(), {}
    main = psg.add(VertexKind.FUNCTION, Place(FILE, 30, 50, 0, "main"), 0)
    at["call"] = psg.add(VertexKind.CALL, Place(FILE, 40, 40, -1, "Trainer.train"), main)
    reward = psg.add(VertexKind.FUNCTION, Place(FILE, 5, 12, 0, "reward"), at["call"])
    helper = psg.add(VertexKind.FUNCTION, Place(FILE, 20, 24, 0, "helper"), reward, site=Place(FILE, 8, 8, 4, "helper"))
    for name, parent, line in (("read", reward, 6), ("sort", reward, 7), ("match", helper, 22), ("beside", main, 45)):
        at[name] = psg.add(VertexKind.COMP, Place(FILE, line, line, 4, name), parent)
    at["reward"] = reward
    return psg, at


@pytest.mark.parametrize(
    ("more_s", "name", "line"),
    [
        ({"sort": 3.0, "read": 0.5}, "sort", 7),  # most of it is in one line
        ({"read": 1.0, "sort": 1.0, "match": 1.0}, "reward", 5),  # the function that the trainer calls
        ({"beside": 3.0}, "call", 40),  # outside of the call: the samples are of something else
        ({}, "call", 40),
    ],
)
def test_the_function_that_a_library_calls_is_named(
    more_s: dict[str, float], name: str, line: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    psg, at = program()
    rows = [one for one in at if one not in ("call", "reward")]
    doing = next(iter(Doing))
    timeline: Any = SimpleNamespace(
        activities=SimpleNamespace(
            vertex=np.array([at[one] for one in rows]), line=np.array([psg[at[one]].place.line for one in rows])
        )
    )
    own_s = np.zeros((2, 1, len(Doing)))
    own_s[1, 0, doing] = sum(more_s.values())
    vertex, lines = np.full(len(Doing), at["call"]), np.full(len(Doing), 40)
    loop: Any = SimpleNamespace(vertex=vertex, line=lines, own_s=own_s, processes=[None, None])
    # Rank 0 does next to nothing of it.
    spent = {0: np.full(len(rows), 1e-6), 1: np.array([more_s.get(one, 0.0) for one in rows])}
    monkeypatch.setattr(work_lines, "_by_activity", lambda loop, rank, doing, timeline: spent[rank])
    found = place_of(loop, doing, [1], timeline, psg)
    assert found is not None and (found.vertex, found.line) == (at[name], line)
