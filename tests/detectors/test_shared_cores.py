"""Where ranks share cores, more work shows as more waiting for a core."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.evidence import computes_more
from scalana.detectors.paths import _name
from scalana.detectors.targets import TargetKind
from scalana.graphs.psg import PSG, Place, Vertex, VertexKind
from scalana.runtime.operations import BY_NAME


def timeline(cpu_s: list[float], wait_s: list[float]) -> Any:
    """One stretch of work of the same activity on each rank, no calls."""
    ranks = len(cpu_s)
    own = SimpleNamespace(
        gap=np.arange(ranks),
        activity=np.zeros(ranks, np.int64),
        cpu_s=np.array(cpu_s),
        seconds=np.array(cpu_s) + np.array(wait_s),
    )
    locations = _Locations(rank=np.arange(ranks))
    activities = SimpleNamespace(helper=np.zeros(1, np.bool_), vertex=np.zeros(1, np.int64))
    calls = SimpleNamespace(location=np.zeros(0, np.int64))
    return SimpleNamespace(own=own, calls=calls, locations=locations, activities=activities, ranks=ranks)


class _Locations(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.rank)


@pytest.mark.parametrize(
    ("cpu_s", "wait_s", "more"),
    [([1.0, 1.0, 1.0, 1.0], [0.1, 3.0, 0.1, 0.1], False), ([0.1, 1.0, 0.1, 0.1], [0.1, 3.0, 0.1, 0.1], True)],
    ids=["less of a core", "more work"],
)
def test_work_is_told_from_its_share_of_a_core(cpu_s: list[float], wait_s: list[float], more: bool) -> None:
    spot = SimpleNamespace(kind=TargetKind.OWN, vertex=0)
    candidate: Any = SimpleNamespace(ranks=(1,), entries=np.array([0]), spot=spot)
    table: Any = SimpleNamespace(target=np.array([0]))
    assert computes_more(candidate, table, timeline(cpu_s, wait_s), PSG()) is more


def test_a_message_that_waits_for_its_partner_is_named_by_its_call() -> None:
    place = Place("a.c", 1, 1, 0, "MPI_Send")
    send, flush = (
        Vertex(1, VertexKind.COMM, place, 0, 0, operation=BY_NAME[name].code) for name in ("blocking_send", "win_flush")
    )
    assert _name(BY_NAME["win_flush"].code, send) == "blocking_send"
    assert _name(BY_NAME["win_flush"].code, flush) == "win_flush"
    assert _name(BY_NAME["send"].code, send) == "recv"
