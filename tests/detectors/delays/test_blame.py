"""The worked examples: who is to blame, and that the two sums hold."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.whatif.replay import prepare
from tests.detectors import examples
from tests.detectors.simulator import simulate


def table(program, **options):
    """Waiting in ms, and blame in ms by (rank, activity)."""
    timeline, names = simulate(program, **options)
    waits = find_waits(timeline)
    result = blame(timeline, waits)
    assert result.seconds.sum() == pytest.approx(waits.total_s, rel=1e-9)
    per_group = np.bincount(result.shares.group, result.shares.share, len(result.groups.group_wait_s))
    per_group += np.bincount(result.shares.handed_from, result.shares.handed_share, len(per_group))
    np.testing.assert_allclose(per_group, 1.0, rtol=1e-9)
    blamed: dict[tuple[int, str], float] = {}
    for location, target, seconds in zip(result.location, result.target, result.seconds, strict=True):
        kind, row = result.numbering.describe(int(target))
        name = names[row] if kind == TargetKind.OWN else kind.name
        blamed[int(location), name] = blamed.get((int(location), name), 0.0) + seconds * 1e3
    return waits.total_s * 1e3, blamed


def check(program, waiting, expected, **options):
    total, blamed = table(program, **options)
    assert total == pytest.approx(waiting)
    assert set(blamed) == set(expected)
    for key, value in expected.items():
        assert blamed[key] == pytest.approx(value), key


def test_the_cause_is_found_behind_a_decoy_that_differs_more_and_later():
    check(examples.decoy(), 90, {(1, "mask"): 90})


def test_a_chain_of_messages_leads_back_to_its_first_rank():
    expected = {(0, "assemble"): 145, (0, "relax"): 29, (1, "relax"): 21, (2, "relax"): 13, (3, "relax"): 8}
    check(examples.chain(), 216, expected)


@pytest.mark.parametrize("forward_ms", [20, 5], ids=["part of the cause", "too little to look further back"])
def test_who_posts_a_collective_late_on_the_way_is_late_by_what_comes_before_it_too(forward_ms):
    """A bucket of gradients is handed over between the two parts, by which rank 1 is late, and not waited for."""
    meet = ("coll", "allreduce", [0, 1], -1)

    def step(forward, backward):
        post = ("post", "allreduce", [0, 1])
        return [meet, ("work", "forward", 30 + forward), post, ("work", "backward", 40 + backward)]

    program = [steps * 5 + [meet] for steps in (step(0, 0), step(forward_ms, 30))]
    told = {(1, "forward"): 100, (1, "backward"): 150} if forward_ms == 20 else {(1, "backward"): 175}
    check(program, 5 * (forward_ms + 30), told)


def test_a_cause_two_communicators_away():
    check(examples.grid(), 90, {(3, "refine"): 90})


def test_only_the_longest_of_two_causes_made_anybody_wait():
    check(examples.masked(), 70, {(1, "f"): 70})


def test_a_fault_that_moves_is_blamed_on_each_rank_in_its_turn():
    check(examples.moving(), 720, {(rank, "rebuild"): 180 for rank in range(4)})


def test_a_late_root_keeps_its_receivers_waiting():
    check(examples.late_root(), 150, {(0, "save"): 150})


def test_slowness_that_made_nobody_wait_is_not_blamed():
    check(examples.absorbed(), 90, {(1, "x"): 90})


def test_lateness_from_before_the_record_is_carried_in():
    program = [[*examples.work(f=10), examples.everyone()] for _ in range(4)]
    check(program, 60, {(2, "CARRIED_IN"): 60}, start_ms=[0, 0, 20, 0])


def test_a_message_that_lay_there_is_no_common_start():
    """Rank 1 is late before it takes what rank 0 has sent long ago; its answer makes rank 0 wait."""
    step = [
        [("send", 1), ("recv", 1)],
        [*examples.work(long=40), ("recv", 0), *examples.work(reply=4), ("send", 0)],
    ]
    check([rank * 10 for rank in step], 440, {(1, "long"): 400, (1, "reply"): 40})


def test_what_a_waiter_did_before_it_took_a_message_is_compared_too():
    """Rank 0 sends before it computes, and rank 1 receives after it has computed as much: that is no difference."""
    step = [
        [("send", 1), *examples.work(compute=40, late=10), ("send", 1)],
        [*examples.work(compute=40), ("recv", 0), ("recv", 0)],
    ]
    check([[("coll", "barrier", [0, 1], -1), *(rank * 10)] for rank in step], 100, {(0, "late"): 100})


def test_who_handed_over_twice_waits_for_whom_its_root_waited_for():
    """Sizes are gathered, then objects: all but the root have left both before the late rank comes to the first."""
    program = [
        [
            *examples.work(model=45 if rank == 2 else 5),
            *(examples.everyone("reduce", 0), examples.everyone("reduce", 0), examples.everyone("broadcast", 0)),
            examples.everyone(),
        ]
        * 4
        for rank in range(4)
    ]
    check(program, 480, {(2, "model"): 480})


def test_who_leaves_a_collective_later_than_the_others_is_late_from_then_on():
    """Without a core, say: that is no mystery, and nothing of what it does next."""
    steps, stays, more = 5, 8, 4
    program = [
        [
            *examples.work(own=10, extra=more if rank == 2 else 0),
            (*examples.everyone(), stays if rank == 2 else 0),
        ]
        * steps
        for rank in range(4)
    ]
    late = {(2, "extra"): 3 * steps * more, (2, "TRANSFER"): 3 * (steps - 1) * stays}
    check(program, sum(late.values()), late)


def test_who_hands_its_part_to_a_late_root_waits_for_it():
    """Where messages are not buffered; the simulator's reduce is, so the others' exits are moved."""
    program = [
        [*examples.work(own=10, log=30 if rank == 0 else 0), examples.everyone("reduce", 0)] for rank in range(4)
    ]
    timeline, names = simulate(program)
    assert find_waits(timeline).total_s == 0.0
    timeline.calls.exit_s[:] = 0.040
    waits = find_waits(timeline)
    assert waits.total_s == pytest.approx(0.090)
    result = blame(timeline, waits)
    assert [(int(result.location[0]), names[int(result.target[0])])] == [(0, "log")]
    assert result.seconds[0] == pytest.approx(0.090)


def test_what_a_late_root_waited_for_in_the_last_common_gather_is_handed_on():
    """Rank 3 is late at every gather to rank 0; ranks 1 and 2 wait for rank 0, which is still in the gather before."""
    steps = 10
    program = [
        [
            action
            for _ in range(steps)
            for action in [*examples.work(own=10, log=30 if rank == 3 else 0), examples.everyone("reduce", 0)]
        ]
        for rank in range(4)
    ]
    timeline, names = simulate(program)
    # Not buffered: a rank that is not the root leaves once the root is there, and goes on from then.
    calls = timeline.calls
    calls.enter_s, calls.exit_s = rendezvous(steps, [10, 10, 10, 40])
    waits = find_waits(timeline)
    result = blame(timeline, waits)
    late = sum(s for t, s in zip(result.target, result.seconds, strict=True) if t == names.index("log"))
    assert waits.total_s > 0.5
    assert late == pytest.approx(waits.total_s, rel=0.05)


def rendezvous(steps, work_ms):
    """Entry and exit of the gathers of four ranks to rank 0, in seconds, rank by rank."""
    enter, leave, now = np.zeros((4, steps)), np.zeros((4, steps)), np.zeros(4)
    for step in range(steps):
        enter[:, step] = now + np.array(work_ms) / 1e3
        leave[1:, step] = np.maximum(enter[1:, step], enter[0, step])
        leave[0, step] = enter[:, step].max()
        now = leave[:, step]
    return enter.ravel(), leave.ravel()


def test_a_root_that_stays_until_its_receivers_come_waits_for_them():
    program = [
        [*examples.work(own=10, read=30 if rank == 2 else 0), examples.everyone("broadcast", 0)] for rank in range(4)
    ]
    timeline, names = simulate(program)
    assert find_waits(timeline).total_s == 0.0
    timeline.calls.exit_s[0] = 0.040
    waits = find_waits(timeline)
    assert waits.total_s == pytest.approx(0.030)
    result = blame(timeline, waits)
    assert [(int(result.location[0]), names[int(result.target[0])])] == [(2, "read")]


def test_a_receiver_that_stays_for_another_one_waits_for_it():
    """In a broadcast along a tree: rank 3 has it from rank 1, which comes late; ranks 0 and 2 do not mind."""
    program = [
        [*examples.work(own=10, read=30 if rank == 1 else 0), examples.everyone("broadcast", 0)] for rank in range(4)
    ]
    timeline, names = simulate(program)
    timeline.calls.exit_s[3] = 0.041
    waits = find_waits(timeline)
    assert waits.wait_s == pytest.approx([0, 0, 0, 0.030])
    result = blame(timeline, waits)
    assert [(int(result.location[0]), names[int(result.target[0])])] == [(1, "read")]
    # Who is there long after the late one came has had other things to do.
    timeline.calls.exit_s[3] = 0.060
    assert find_waits(timeline).total_s == 0.0


def test_an_exchange_that_members_leave_before_others_come_is_no_common_start():
    """Who has nothing for others in an alltoall may leave at once: what rank 1 did before it explains its lateness."""
    program = [
        [*examples.work(own=10), examples.everyone(), *examples.work(own=10, read=30 if rank == 1 else 0)]
        + [examples.everyone("alltoall"), examples.everyone("barrier")]
        for rank in range(4)
    ]
    timeline, names = simulate(program)
    calls = timeline.calls
    exchange = np.array([1, 7, 10])  # of the others; the barrier comes right behind it
    calls.exit_s[exchange] = calls.enter_s[exchange + 1] = calls.enter_s[exchange]
    waits = find_waits(timeline)
    assert waits.wait_s[exchange + 1] == pytest.approx(0.030)
    result = blame(timeline, waits)
    assert [(int(result.location[0]), names[int(result.target[0])])] == [(1, "read")]
    assert result.seconds == pytest.approx([0.090])


def test_a_lower_rank_of_a_scan_that_stays_for_a_higher_one_waits_for_it():
    """Libraries let ranks exchange what they hold: rank 0 leaves when rank 1 has come, rank 2 does when rank 3 has."""
    program = [[*examples.work(own=10, read=30 if rank == 1 else 0), examples.everyone("scan")] for rank in range(4)]
    timeline, names = simulate(program)
    timeline.calls.exit_s[0] = 0.011
    assert find_waits(timeline).wait_s == pytest.approx([0, 0, 0.030, 0.030])
    timeline.calls.exit_s[0] = 0.041
    waits = find_waits(timeline)
    assert waits.wait_s == pytest.approx([0.030, 0, 0.030, 0.030])
    result = blame(timeline, waits)
    assert [(int(result.location[0]), names[int(result.target[0])])] == [(1, "read")]
    sooner = prepare(timeline).end_s(np.where(np.arange(8) == 1, 0.030, 0.0))
    assert sooner[0] == pytest.approx(0.011)


def test_a_reduction_along_a_ring_makes_everybody_wait_for_the_last():
    program = [
        [*examples.work(own=10, read=30 if rank == 2 else 0), examples.everyone("reduce", 0)] for rank in range(4)
    ]
    timeline, _ = simulate(program)
    assert find_waits(timeline).wait_s == pytest.approx([0.030, 0, 0, 0])
    timeline.calls.exit_s[:] = 0.041
    assert find_waits(timeline).wait_s == pytest.approx([0.030, 0.030, 0, 0.030])


def test_what_who_sends_to_several_did_before_all_of_it_counts_once_for_each():
    """The root computes as much as the others, and sums up before it sends to them from one line."""
    program = [
        [examples.everyone("barrier"), *examples.work(own=30, read=6 if rank == 0 else 0)]
        + ([("send", other) for other in (1, 2, 3)] if rank == 0 else [("recv", 0)])
        for rank in range(4)
    ]
    check(program, 18, {(0, "read"): 18})
