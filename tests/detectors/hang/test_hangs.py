"""A rank that never comes is named with the line in which it stayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.hang import hangs as hangs
from scalana.graphs.dependences.unmatched import OpenCall
from scalana.graphs.lost_hosts import LostHost
from scalana.graphs.readers.columns.gather import Communicator
from scalana.graphs.run_info import RunInfo
from scalana.graphs.structure.psg import VertexKind
from scalana.graphs.timeline import OwnWork
from scalana.runtime.operations import BY_NAME
from tests.detectors import examples
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate


def stopped(opens, last_work):
    """A job of four ranks that took one step, then did ``last_work`` (rank: activity) for 10 s, and its open calls."""
    timeline, names = simulate([[*examples.work(step=5, stuck=1), examples.everyone()] for _ in range(4)])
    own = timeline.own
    count = len(timeline.calls)
    gap = np.append(own.burst, [count + rank for rank in last_work])
    activity = np.append(own.activity, [names.index(name) for name in last_work.values()])
    seconds = np.append(own.seconds, [10.0] * len(last_work))
    timeline.own = OwnWork(gap, activity, seconds, seconds, 0 * seconds, gap)
    vertex = names.index("allreduce")
    world = Communicator("world", (0, 1, 2, 3))
    calls = [
        OpenCall(rank, BY_NAME[operation].code, vertex, 0.0, 0, sequence, seconds, peer)
        for rank, operation, sequence, seconds, peer in opens
    ]
    run = RunInfo(ranks=4, communicators=[world], open_calls=calls)
    return timeline, structure(names), run, names


def test_the_rank_that_did_not_come_is_the_cause():
    opens = [(rank, "allreduce", 7, 10.0, -1) for rank in (0, 1, 3)]
    timeline, psg, run, names = stopped(opens, {2: "stuck"})
    (finding,) = hangs.detect(timeline, psg, run)
    assert (finding.kind, finding.ranks, names[finding.line - 1]) == ("hang", [2], "stuck")
    assert finding.lost_s == pytest.approx(30.0)
    assert finding.lost_share == pytest.approx(1.0)
    assert finding.evidence.as_dict()["waiting_ranks"] == [0, 1, 3]
    assert "Rank 2 never reached" in finding.advice


def test_ranks_without_a_record_may_have_come():
    opens = [(rank, "allreduce", 7, 10.0, -1) for rank in (0, 1)]
    timeline, psg, run, names = stopped(opens, {2: "stuck"})
    (finding,) = hangs.detect(timeline, psg, replace(run, missing_ranks=[3]))
    assert finding.ranks == [2]
    assert not hangs.detect(timeline, psg, replace(run, missing_ranks=[2, 3]))
    sends = [(0, "recv", 3, 10.0, 1)]
    timeline, psg, run, names = stopped(sends, {1: "stuck"})
    assert hangs.detect(timeline, psg, run)
    assert not hangs.detect(timeline, psg, replace(run, missing_ranks=[1]))


def test_ranks_of_a_host_that_died_are_one_cause():
    opens = [(0, "recv", 3, 10.0, 3), (1, "allreduce", 3, 10.0, -1)]
    timeline, psg, run, _ = stopped(opens, {2: "stuck", 3: "step"})
    assert {finding.ranks[0] for finding in hangs.detect(timeline, psg, run)} >= {2, 3}
    lost = LostHost("node1", (2, 3), 5.0, 15.0)
    (finding,) = hangs.detect(timeline, psg, replace(run, lost_hosts=[lost]))
    assert finding.ranks == [2, 3] and finding.lost_s == pytest.approx(20.0), "each call once"
    assert finding.lost_share == pytest.approx(1.0)
    assert finding.evidence.as_dict()["waiting_ranks"] == [0, 1]
    assert "node1 was last heard of at 5.0 s" in finding.advice


def test_a_rank_that_asks_for_ever_waits_for_another_one():
    """Rank 0 looks for a message of rank 2's, over and over; the others are in an operation to which neither comes."""
    opens = [(rank, "allreduce", 7, 10.0, -1) for rank in (1, 3)]
    timeline, psg, run, names = stopped(opens, {0: "step", 2: "stuck"})
    assert {finding.ranks[0] for finding in hangs.detect(timeline, psg, run)} == {0, 2}
    loop, line = len(psg), names.index("step")
    place = replace(psg[line].place, name="while (!flag)")
    psg.vertices.append(replace(psg[line], index=loop, kind=VertexKind.LOOP, place=place, children=[line, loop + 1]))
    psg.vertices.append(replace(psg[line], index=loop + 1, kind=VertexKind.COMM, operation=BY_NAME["test"].code))
    for inside in (line, loop + 1):
        psg.vertices[inside].parent = loop
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [2]
    timeline, _, run, _ = stopped(opens + [(2, "allreduce", 7, 10.0, -1)], {0: "step"})
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [0] and "asked for something" in finding.advice


