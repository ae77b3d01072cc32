"""Who waits for whom in neighbourhoods, epochs and locks: small jobs by hand, in ms, and the waits that follow."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scalana.detectors.delays.wait_states import find_waits
from scalana.graphs.dependences import add_progress, add_signals, returns
from scalana.graphs.dependences.matching import match
from scalana.graphs.dependences.progress import collective_progress
from scalana.graphs.readers.columns.gather import Communicator
from scalana.graphs.timeline import Activities, Calls, Locations, OwnWork, Timeline
from scalana.runtime.operations import BY_NAME
from tests.graphs.tables import make_events

WINDOW, RING = 0, 1
EVERYBODY = (0, 1, 2, 3)
COMMUNICATORS = [
    Communicator("comm:w", EVERYBODY),
    Communicator("comm:r", EVERYBODY),
    *(Communicator(f"comm:r/neighbours:{rank}", ((rank - 1) % 4, (rank + 1) % 4)) for rank in EVERYBODY),
    *(Communicator(f"comm:w/only{rank}", (rank,)) for rank in EVERYBODY),
    Communicator("comm:w/1and2", (1, 2)),
]
ONLY = 6
"""Communicator of the epochs with rank 0 alone; those with the others follow."""
ONE_AND_TWO = 10


def waits(*rows):
    """{(rank, enter): (ms waited, rank waited for)} of events that are a call each: (rank, op, enter, exit, ...)."""
    ordered = sorted(rows, key=lambda row: (row[0], row[2]))
    events = make_events(
        *({"op": op, "enter": enter, "exit": leave, "process": rank, "thread": rank, "communicator": WINDOW, **more}
          for rank, op, enter, leave, more in ordered)
    )  # fmt: skip
    rank = events.process
    calls_of = np.arange(len(events))
    sizes = np.array([len(communicator.ranks) for communicator in COMMUNICATORS])
    matching = match(events, rank, calls_of, sizes)
    own = np.flatnonzero(matching.of_event >= 0)
    calls = Calls(
        location=rank.copy(),
        vertex=np.zeros(len(events), np.int64),
        operation=events.operation,
        enter_s=events.enter_ns * 1e-9,
        exit_s=events.exit_ns * 1e-9,
        cpu_s=np.zeros(len(events)),
        nbytes=np.zeros(len(events), np.int64),
        posts=matching.of_event.copy(),
        first=np.searchsorted(rank, np.arange(5)).astype(np.int64),
        wait_first=np.searchsorted(own, np.arange(len(events) + 1)).astype(np.int64),
        waits=matching.of_event[own],
    )
    instances = add_signals(calls, matching.instances, events, calls_of, np.arange(4), COMMUNICATORS)
    instances = add_progress(calls, instances, np.arange(4), COMMUNICATORS)
    locations = Locations(np.arange(4), np.ones(4, np.bool_), np.zeros(4), np.ones(4))
    nothing = np.zeros(0, np.int64)
    work = OwnWork(nothing, nothing, np.zeros(0), np.zeros(0), np.zeros(0), nothing)
    timeline = Timeline(4, locations, calls, instances, work, Activities(nothing, nothing, nothing.astype(np.bool_)))
    found = find_waits(timeline)
    return {
        (int(rank[call]), ordered[call][2]): (
            pytest.approx(found.wait_s[call] * 1e3, abs=1e-6),
            int(rank[found.culprit[call]]),
        )
        for call in np.flatnonzero(found.wait_s > 0.0)
    }


def test_a_neighbourhood_waits_for_its_neighbours_alone():
    # Rank 3 comes last: its neighbours 0 and 2 stay for it, rank 1 leaves with the later of its own two.
    exits = [40, 12, 40, 41]
    enters = [10, 5, 12, 40]
    rows = [
        (rank, "neighbor_collective", enters[rank], exits[rank], {"communicator": RING, "seq": 0}) for rank in range(4)
    ]
    assert waits(*rows) == {(0, 10): (30, 3), (1, 5): (7, 2), (2, 12): (28, 3)}


def test_who_stays_in_a_neighbourhood_until_its_receiver_comes_waits_for_it():
    communicator = {"communicator": RING, "seq": 0}
    rows = [(rank, "neighbor_collective", 10, 50 if rank == 1 else 11, communicator) for rank in (0, 1, 3)]
    found = waits(*rows, (2, "neighbor_collective", 50, 51, communicator))
    assert found[1, 10] == (40, 2)


def epoch(rank, op, enter, leave, partners, seq=0):
    return rank, f"win_{op}", enter, leave, {"communicator": partners, "seq": seq}


def test_origins_wait_for_posts_and_targets_for_completes():
    # Rank 0 puts into ranks 1 and 2: rank 2 posts late, then rank 0 works and completes late.
    rows = [
        epoch(0, "start", 5, 30, ONE_AND_TWO), epoch(0, "complete", 60, 61, ONE_AND_TWO),
        epoch(1, "post", 4, 5, ONLY), epoch(1, "wait", 10, 60, ONLY),
        epoch(2, "post", 30, 31, ONLY), epoch(2, "wait", 40, 60, ONLY),
    ]  # fmt: skip
    assert waits(*rows) == {(0, 5): (25, 2), (1, 10): (50, 0), (2, 40): (20, 0)}


def test_a_start_that_does_not_wait_leaves_it_to_complete():
    rows = [
        epoch(0, "start", 5, 6, ONLY + 1), epoch(0, "complete", 10, 30, ONLY + 1),
        epoch(1, "post", 30, 31, ONLY), epoch(1, "wait", 32, 33, ONLY),
    ]  # fmt: skip
    assert waits(*rows) == {(0, 5): (1, 1), (0, 10): (20, 1)}


def test_epochs_of_a_pair_follow_each_other_and_lost_ones_are_not_guessed():
    rows = []
    for step in range(3):
        at = 100 * step
        late = 20 if step == 1 else 0
        rows += [
            epoch(0, "start", at + 1, at + 2 + late, ONLY + 1, step),
            epoch(0, "complete", at + 30, at + 31, ONLY + 1, step),
            epoch(1, "post", at + late, at + late + 1, ONLY, step),
            epoch(1, "wait", at + 40, at + 41, ONLY, step),
        ]
    assert waits(*rows) == {(0, 101): (19, 1)}
    assert waits(*(row for row in rows if row[2] != 20)) == {(0, 101): (19, 1)}
    assert waits(*(row for row in rows if row[2] != 0)) == {}


def lock(rank, op, enter, leave, exclusive=True, target=3):
    return rank, f"win_{op}", enter, leave, {"peer": target, "tag": 2 if exclusive else 1}


@pytest.mark.parametrize("shared", [False, True])
def test_who_takes_a_lock_waits_for_its_holder(shared):
    rows = [
        lock(0, "lock", 0, 1, not shared), lock(0, "unlock", 30, 31, not shared),
        lock(1, "lock", 10, 31 if not shared else 11, not shared), lock(1, "unlock", 50, 51, not shared),
        lock(2, "lock", 20, 51 if not shared else 21, not shared), lock(2, "unlock", 60, 61, not shared),
    ]  # fmt: skip
    assert waits(*rows) == ({} if shared else {(1, 10): (20, 0), (2, 20): (30, 1)})


def test_a_lock_that_is_taken_only_at_its_end():
    # The lock returns at once; the unlock lasts until the other one has unlocked, and the holder waits for nobody.
    rows = [
        lock(0, "lock", 0, 1), lock(0, "unlock", 30, 31),
        lock(1, "lock", 2, 3), lock(1, "unlock", 10, 32),
    ]  # fmt: skip
    assert waits(*rows) == {(1, 10): (20, 0)}


def test_who_is_let_in_before_the_holders_unlock_returns_waits_for_it_and_not_the_other_way_round():
    rows = [
        lock(0, "lock", 0, 1), lock(0, "flush", 2, 3), lock(0, "unlock", 30, 40),
        lock(1, "lock", 10, 32), lock(1, "unlock", 33, 34),
    ]  # fmt: skip
    assert waits(*rows) == {(1, 10): (20, 0)}


def test_another_target_is_no_conflict_and_a_lock_of_all_is_one():
    rows = [lock(0, "lock", 0, 1), lock(0, "unlock", 30, 31)]
    assert waits(*rows, lock(1, "lock", 10, 31, target=2), lock(1, "unlock", 50, 51, target=2)) == {}
    everything = [lock(1, "lock", 10, 31, False, target=-1), lock(1, "unlock", 50, 51, target=-1)]
    assert waits(*rows, *everything) == {(1, 10): (20, 0)}


def test_an_access_waits_for_a_target_that_is_not_in_mpi():
    rows = [
        lock(0, "lock", 0, 1, False), lock(0, "unlock", 10, 41, False),
        (3, "barrier", 40, 60, {"communicator": RING, "seq": 0}),
        lock(1, "lock", 45, 46, False), lock(1, "unlock", 50, 58, False),  # the target is in its barrier all the time
    ]  # fmt: skip
    assert waits(*rows) == {(0, 10): (30, 3)}


def test_a_flush_of_all_waits_for_those_that_were_accessed():
    put = {"peer": 2}
    rows = [
        lock(0, "lock", 0, 1, False, target=-1), (0, "one_sided", 2, 3, put),
        lock(0, "flush", 5, 30, False, target=-1), lock(0, "flush", 40, 70, False, target=-1),
        (2, "barrier", 29, 31, {"communicator": RING, "seq": 0}),
        (2, "barrier", 69, 71, {"communicator": RING, "seq": 1}),
        (1, "barrier", 20, 21, {"communicator": RING, "seq": 0}),
    ]  # fmt: skip
    assert waits(*rows) == {(0, 5): (24, 2)}


def test_an_unlock_of_all_waits_for_whoever_comes_back_last_if_it_lasts_until_then(monkeypatch):
    def job(leave):
        return [
            lock(0, "lock", 0, 1, False, target=-1), (0, "one_sided", 2, 3, {"peer": 2}),
            lock(0, "unlock", 5, leave, False, target=-1),
            (2, "barrier", 6, 60, {"communicator": RING, "seq": 0}),
            (1, "barrier", 40, 60, {"communicator": RING, "seq": 0}),
        ]  # fmt: skip

    assert waits(*job(41))[0, 5] == (35, 1)
    assert (0, 5) not in waits(*job(8))
    monkeypatch.setattr(returns, "MOST_PAIRS", 1)
    assert (0, 5) not in waits(*job(41))


def send(enter, leave, seq=0, **more):
    return 0, "blocking_send", enter, leave, {"communicator": RING, "peer": 1, "seq": seq, **more}


def recv(enter, leave, seq=0):
    return 1, "recv", enter, leave, {"communicator": RING, "peer": 0, "seq": seq}


def test_a_send_without_room_goes_on_when_its_receiver_comes_back():
    # The second message is sent while the receiver works, and leaves as soon as that one is in MPI with the first.
    rows = [send(1, 2), recv(40, 41), send(5, 42, 1), recv(43, 44, 1)]
    assert waits(*rows) == {(0, 5): (35, 1)}


def test_a_send_whose_receiver_was_there_or_that_ended_long_after_it_came_is_no_wait():
    assert waits(send(1, 2), recv(3, 41), send(5, 42, 1), recv(43, 44, 1)) == {}
    assert waits(send(1, 2), recv(20, 21), send(5, 60, 1), recv(63, 64, 1)) == {}


def test_a_message_that_its_sender_was_done_with_waits_for_no_return():
    # The receiver is slow by itself; that the sender comes back to MPI shortly before has nothing to do with it.
    assert waits(send(0, 1), recv(10, 20), send(19, 30, seq=1), recv(40, 41, seq=1)) == {}


def test_a_send_that_its_receiver_has_waits_for_no_return():
    # The sender stays in the send while the receiver, which has the message, computes and comes back: it lacks a core.
    assert waits(recv(0, 10), send(1, 42), recv(41, 50, 1), send(45, 46, 1)) == {(1, 0): (1, 0), (1, 41): (4, 0)}


@pytest.mark.parametrize(("returns", "found"), [(30, [(3, 1)]), (20, [])], ids=["back", "back long before"])
def test_a_collective_that_was_posted_waits_for_the_last_member_to_come_back(returns, found):
    # Calls: rank 0 posts and waits from 1 to 31, rank 1 posts and comes back later.
    enter, leave = np.array([0.0, 1.0, 0.5, returns]), np.array([0.0, 31.0, 0.6, 31.0])
    calls = _Table(
        enter_s=1e-3 * enter, exit_s=1e-3 * leave, posts=np.array([0, -1, 0, -1]), wait_first=np.array([0, 0, 1, 1, 2]),
        waits=np.array([0, 0]),
    )  # fmt: skip
    instances = _Table(
        operation=np.array([BY_NAME["allreduce"].code]),
        communicator=np.array([0]),
        complete=np.array([True]),
    )
    signals = collective_progress(calls, instances, np.array([0, 0, 1, 1]), COMMUNICATORS)
    assert list(zip(signals.given.tolist(), signals.awaited.tolist(), strict=True)) == found


def broadcast(rank, enter, leave, seq=0):
    return rank, "broadcast", enter, leave, {"communicator": RING, "peer": 1, "seq": seq}


def barrier(rank, enter, leave):
    return rank, "barrier", enter, leave, {"communicator": RING, "seq": 0}


def test_a_broadcast_whose_root_has_no_room_for_it_ends_when_the_root_comes_back():
    # Rank 3 has its part at once; the others have waited for the root to come, and wait for it to come back.
    rows = [
        broadcast(0, 1, 62), broadcast(1, 20, 21), broadcast(2, 22, 63), broadcast(3, 2, 21),
        barrier(0, 64, 70), barrier(1, 60, 70), barrier(2, 65, 70), barrier(3, 66, 70),
    ]  # fmt: skip
    found = waits(*rows)
    assert (found[0, 1], found[2, 22], found[3, 2]) == ((59, 1), (38, 1), (18, 1))


def test_a_member_that_stays_long_after_all_are_back_or_when_none_was_away_lacks_something_else():
    others = [broadcast(2, 2, 21), broadcast(3, 2, 21), barrier(2, 101, 110), barrier(3, 101, 110)]
    long_after = [broadcast(0, 1, 90), broadcast(1, 20, 21), barrier(0, 100, 110), barrier(1, 60, 110)]
    assert waits(*others, *long_after)[0, 1] == (19, 1)
    not_away = [broadcast(0, 1, 90), broadcast(1, 20, 88), barrier(0, 100, 110), barrier(1, 89, 110)]
    assert waits(*others, *not_away)[0, 1] == (19, 1)


def test_of_several_members_that_come_back_the_last_ended_the_call():
    rows = [
        broadcast(0, 1, 62), broadcast(1, 20, 21), broadcast(2, 2, 23), broadcast(3, 2, 21),
        barrier(0, 64, 70), barrier(1, 60, 70), barrier(2, 61, 70), barrier(3, 69, 70),
    ]  # fmt: skip
    assert waits(*rows)[0, 1] == (60, 2)


class _Table(SimpleNamespace):
    def __len__(self):
        return len(self.operation if hasattr(self, "operation") else self.enter_s)
