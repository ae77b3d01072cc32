"""Waits inside C++, worked out from posts, completions and clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalana.runtime.torch_blocked import Post, reconstruct_waits


def post(event: int, enter: int, exit: int, done: int, cpu_at_exit: int = 0, cpu_at_done: int = 0) -> Post:
    made = Post(event, enter)
    made.exit, made.cpu_at_exit, made.done, made.cpu_at_done = exit, cpu_at_exit, done, cpu_at_done
    return made


def spans(waits: list) -> list[tuple[int, int, int]]:
    return [(wait.post.event, wait.enter, wait.exit) for wait in waits]


def test_waits_follow_each_other_in_the_order_of_the_posts() -> None:
    posts = [post(1, 0, 1, 50), post(2, 2, 3, 80), post(3, 4, 5, 70)]
    # The third was complete when its turn came.
    assert spans(reconstruct_waits(posts, 10, 0, 100, 0)) == [(1, 10, 50), (2, 50, 80)]


def test_nothing_was_waited_for_when_all_was_complete_in_time() -> None:
    assert reconstruct_waits([post(1, 0, 1, 5), post(2, 2, 3, 9)], 10, 0, 100, 0) == []


def test_work_before_a_wait_is_no_wait() -> None:
    # Of the 40 ns until the completion the thread worked for 30.
    assert spans(reconstruct_waits([post(1, 0, 1, 50, cpu_at_done=130)], 10, 100, 100, 140)) == [(1, 40, 50)]


def test_completion_whose_callback_is_late_ends_with_the_scope() -> None:
    assert spans(reconstruct_waits([post(1, 0, 1, 0)], 10, 100, 60, 120)) == [(1, 30, 60)]


def test_what_python_waited_for_is_left_out() -> None:
    seen, unseen = post(1, 0, 1, 50), post(2, 2, 3, 80)
    seen.waited = True
    assert spans(reconstruct_waits([seen, unseen], 10, 0, 100, 0)) == [(2, 10, 80)]


def test_no_wait_before_the_last_post_made_during_the_work() -> None:
    # A call into C++ that posts, posts, waits, posts, waits.
    posts = [post(1, 10, 12, 50), post(2, 14, 16, 90), post(3, 52, 54, 95)]
    assert spans(reconstruct_waits(posts, 0, 0, 100, 0)) == [(1, 16, 50), (2, 54, 90), (3, 90, 95)]


@st.composite
def pasts(draw: st.DrawFn) -> tuple[list[Post], int, int]:
    """Posts of one thread, with completions in any order, and a CPU clock that is never ahead of time."""
    clock, posts = 0, []
    for event in range(draw(st.integers(1, 6))):
        enter = clock + draw(st.integers(0, 20))
        clock = enter + draw(st.integers(0, 5))
        posts.append(post(event, enter, clock, clock + draw(st.integers(1, 60)), cpu_at_exit=clock // 2))
    for made in posts:
        made.cpu_at_done = made.done // 2
    begin = draw(st.integers(0, clock + 30))
    return posts, begin, max(begin, clock) + draw(st.integers(0, 80))


@given(pasts())
def test_waits_lie_in_the_scope_and_overlap_neither_posts_nor_each_other(past: tuple[list[Post], int, int]) -> None:
    posts, begin, end = past
    waits = reconstruct_waits(posts, begin, begin // 2, end, end // 2)
    previous = begin
    for wait in waits:
        assert previous <= wait.enter < wait.exit <= end
        assert all(made.exit <= wait.enter or made.enter >= wait.exit for made in posts)
        assert wait.exit == min(wait.post.done, end)
        previous = wait.exit
