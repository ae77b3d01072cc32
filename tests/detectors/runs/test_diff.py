"""Two runs compared: what changed, in seconds that add up, and the root causes that came and went."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors.runs.costs import run_costs, setup_vertices
from scalana.detectors.runs.diff import _shared, compare
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from tests.detectors.scaling_jobs import LINES, STEPS, analyse, program


def balanced(rank, ranks):
    return {"solve": 50, "table": 20}


def late(rank, ranks):
    return {"solve": 50, "table": 60 if rank == 2 else 20}


def slower(rank, ranks):
    return {"solve": 50, "table": 30}


def diff(before, after, *, moved=0, ranks=(4, 4), **options):
    first = analyse(program(ranks[0], before, seed=1, **options))
    second = analyse(program(ranks[1], after, seed=2, **options), moved=moved)
    return compare(run_costs(first, "before"), run_costs(second, "after"), (first, second))


def total(difference):
    return (
        sum(change.change_s for change in difference.changes)
        + difference.rest_s
        + difference.setup_s
        + difference.core_wait_s
    )


@pytest.mark.parametrize("moved", [0, 7])
def test_a_late_rank_is_the_change_and_the_new_cause(moved):
    found = diff(balanced, late, moved=moved, noise=0.02)
    change = found.changes[0]
    assert change.line == LINES["table"] + 1 + moved and change.only == ""
    assert change.work_s == pytest.approx(STEPS * 0.040 / 4, rel=0.15)  # on one of four ranks
    assert change.waiting_s == pytest.approx(STEPS * 0.040 * 3 / 4, rel=0.15)
    assert change.change_s > 10 * change.noise_s
    assert [finding.ranks for finding in found.appeared] == [[2]]
    assert found.vanished == [] and found.stayed == []
    assert total(found) == pytest.approx(found.after.mean_s - found.before.mean_s)


def test_what_was_mended_vanishes():
    found = diff(late, balanced, moved=3)
    assert found.changes[0].change_s < 0
    assert [finding.line for finding in found.vanished] == [LINES["table"] + 1]
    assert found.appeared == []


def test_a_cause_that_stays_is_told_with_both_losses():
    def later(rank, ranks):
        return {"solve": 50, "table": 100 if rank == 2 else 20}

    found = diff(late, later)
    assert found.appeared == found.vanished == []
    (pair,) = found.stayed
    assert pair.change_s == pytest.approx(STEPS * 0.040 * 3, rel=0.05)


def test_work_that_grew_everywhere_is_told_though_nobody_waits():
    found = diff(balanced, slower, noise=0.02)
    assert found.changes[0].line == LINES["table"] + 1
    assert found.changes[0].work_s == pytest.approx(STEPS * 0.010, rel=0.2)
    assert found.appeared == []


def test_noise_is_no_change():
    found = diff(balanced, balanced, noise=0.05)
    assert [change.line for change in found.changes if change.work_s > 0.5 * change.waiting_s] == []
    assert total(found) == pytest.approx(found.after.mean_s - found.before.mean_s)


def test_places_that_came_and_went_are_named():
    def other(rank, ranks):
        return {"solve": 50, "other": 35}

    found = diff(balanced, other)
    assert {(change.line, change.only) for change in found.changes} == {
        (LINES["table"] + 1, "before"),
        (LINES["other"] + 1, "after"),
    }


def test_another_size_is_told():
    found = diff(balanced, balanced, ranks=(4, 8))
    assert any("scalana scaling" in warning for warning in found.warnings)


def test_places_of_both_runs_are_what_they_share():
    cost_s = np.array([[9.0, 9.0], [1.0, 0.0], [3.0, 1.0], [0.0, 4.0]])
    table: Any = SimpleNamespace(setup=np.array([True, False, False, False]), cost_s=cost_s)
    assert _shared(table) == pytest.approx(0.75)  # of the first; it is 0.2 of the second
    cost_s[2] = 0.0
    assert _shared(table) == 0.0


def test_a_slower_machine_is_suspected():
    def everything(rank, ranks):
        return {"solve": 60, "table": 24, "halo": 12}

    def before(rank, ranks):
        return {"solve": 50, "table": 20, "halo": 10}

    def edited(rank, ranks):
        return {"solve": 100, "table": 24, "halo": 11}

    assert any("20%" in warning for warning in diff(before, everything).warnings)
    assert diff(before, before).warnings == []
    assert diff(before, edited).warnings == []  # each by another factor


def test_a_run_that_lacks_something_is_told():
    first, second = (analyse(program(4, balanced, seed=seed)) for seed in (1, 2))
    second.ppg.run.exit_code = 137
    second.ppg.run.warnings = ["no record of ranks 4, 5 of 6: what they do is unknown", "else"]
    found = compare(run_costs(first, "before"), run_costs(second, "after"), (first, second))
    assert [text[:18] for text in found.warnings] == ["after: no record o", "after: ended with "]


def test_a_change_that_sampling_cannot_tell_is_none():
    """In 12 steps, 4 or 6 ms more are about as many samples of 5 ms."""

    def changes(period_s):
        runs = []
        for ms in (4, 6):
            extra = {"solve": 20, "table": 10}, {"solve": 20, "table": 10 + ms}
            runs.append(analyse(program(4, lambda rank, _, extra=extra: extra[rank == 2]), period_s=period_s))
        return compare(run_costs(runs[0], "before"), run_costs(runs[1], "after"), (runs[0], runs[1])).changes

    assert [change.line for change in changes(0.0)] == [LINES["table"] + 1]
    assert changes(0.005) == []


@pytest.mark.parametrize(
    ("kind", "file", "name", "setup"),
    [
        (VertexKind.CALL, "/home/mail.py", "thread serve", False),
        (VertexKind.FUNCTION, "/home/mail.py", "serve", False),
        (VertexKind.CALL, "/lib/python3/weakref.py", "finalize._exitfunc", True),
        (VertexKind.CALL, "<frozen importlib._bootstrap>", "import", True),
        (VertexKind.FUNCTION, "[native]", "gloo_tcp_loop", True),
    ],
)
def test_a_users_thread_is_no_part_of_the_start_wherever_the_job_was_started(kind, file, name, setup):
    psg = PSG()
    psg.add(VertexKind.FUNCTION, Place("/home/main.py", 1, 9, 0, "<module>"), 0)
    vertex = psg.add(kind, Place(file, 5, 5, -1, name), 0)
    psg.added.add(vertex)
    assert setup_vertices(psg, "/elsewhere").tolist() == [False, False, setup]


def elsewhere(analysis, file):
    """The analysis of the same program, as if it stood in another file."""
    for vertex in analysis.ppg.psg.vertices:
        analysis.ppg.psg.vertices[vertex.index] = replace(vertex, place=replace(vertex.place, file=file))
    return analysis


@pytest.mark.parametrize(("file", "warns"), [("/other/checkout/job.py", False), ("/job/another.py", True)])
def test_programs_of_another_name_are_different_and_those_of_another_folder_are_not(file, warns):
    first = analyse(program(4, balanced, seed=1))
    second = elsewhere(analyse(program(4, late, seed=2)), file)
    found = compare(run_costs(first, "before"), run_costs(second, "after"), (first, second))
    assert any("different programs (job.py, another.py)" in text for text in found.warnings) == warns
    if not warns:
        assert [(change.line, change.only) for change in found.changes] == [(LINES["table"] + 1, "")]