def test_ranks_whose_call_failed_had_come():
    timeline, psg, run, names = stopped([(3, "allreduce", 7, 10.0, -1)], {1: "step", 2: "stuck"})
    instances = timeline.instances
    ends = timeline.calls.first[1:] - 1  # every rank's last call
    assert len(set(timeline.calls.posts[ends].tolist())) == 1
    instances.complete[timeline.calls.posts[ends]] = False
    instances.communicator[:] = 0
    timeline.calls.exit_s[ends] += [1.0, 1.0, -9.0, -9.0]
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [2] and names[finding.line - 1] == "stuck"


def test_a_rank_that_waits_for_a_message_of_another_is_not_the_cause():
    opens = [*((rank, "allreduce", 7, 10.0, -1) for rank in (0, 3)), (1, "recv", 3, 10.0, 2)]
    timeline, psg, run, _ = stopped(opens, {2: "stuck"})
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [2]
    assert finding.lost_s == pytest.approx(30.0)


def test_ranks_that_disagree_on_what_comes_next():
    opens = [*((rank, "allreduce", 7, 10.0, -1) for rank in (0, 1, 3)), (2, "barrier", 7, 10.0, -1)]
    timeline, psg, run, _ = stopped(opens, {})
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [2]
    assert "disagree" in finding.advice


def test_calls_that_were_open_for_a_moment_are_no_hang():
    opens = [(rank, "allreduce", 7, 0.2, -1) for rank in (0, 1, 3)]
    timeline, psg, run, _ = stopped(opens, {2: "stuck"})
    assert hangs.detect(timeline, psg, run) == []


def test_ranks_that_disagree_on_a_broadcast_are_not_taken_for_failed_ones():
    opens = [*((rank, "allreduce", 7, 10.0, -1) for rank in (0, 1, 3)), (2, "broadcast", 7, 10.0, 1)]
    timeline, psg, run, _ = stopped(opens, {})
    calls, instances = timeline.calls, timeline.instances
    ends = calls.first[1:] - 1  # every rank's last call is the open one, and one instance for all that they called
    instances.complete[calls.posts[ends]] = False
    instances.communicator[:] = 0
    calls.operation[ends[2]] = BY_NAME["broadcast"].code
    calls.exit_s[ends] += 10.0
    run.open_calls = [replace(call, since_s=float(calls.enter_s[ends[call.rank]])) for call in run.open_calls]
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [2]
    assert finding.evidence.as_dict()["waiting_ranks"] == [0, 1, 3]


def test_ranks_that_wait_for_messages_of_each_other_are_one_finding():
    opens = [(0, "recv", 1, 10.0, 2), (2, "recv", 1, 10.0, 1), (1, "blocking_send", 1, 10.0, 0)]
    timeline, psg, run, _ = stopped([*opens, (3, "allreduce", 7, 10.0, -1)], {})
    (finding,) = hangs.detect(timeline, psg, run)
    assert finding.ranks == [0, 1, 2]
    assert finding.evidence.as_dict()["circle"] == [0, 2, 1]
    assert "rank 0 for 2, 2 for 1, 1 for 0" in finding.advice


def test_an_operation_to_which_all_came_after_the_record_of_one_had_stopped_is_no_hang():
    timeline, psg, run, _ = stopped([(1, "allreduce", 0, 10.0, -1)], {})
    assert hangs.detect(timeline, psg, run) != []
    (call,) = np.flatnonzero((timeline.calls.location == 1) & (timeline.calls.operation == BY_NAME["allreduce"].code))
    run.open_calls[0] = replace(run.open_calls[0], since_s=float(timeline.calls.enter_s[call]))
    assert hangs.detect(timeline, psg, run) == []
    timeline.instances.complete[timeline.calls.posts[call]] = False
    assert hangs.detect(timeline, psg, run) != []
