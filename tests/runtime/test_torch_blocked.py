"""Waits inside C++, worked out from posts, completions and clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalana.runtime import _core

Post = tuple[int, int, int, int, int, bool]
"""Of a post its entry, exit, CPU clock at exit, completion, CPU clock at completion, and whether Python waited."""


def post(enter: int, exit: int, done: int, cpu_at_exit: int = 0, cpu_at_done: int = 0, waited: bool = False) -> Post:
    return enter, exit, cpu_at_exit, done, cpu_at_done, waited


def spans(posts: list[Post], begin: int, cpu_at_begin: int, end: int, cpu_at_end: int) -> list[tuple[int, int, int]]:
    """Of each wait the number of its post, beginning and end."""
    waits = _core.torch_reconstruct_waits(posts, begin, cpu_at_begin, end, cpu_at_end)
    return [(number, enter, exit) for number, enter, exit, _ in waits]


def test_waits_follow_each_other_in_the_order_of_the_posts() -> None:
    posts = [post(0, 1, 50), post(2, 3, 80), post(4, 5, 70)]
    # The third was complete when its turn came.
    assert spans(posts, 10, 0, 100, 0) == [(0, 10, 50), (1, 50, 80)]


def test_nothing_was_waited_for_when_all_was_complete_in_time() -> None:
    assert spans([post(0, 1, 5), post(2, 3, 9)], 10, 0, 100, 0) == []


def test_work_before_a_wait_is_no_wait() -> None:
    # Of the 40 ns until the completion the thread worked for 30.
    posts = [post(0, 1, 50, cpu_at_done=130)]
    assert _core.torch_reconstruct_waits(posts, 10, 100, 100, 140) == [(0, 40, 50, 130)]


def test_completion_whose_callback_is_late_ends_with_the_scope() -> None:
    assert spans([post(0, 1, 0)], 10, 100, 60, 120) == [(0, 30, 60)]


def test_what_python_waited_for_is_left_out() -> None:
    assert spans([post(0, 1, 50, waited=True), post(2, 3, 80)], 10, 0, 100, 0) == [(1, 10, 80)]


def test_no_wait_before_the_last_post_made_during_the_work() -> None:
    # A call into C++ that posts, posts, waits, posts, waits.
    posts = [post(10, 12, 50), post(14, 16, 90), post(52, 54, 95)]
    assert spans(posts, 0, 0, 100, 0) == [(0, 16, 50), (1, 54, 90), (2, 90, 95)]


@st.composite
def pasts(draw: st.DrawFn) -> tuple[list[Post], int, int]:
    """Posts of one thread, with completions in any order, and a CPU clock that is never ahead of time."""
    clock, posts = 0, []
    for _ in range(draw(st.integers(1, 6))):
        enter = clock + draw(st.integers(0, 20))
        clock = enter + draw(st.integers(0, 5))
        done = clock + draw(st.integers(1, 60))
        posts.append(post(enter, clock, done, cpu_at_exit=clock // 2, cpu_at_done=done // 2))
    begin = draw(st.integers(0, clock + 30))
    return posts, begin, max(begin, clock) + draw(st.integers(0, 80))


@given(pasts())
def test_waits_lie_in_the_scope_and_overlap_neither_posts_nor_each_other(past: tuple[list[Post], int, int]) -> None:
    posts, begin, end = past
    previous = begin
    for number, enter, exit in spans(posts, begin, begin // 2, end, end // 2):
        assert previous <= enter < exit <= end
        assert all(made[1] <= enter or made[0] >= exit for made in posts)
        assert exit == min(posts[number][3], end)
        previous = exit
