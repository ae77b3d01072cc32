"""Equal keys meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.graphs.arrays.columns import emptied, take
from scalana.graphs.arrays.shards import ROWS
from scalana.graphs.dependences.matching import match
from scalana.runtime.operations import BY_CODE
from scalana.runtime.record.format import EVENT_COMPLETION, EVENT_POST, EVENT_WITHDRAWN
from tests.graphs.tables import make_events


def _match(rows, sizes=(2,)):
    """Rows are events with ``rank``; every event is its own call."""
    events = make_events(*({"enter": k, "exit": k, **row} for k, row in enumerate(rows)))
    rank = np.array([row["rank"] for row in rows], np.int64)
    return match(events, rank, np.arange(len(rows)), np.array(sizes, np.int64))


def _instances(matching):
    """{(members): (operation, communicator, root, complete)}"""
    i = matching.instances
    return {
        tuple(i.members[i.first[k] : i.first[k + 1]].tolist()): (
            BY_CODE[int(i.operation[k])].name,
            int(i.communicator[k]),
            int(i.root[k]),
            bool(i.complete[k]),
        )
        for k in range(len(i))
    }


def test_collectives_meet_by_communicator_and_count():
    matching = _match(
        [
            {"rank": 1, "seq": 0},
            {"rank": 0, "seq": 0},
            {"rank": 0, "seq": 1, "op": "broadcast", "peer": 1},
            {"rank": 0, "seq": 0, "communicator": 1},
            {"rank": 1, "seq": 1, "op": "broadcast", "peer": 1},
        ],
        sizes=(2, 3),
    )
    assert _instances(matching) == {
        (1, 0): ("allreduce", 0, -1, True),
        (2, 4): ("broadcast", 0, 1, True),
        (3,): ("allreduce", 1, -1, False),
    }
    assert matching.of_event[1] == matching.of_event[0] != matching.of_event[2]


def test_messages_meet_by_channel_and_count_and_the_send_comes_first():
    matching = _match(
        [
            {"rank": 0, "op": "recv", "peer": 1, "seq": 0},
            {"rank": 1, "op": "send", "peer": 0, "seq": 0},
            {"rank": 1, "op": "send", "peer": 0, "seq": 0, "tag": 5},
            {"rank": 0, "op": "send", "peer": 1, "seq": 0},
            {"rank": 1, "op": "recv", "peer": 0, "seq": 0},
            {"rank": 0, "op": "recv", "peer": 1, "seq": 1},
        ]
    )
    assert _instances(matching) == {
        (1, 0): ("send", 0, 1, True),
        (2,): ("send", 0, 1, False),
        (3, 4): ("send", 0, 0, True),
        (5,): ("recv", 0, 1, False),
    }


def test_any_source_receives_are_counted_when_their_sender_is_known():
    # Receives of rank 0 in order: any (from 2), any (from 1), from 1, any (from 2).
    matching = _match(
        [
            {"rank": 0, "op": "recv", "peer": 2, "seq": 0, "flags": 17},
            {"rank": 0, "op": "recv", "peer": 1, "seq": 1, "flags": 17},
            {"rank": 0, "op": "recv", "peer": 1, "seq": 0},
            {"rank": 0, "op": "recv", "peer": 2, "seq": 2, "flags": 17},
            {"rank": 1, "op": "send", "peer": 0, "seq": 0},
            {"rank": 1, "op": "send", "peer": 0, "seq": 1},
            {"rank": 2, "op": "send", "peer": 0, "seq": 0},
            {"rank": 2, "op": "send", "peer": 0, "seq": 1},
        ]
    )
    assert set(_instances(matching)) == {(4, 1), (5, 2), (6, 0), (7, 3)}
    assert matching.instances.complete.all()


def test_any_source_receive_of_an_unknown_sender_meets_nobody():
    matching = _match([{"rank": 0, "op": "recv", "peer": -1, "flags": 17}, {"rank": 1, "op": "send", "peer": 0}])
    assert not matching.instances.complete.any()


def test_different_operations_at_one_count_are_no_complete_operation():
    matching = _match([{"rank": 0, "seq": 3}, {"rank": 1, "seq": 3, "op": "barrier"}])
    assert matching.mixed == 1
    assert not matching.instances.complete.any()


def test_counts_that_start_again_do_not_merge():
    matching = _match([{"rank": r, "seq": s} for s in (0, 1, 0, 1) for r in (0, 1)])
    assert set(_instances(matching)) == {(0, 1), (2, 3), (4, 5), (6, 7)}


def test_waits_and_lookups_meet_nobody_and_nothing_at_all_is_fine():
    matching = _match([{"rank": 0, "op": "store"}, {"rank": 0, "op": "wait"}])
    assert len(matching.instances) == 0
    assert matching.of_event.tolist() == [-1, -1]
    assert len(_match([]).instances) == 0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.floats(0, 0.4))
def test_shuffled_and_holed_records_match_like_their_keys(seed, ranks, holes):
    rng = np.random.default_rng(seed)
    rows = []
    for communicator in range(2):
        for seq in range(6):
            rows += [{"rank": r, "communicator": communicator, "seq": seq} for r in range(ranks)]
    for _ in range(12):
        a, b = rng.permutation(ranks)[:2].tolist()
        tag = int(rng.integers(0, 3))
        seq = sum(row.get("key") == (a, b, tag) and row["op"] == "send" for row in rows)
        rows.append({"rank": a, "op": "send", "peer": b, "tag": tag, "seq": seq, "key": (a, b, tag)})
        rows.append({"rank": b, "op": "recv", "peer": a, "tag": tag, "seq": seq, "key": (a, b, tag)})
    rows = [rows[k] for k in rng.permutation(len(rows)) if rng.random() >= holes]
    matching = _match(rows, sizes=(ranks, ranks))
    expected: dict = {}
    for k, row in enumerate(rows):
        expected.setdefault(
            ("m", row["key"], row["seq"]) if "key" in row else (row["communicator"], row["seq"]), []
        ).append(k)
    found = {frozenset(members): value for members, value in _instances(matching).items()}
    assert set(found) == {frozenset(members) for members in expected.values()}
    for key, members in expected.items():
        assert found[frozenset(members)][3] == (len(members) == (2 if key[0] == "m" else ranks))
    i = matching.instances
    for k in range(len(i)):
        members = i.members[i.first[k] : i.first[k + 1]]
        kinds = [rows[m].get("op", "allreduce") for m in members]
        if kinds[0] == "allreduce":
            assert [rows[m]["rank"] for m in members] == sorted(rows[m]["rank"] for m in members)
        else:
            assert kinds in (["send", "recv"], ["send"], ["recv"])


def test_large_counts_and_tags_do_not_collide():
    big = 2**61
    matching = _match(
        [
            {"rank": 0, "op": "send", "peer": 1, "tag": big, "seq": big},
            {"rank": 1, "op": "recv", "peer": 0, "tag": big, "seq": big},
            {"rank": 0, "op": "send", "peer": 1, "tag": -big, "seq": big - 1},
        ]
    )
    assert set(_instances(matching)) == {(0, 1), (2,)}


@pytest.mark.parametrize("size", [0, 3])
def test_operations_of_unknown_or_larger_communicators_are_incomplete(size):
    assert not _match([{"rank": 0}, {"rank": 1}], sizes=(size,)).instances.complete.any()


def test_posts_of_many_portions_meet_across_them():
    count = ROWS  # of each of two ranks, so that no two members are in one portion
    one = make_events({"rank": 0, "communicator": 0, "enter": 0, "exit": 0})
    events = take(one, np.zeros(2 * count, np.int64))
    events.seq = np.tile(np.arange(count, dtype=np.int64), 2)
    calls = np.arange(2 * count)
    matching = match(events, np.repeat(np.arange(2), count), calls, np.array([2]))
    instances = matching.instances
    assert len(instances) == count
    assert instances.complete.all()
    np.testing.assert_array_equal(instances.members.reshape(-1, 2), calls.reshape(2, -1).T)
    np.testing.assert_array_equal(matching.of_event, np.tile(np.arange(count), 2))


def test_emptied_columns_keep_no_memory_of_their_rows():
    events = make_events({"rank": 0, "enter": 0, "exit": 0})
    nothing = emptied(events)
    assert len(nothing) == 0
    assert nothing.enter_ns.base is None


def test_receives_that_were_cancelled_leave_their_numbers_to_those_behind_them():
    """The second of three while the third is pending, then the one before the fifth, which was not written."""
    post, withdrawn = EVENT_POST, EVENT_COMPLETION | EVENT_WITHDRAWN
    receive = {"rank": 0, "op": "recv", "peer": 1, "flags": post}
    gone = {"rank": 0, "op": "wait", "peer": 1, "flags": withdrawn}
    matching = _match(
        [
            {**receive, "seq": 0},
            {**receive, "seq": 1},
            {**receive, "seq": 2},
            {**gone, "seq": 1, "completes": 1},
            {**receive, "seq": 3},
            {**gone, "seq": 2},
            {**receive, "seq": 1, "tag": 7},
            {**gone, "seq": 0, "tag": 7},
            *({"rank": 1, "op": "send", "peer": 0, "seq": seq} for seq in range(3)),
            {"rank": 1, "op": "send", "peer": 0, "seq": 0, "tag": 7},
        ]
    )
    assert set(_instances(matching)) == {(8, 0), (9, 2), (10, 4), (11, 6)}
    assert all(complete for *_, complete in _instances(matching).values())
    assert matching.of_event[1] == -1
