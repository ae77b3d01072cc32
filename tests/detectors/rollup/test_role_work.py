"""Of what a worker does beside a process that waits for it, what others of its role do as well decides nothing."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.rollup.role_work import beyond_role
from tests.detectors.simulator import simulate


def excess_of(work, roles):
    """What is left of 1 s of excess at each place of each rank, by (rank, name)."""
    program = [[("work", name, ms) for name, ms in did.items()] + [("coll", "barrier", [0, 1, 2], -1)] for did in work]
    timeline, names = simulate(program)
    timeline.role = np.array(roles)
    activities = timeline.activities
    cases = [(rank, names.index(name)) for rank, did in enumerate(work) for name in did]
    lines = {int(vertex): int(line) for vertex, line in zip(activities.vertex, activities.line, strict=True)}
    leaves = [CodeLocation(TargetKind.OWN, vertex, lines[vertex]) for _, vertex in cases]
    left = beyond_role(leaves, [rank for rank, _ in cases], [1.0] * len(cases), timeline)
    return {(rank, names[vertex]): seconds for (rank, vertex), seconds in zip(cases, left, strict=True)}


WORK = [{"merge": 5.0}, {"clean": 100.0}, {"clean": 110.0, "repair": 300.0}]


def test_a_workers_excess_is_what_other_workers_do_not():
    left = excess_of(WORK, [0, 1, 1])
    assert left[2, "repair"] == 1.0 and left[2, "clean"] == pytest.approx(10 / 110)


def test_who_does_what_its_role_does_is_compared_with_who_waits():
    left = excess_of(WORK, [0, 1, 1])
    assert left[1, "clean"] == left[0, "merge"] == 1.0


def test_without_roles_all_of_it_counts():
    assert set(excess_of(WORK, []).values()) == {1.0}
