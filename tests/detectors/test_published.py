"""The published method does what the paper says, and misses what sums over a run cannot show."""

from __future__ import annotations

import numpy as np

from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.runtime.operations import BY_NAME
from tests.benchmarks.published import (
    abnormal_vertices,
    backtrack,
    detect,
    largest_imbalance,
    non_scalable_vertices,
)
from tests.detectors.scaling_jobs import LINES, analyse, program


def late(rank, ranks):
    return {"solve": 50, "table": 60 if rank == 2 else 20}


def test_it_finds_a_late_rank_from_the_collective():
    analysis = analyse(program(4, late))
    found = detect(analysis.ppg, analysis.waits)
    assert {(rank, analysis.ppg.psg[vertex].place.line) for rank, vertex in found.abnormal} == {(2, LINES["table"] + 1)}
    top = found.findings[0]
    assert (top.ranks, top.line) == ([2], LINES["table"] + 1)


def test_it_misses_what_moves_between_the_ranks():
    def actions(rank):
        result = [("coll", "barrier", [0, 1, 2, 3], -1)]
        for step in range(12):
            result += [("work", "solve", 50), ("work", "table", 60 if step % 4 == rank else 20)]
            result.append(("coll", "allreduce", [0, 1, 2, 3], -1))
        return result

    analysis = analyse([actions(rank) for rank in range(4)])
    assert detect(analysis.ppg, analysis.waits).findings == []
    assert analysis.findings[0].line == LINES["table"] + 1  # ours does not


def test_abnormal_is_more_than_1_3_times_the_typical_time():
    time_s = np.array([[1.0, 1.0, 1.0, 1.4], [1.0, 1.0, 1.0, 1.2], [0.001, 0.001, 0.001, 0.01]])
    assert abnormal_vertices(time_s) == [(3, 0)]


def test_non_scalable_vertices_are_ordered_by_slope():
    p = np.array([2, 4, 8])
    time_s = np.stack([4.0 / p, 0.1 * p, np.full(3, 0.2), np.full(3, 1e-5)])
    found = non_scalable_vertices(time_s, [2, 4, 8])
    assert [vertex for vertex, _ in found] == [1, 2, 0]
    assert np.allclose([slope for _, slope in found], [1.0, 0.0, -1.0])


def graph():
    """main: loop of (compute, recv), then compute, then allreduce."""
    psg, file = PSG("job.py"), "/job/job.py"
    main = psg.add(VertexKind.FUNCTION, Place(file, 1, 9, 0, "main"), 0)
    loop = psg.add(VertexKind.LOOP, Place(file, 2, 4, 4, "loop"), main)
    work = psg.add(VertexKind.COMP, Place(file, 3, 3, 8, "work"), loop)
    recv = psg.add(VertexKind.COMM, Place(file, 4, 4, 8, "recv"), loop, BY_NAME["recv"].code)
    after = psg.add(VertexKind.COMP, Place(file, 5, 5, 4, "after"), main)
    reduce = psg.add(VertexKind.COMM, Place(file, 6, 6, 4, "allreduce"), main, BY_NAME["allreduce"].code)
    return psg, main, loop, work, recv, after, reduce


def test_the_walk_crosses_ranks_only_where_they_wait():
    psg, main, loop, work, recv, after, reduce = graph()
    alone = backtrack(psg, {}, (0, reduce))
    assert alone == [(0, reduce), (0, after), (0, loop), (0, recv), (0, work), (0, main)]
    waiting = backtrack(psg, {(0, reduce): (1, reduce), (1, recv): (2, recv)}, (0, reduce))
    before = [(0, reduce), (1, reduce), (1, after), (1, loop), (1, recv)]
    assert waiting == [*before, (2, recv), (2, work), (2, loop), (2, main)]


def test_the_walk_ends_at_a_collective():
    psg, main, *_ = graph()
    last = psg.add(VertexKind.COMP, Place("/job/job.py", 7, 7, 4, "last"), main)
    assert backtrack(psg, {(0, last - 1): (1, last - 1)}, (0, last)) == [(0, last), (0, last - 1)]


def test_the_walk_does_not_go_in_circles():
    psg, main, loop, work, recv, after, reduce = graph()
    steps = backtrack(psg, {(0, recv): (1, recv), (1, recv): (0, recv)}, (0, recv))
    assert len(steps) == len(set(steps))


def test_the_naive_answer_is_the_largest_imbalance():
    analysis = analyse(program(4, late))
    rank, vertex = largest_imbalance(analysis.ppg)
    assert (rank, analysis.ppg.psg[vertex].place.line) == (2, LINES["table"] + 1)
