"""The engine of delay costs by itself: seconds are conserved, and the worked examples come out without any kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalana.detectors.delays.delay_costs import IntervalDelays, Shares, excess, follow_back, propagate
from scalana.detectors.delays.wait_states import WaitStates, find_waits
from scalana.graphs.timeline import Timeline
from tests.detectors import examples
from tests.detectors.simulator import simulate

AMOUNT = st.floats(0.0, 100.0).map(lambda amount: round(amount, 3))
CAUSES = 3


class Waits(NamedTuple):
    """Waits, the seconds that their culprits did more of each cause, and more waited in each wait."""

    wait_s: np.ndarray
    more_s: np.ndarray
    more_waited_s: np.ndarray

    def shares(self) -> Shares:
        """Of each wait, split by the excess; what nothing explains is a cause of its own."""
        amounts = np.column_stack((self.more_s, np.zeros(len(self.wait_s)), self.more_waited_s))
        amounts[amounts.sum(axis=1) == 0.0, CAUSES] = 1.0
        rows = [(wait, to, amounts[wait, to] / amounts[wait].sum()) for wait, to in np.argwhere(amounts > 0.0).tolist()]
        handed = [(wait, to - CAUSES - 1, share) for wait, to, share in rows if to > CAUSES]
        return Shares.of([row for row in rows if row[1] <= CAUSES], handed)


@st.composite
def some_waits(draw: st.DrawFn, circles: bool = False) -> Waits:
    """Waits in the order of their ends: without circles, those that are waited for ended before."""
    count = draw(st.integers(1, 6))

    def amounts(columns: int) -> np.ndarray:
        row = st.lists(AMOUNT, min_size=columns, max_size=columns)
        return np.array(draw(st.lists(row, min_size=count, max_size=count)))

    waited_s = amounts(count)
    return Waits(amounts(1)[:, 0], amounts(CAUSES), waited_s if circles else np.tril(waited_s, -1))


@settings(deadline=None, max_examples=40)
@given(some_waits())
def test_seconds_come_to_rest_on_causes_alone(waits: Waits) -> None:
    shares = waits.shares()
    flow_s, left_s = propagate(waits.wait_s, shares)
    rest_s = flow_s[shares.group] * shares.share
    assert not left_s.any()
    assert rest_s.sum() == pytest.approx(waits.wait_s.sum(), rel=1e-9)
    assert (shares.target <= CAUSES).all() and (rest_s >= 0.0).all()
    # Wait by wait, the last first: what comes to each is known before it is split.
    expected, into = np.zeros(CAUSES + 1), waits.wait_s.copy()
    for wait in reversed(range(len(into))):
        for of, to, share in zip(shares.handed_from, shares.handed_to, shares.handed_share, strict=True):
            into[to] += into[wait] * share if of == wait else 0.0
        mine = shares.group == wait
        expected += np.bincount(shares.target[mine], into[wait] * shares.share[mine], CAUSES + 1)
    assert flow_s == pytest.approx(into, rel=1e-9, abs=1e-9)
    assert np.bincount(shares.target, rest_s, CAUSES + 1) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=20)  # what goes round for long is looked at many times
@given(some_waits(circles=True))
def test_seconds_are_conserved_in_circles_of_waits_too(waits: Waits) -> None:
    shares = waits.shares()
    flow_s, left_s = propagate(waits.wait_s, shares)
    rest_s = flow_s[shares.group] * shares.share
    assert rest_s.sum() + left_s.sum() == pytest.approx(waits.wait_s.sum(), rel=1e-9)


def test_a_circle_of_waits_that_nothing_explains_is_left() -> None:
    shares = Shares.of([], [(0, 1, 1.0), (1, 0, 1.0)])
    _, left_s = propagate(np.array([3.0, 4.0]), shares)
    assert left_s.sum() == pytest.approx(7.0)


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.sampled_from("abcd"), AMOUNT), st.dictionaries(st.sampled_from("abcd"), AMOUNT))
def test_excess_is_what_is_done_more(did: dict[str, float], usual: dict[str, float]) -> None:
    more, less = excess(did, usual), excess(usual, did)
    assert all(seconds > 0.0 for seconds in (*more.values(), *less.values())) and not more.keys() & less.keys()
    difference = sum(did.values()) - sum(usual.values())
    assert sum(more.values()) - sum(less.values()) == pytest.approx(difference, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=1, max_size=12), st.floats(0.0, 1.0))
def test_lateness_is_divided_without_remainder(intervals: list[tuple[float, float, float]], part: float) -> None:
    """Intervals from the first one of the record on: what the late one did in excess of two causes, and how much of
    its lateness the other one made up for by waiting."""
    late_s = [0.0]
    for first, second, made_up in intervals:
        late_s.append(max(late_s[-1] - made_up, 0.0) + first + second)

    def delays_until(end: int) -> IntervalDelays[str, int]:
        first, second, made_up = intervals[end - 1]
        delays = [("first", first), ("second", second)]
        return IntervalDelays(delays, late_s[end - 1] - made_up, end - 1 if end > 1 else None)

    found, left = follow_back(len(intervals), delays_until, lambda end: "skew", part)
    assert sum(size for _, size in found) + left == pytest.approx(part)
    assert all(size == 0.0 for cause, size in found if cause == "skew")  # both began together


def test_lateness_is_followed_back_to_where_it_arose() -> None:
    """3 s by the first interval, 1 s by the last one, while the other rank waits for 0.5 s in between."""
    intervals = {
        "last": IntervalDelays([("new", 1.0)], 2.5, "middle"),
        "middle": IntervalDelays([], 3.0 - 0.5, "first"),
        "first": IntervalDelays([("old", 3.0)], 1.0, None),
    }
    found, left = follow_back("last", intervals.__getitem__, lambda end: f"before the {end}")
    assert dict(found) == pytest.approx({"new": 1 / 3.5, "old": 2.5 / 3.5 * 3 / 4, "before the first": 2.5 / 3.5 / 4})
    assert left == 0.0
    # Who is late for no reason that was seen is so for none.
    assert follow_back("only", lambda end: IntervalDelays([], -1.0, None), str, 0.5) == ([], 0.5)


def stretch(timeline: Timeline, waits: WaitStates, call: int, other: int) -> tuple[dict[int, float], dict[int, float]]:
    """What a location did before a call since it last met that of another call: seconds by activity, and by call that
    waited."""
    calls, own = timeline.calls, timeline.own
    first = calls.first[calls.location]
    theirs = calls.posts[first[other] : other]
    since = max((one for one in range(first[call], call) if calls.posts[one] in theirs), default=int(first[call]) - 1)
    did: dict[int, float] = {}
    for row in np.flatnonzero((own.burst > since) & (own.burst <= call)):
        did[int(own.activity[row])] = did.get(int(own.activity[row]), 0.0) + float(own.seconds[row])
    return did, {one: float(waits.wait_s[one]) for one in range(since + 1, call) if waits.wait_s[one] > 0.0}


def blame_of(timeline: Timeline, waits: WaitStates) -> dict[tuple[int, int], float]:
    """Seconds of waiting by rank and activity: every wait by itself, with no other of its kind."""
    calls, instances = timeline.calls, timeline.instances
    waiting = np.flatnonzero(waits.wait_s > 0.0).tolist()
    rows: list[tuple[int, tuple[int, int], float]] = []
    handed: list[tuple[int, int, float]] = []
    for number, call in enumerate(waiting):
        culprit, instance = int(waits.culprit[call]), int(waits.instance[call])
        did, waited = stretch(timeline, waits, culprit, call)

        def compared(call: int, culprit: int = culprit) -> dict[int, float]:
            work, waited = stretch(timeline, waits, call, culprit)
            return {**work, -1: sum(waited.values())}

        members = instances.members[instances.first[instance] : instances.first[instance + 1]]
        others = [compared(one) for one in members.tolist() if calls.location[one] != calls.location[culprit]]
        mine = compared(call)
        usual = {
            what: max(mine.get(what, 0.0), float(np.median([one.get(what, 0.0) for one in others])) * (len(others) > 1))
            for what in (*did, -1)
        }
        whole = {**did, -1: sum(waited.values())}
        more = excess(whole, usual)
        if sum(more.values()) < 0.8 * waits.wait_s[call]:
            more = excess(whole, mine)
        total = sum(more.values())
        rows += [(number, (int(calls.location[culprit]), what), s / total) for what, s in more.items() if what >= 0]
        part = more.get(-1, 0.0) / total
        handed += [(number, waiting.index(one), part * s / whole[-1]) for one, s in waited.items() if part > 0.0]
    places = sorted({place for _, place, _ in rows})
    shares = Shares.of([(number, places.index(place), share) for number, place, share in rows], handed)
    flow_s, left_s = propagate(waits.wait_s[waiting], shares)
    assert not left_s.any()
    seconds = np.bincount(shares.target, flow_s[shares.group] * shares.share, len(places))
    return dict(zip(places, seconds.tolist(), strict=True))


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (examples.decoy(), {(1, "mask"): 90}),
        (
            examples.chain(),
            {(0, "assemble"): 145, (0, "relax"): 29, (1, "relax"): 21, (2, "relax"): 13, (3, "relax"): 8},
        ),
        (examples.grid(), {(3, "refine"): 90}),
        (examples.masked(), {(1, "f"): 70}),
        (examples.moving(), {(rank, "rebuild"): 180 for rank in range(4)}),
        (examples.late_root(), {(0, "save"): 150}),
        (examples.absorbed(), {(1, "x"): 90}),
    ],
    ids=["decoy", "chain", "grid", "masked", "moving", "late root", "absorbed"],
)
def test_the_worked_examples(program: list, expected: dict[tuple[int, str], float]) -> None:
    timeline, names = simulate(program)
    blamed = {
        (rank, names[vertex]): seconds * 1e3
        for (rank, vertex), seconds in blame_of(timeline, find_waits(timeline)).items()
    }
    assert blamed == pytest.approx(expected, abs=0.5)
