"""Recorded events become calls that follow each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.graphs.calls.calls import build_spans
from scalana.runtime.operations import BY_CODE
from tests.graphs.tables import MS, make_events


def _calls(spans):
    """(operation, enter ms, exit ms, post, [waits]) of every call."""
    return [
        (
            BY_CODE[int(spans.operation[c])].name,
            spans.enter_ns[c] / MS,
            spans.exit_ns[c] / MS,
            int(spans.post[c]),
            spans.waits[spans.wait_first[c] : spans.wait_first[c + 1]].tolist(),
        )
        for c in range(len(spans))
    ]


def test_blocking_call_posts_and_waits_for_itself():
    spans = build_spans(make_events({"enter": 1, "exit": 4}, {"enter": 6, "exit": 7, "seq": 1}))
    assert _calls(spans) == [("allreduce", 1, 4, 0, [0]), ("allreduce", 6, 7, 1, [1])]


def test_post_and_wait_right_after_it_are_one_blocking_call():
    events = make_events(
        {"enter": 1, "exit": 1.2, "flags": 2, "nbytes": 64, "cpu": 1, "cpu_exit": 1.2},
        {"op": "wait", "enter": 1.21, "exit": 9, "flags": 4, "completes": 0, "cpu": 1.21, "cpu_exit": 1.5},
    )
    spans = build_spans(events)
    assert _calls(spans) == [("allreduce", 1, 9, 0, [0])]
    assert spans.nbytes.tolist() == [64]
    assert (spans.cpu_enter_ns[0], spans.cpu_exit_ns[0]) == (1 * MS, 1.5 * MS)


@pytest.mark.parametrize(
    "wait",
    [
        {"enter": 3, "exit": 9, "completes": 0},  # own work in between
        {"enter": 1.21, "exit": 9, "completes": 1},  # of another post
        {"enter": 1.21, "exit": 9, "completes": 0, "thread": 1},  # on another thread
    ],
)
def test_other_waits_stay_apart_from_the_post(wait):
    events = make_events(
        {"enter": 1, "exit": 1.2, "flags": 2}, {"enter": 0, "exit": 0.1, "flags": 2}, {"op": "wait", "flags": 4, **wait}
    )
    calls = _calls(build_spans(events))
    assert ("allreduce", 1, 1.2, 0, []) in calls
    assert ("wait", wait["enter"], 9, -1, [wait["completes"]]) in calls


def test_call_between_post_and_wait_keeps_them_apart():
    events = make_events(
        {"enter": 1, "exit": 1.01, "flags": 2},
        {"op": "send", "enter": 1.01, "exit": 1.02, "flags": 2},
        {"op": "wait", "enter": 1.03, "exit": 9, "flags": 4, "completes": 0},
    )
    assert [call[0] for call in _calls(build_spans(events))] == ["allreduce", "send", "wait"]


def test_completions_with_the_same_times_are_one_call():
    waitall = {"op": "wait", "enter": 1.03, "exit": 9, "flags": 4}
    events = make_events(
        {"op": "send", "enter": 1, "exit": 1.01, "flags": 2},
        {"op": "recv", "enter": 1.01, "exit": 1.02, "flags": 2},
        {**waitall, "completes": 1},
        {**waitall, "completes": 0},
        {**waitall, "completes": 0, "thread": 1},
    )
    assert _calls(build_spans(events)) == [
        ("send", 1, 1.01, 0, []),
        ("recv", 1.01, 1.02, 1, []),
        ("wait", 1.03, 9, -1, [1, 0]),
        ("wait", 1.03, 9, -1, [0]),
    ]


def test_outer_calls_give_way_to_what_is_inside():
    events = make_events(
        {"op": "batch_isend_irecv", "enter": 1, "exit": 5},
        {"op": "send", "enter": 1, "exit": 2, "flags": 2},
        {"op": "recv", "enter": 3, "exit": 5, "flags": 2},
        {"op": "barrier", "enter": 6, "exit": 7},
    )
    spans = build_spans(events)
    assert [call[0] for call in _calls(spans)] == ["send", "recv", "barrier"]
    assert spans.outer.tolist() == [0]


def test_store_lookups_do_not_stand_for_what_contains_them():
    events = make_events(
        {"op": "init_process_group", "enter": 0, "exit": 100},
        {"op": "store", "enter": 1, "exit": 2},
        {"op": "store", "enter": 90, "exit": 100},
        {"op": "store", "enter": 110, "exit": 111},
    )
    assert _calls(build_spans(events)) == [
        ("init_process_group", 0, 100, 0, [0]),
        ("store", 110, 111, 3, [3]),
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30), st.sampled_from([1, 2, 10])), max_size=25
    )
)
def test_calls_of_a_thread_never_overlap(rows):
    events = make_events(
        *(
            {
                "thread": thread, "enter": enter, "exit": enter + length, "flags": flags, "seq": k,
            }
            for k, (thread, enter, length, flags) in enumerate(rows)
        )
    )  # fmt: skip
    spans = build_spans(events)
    same = spans.thread[1:] == spans.thread[:-1]
    assert (spans.enter_ns[1:] >= spans.exit_ns[:-1])[same].all()
    assert (spans.exit_ns >= spans.enter_ns).all()
    assert (np.diff(spans.thread) >= 0).all()
    assert sorted(spans.post.tolist() + spans.outer.tolist()) == list(range(len(rows)))
