"""Parts of the data of unequal size as the cause of lateness: what is said, and what equal parts would save.

The programs are cut into equal parts here, and simulated: that is what predictions are compared with.
"""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.late_ranks.uneven_sizes import belong
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.argument_sizes import ARGUMENT, argument_sizes
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import sizes
from scalana.runtime.record.span_kinds import SIZES
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

RANKS, STEPS, NOTED = 4, 20, 3
EDGES = (4000, 3000, 9000, 4500)
EDGE_MS, BASE_MS = 0.01, 5.0


def program_of(edges, extra_ms=(0.0, 0.0, 0.0, 0.0)):
    """Steps that take time for each edge and some for anything else, with noise of a per cent, and an allreduce."""
    random = np.random.default_rng(1)
    program = [[] for _ in range(RANKS)]
    for _ in range(STEPS):
        for rank in range(RANKS):
            noise = float(np.exp(random.normal(0.0, 0.01)))
            program[rank] += [("work", "aggregate", noise * (EDGE_MS * edges[rank] + BASE_MS) + extra_ms[rank])]
            program[rank] += [("coll", "allreduce", list(range(RANKS)), -1)]
    return program


def spans_of(edges, vertex):
    """What the recorder writes of these arguments on some steps: nodes are equal on all ranks."""
    says = [{"kind": SIZES, ARGUMENT + "x": 800, ARGUMENT + "edge_index": 2 * some} for some in edges]
    spans = [Span(rank, "other", SIZES, 0.0, 0.0, says[rank], step) for rank in range(RANKS) for step in range(NOTED)]
    return as_columns(spans, range(RANKS), vertex)


def findings(edges, noted=None, **options):
    timeline, names = simulate(program_of(edges, **options))
    psg = structure(names)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=RANKS)
    spans = spans_of(noted or edges, names.index("aggregate"))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans)).findings


def ended_s(edges):
    return float(simulate(program_of(edges))[0].locations.end_s.max())


def test_a_part_with_more_edges_is_named_with_its_size_and_what_equal_parts_save() -> None:
    first, *others = findings(EDGES)
    assert (first.kind, first.ranks) == ("uneven-sizes", [2])
    assert not others
    assert claim(first, RANKS).startswith("Rank 2 handles 2.1 times the edges of the median rank")
    assert sizes(first, RunInfo(cwd="/")).startswith("9,000 edges, on the median rank 4,250, explain 100 %")
    saved_s = ended_s(EDGES) - ended_s((5125,) * RANKS)
    assert first.saving_s == pytest.approx(saved_s, rel=0.05)
    assert first.evidence.as_dict()["sizes"] == list(EDGES)
    assert "4,000, 3,000, 9,000, 4,500" in first.advice


@pytest.mark.parametrize(
    "noted",
    [(4000, 4000, 4000, 4000), (4000, 4000, 4400, 4000), (4000, 4000, 2000, 4000), (9000, 4000, 4000, 4000)],
    ids=["equal", "a little larger", "smaller", "another rank"],
)
def test_a_rank_that_is_late_for_another_reason_is_not_blamed_on_its_part(noted) -> None:
    first, *_ = findings((4000,) * RANKS, noted, extra_ms=(0.0, 0.0, 50.0, 0.0))
    assert (first.kind, first.ranks) == ("late-ranks", [2])


def test_two_sizes_explain_nothing() -> None:
    """A rank with twice the edges takes twice as long, and so it might for any other reason."""
    first, *_ = findings((4000, 4000, 8000, 4000))
    assert (first.kind, first.ranks) == ("late-ranks", [2])


def test_work_in_another_loop_than_the_call_is_not_explained_by_its_arguments() -> None:
    psg = PSG("program")
    module = psg.add(VertexKind.FUNCTION, Place("train.py", 1, 90, 0, "<module>"), 0)
    first, second = (psg.add(VertexKind.LOOP, Place("train.py", at, at + 5, 0, "for"), module) for at in (10, 20))
    call, beside, elsewhere = (
        psg.add(VertexKind.COMP, Place("train.py", line, line, 0, "x"), loop)
        for line, loop in ((12, first), (13, first), (23, second))
    )
    assert belong(beside, call, psg) and not belong(elsewhere, call, psg)


def test_calls_of_one_step_count_together() -> None:
    spans = spans_of(EDGES, 1)
    spans.table.step[:] = 0
    by_name = {one.name: one.elements.tolist() for one in argument_sizes(spans, RANKS)}
    assert by_name["edge_index"] == [2.0 * NOTED * edges for edges in EDGES]
