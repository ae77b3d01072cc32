"""What looks and samples did not find goes where the others were found, and nothing is made or lost."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.bursts.short_rests import Pairs, Spent, lost_cores, rested, unfound_rests, unfound_runs

PERIOD = 0.005
LOOP, SLEEP, DISK = 1, 2, 3


def rests(samples, kind=0):
    """(place, found at rest, seconds of rest) each; seconds that move, by place from and to."""
    place, found, rest_s = (np.array(column) for column in zip(*samples, strict=True))
    kinds = np.full(len(place), kind)
    moves = unfound_rests(Pairs.of(kinds, place), found, ~found, rest_s.astype(float), PERIOD)
    return totals(moves, place)


def totals(moves, place):
    moved = {}
    for sample, to, seconds in zip(moves.sample, moves.place, moves.seconds, strict=True):
        key = int(place[sample]), int(to)
        moved[key] = moved.get(key, 0.0) + float(seconds)
    return pytest.approx(moved)


def test_rests_that_no_look_found_go_where_others_were_found():
    # 10 rests found stand for 150 ms; 40 ms lie there, and 200 ms with what ran.
    samples = [(SLEEP, True, 0.004)] * 10 + [(LOOP, False, 0.004)] * 50
    assert rests(samples) == {(LOOP, SLEEP): 0.110}


def test_no_more_moves_than_there_is():
    samples = [(SLEEP, True, 0.004)] * 10 + [(LOOP, False, 0.004)] * 5
    assert rests(samples) == {(LOOP, SLEEP): 0.020}


def test_rests_go_to_places_as_often_as_these_were_found():
    samples = [(SLEEP, True, 0.0)] * 6 + [(DISK, True, 0.0)] * 2 + [(LOOP, False, 0.030)] * 4
    assert rests(samples) == {(LOOP, SLEEP): 0.090, (LOOP, DISK): 0.030}


@pytest.mark.parametrize(
    "samples",
    [
        [(SLEEP, True, 0.004)] * 3 + [(LOOP, False, 0.004)] * 50,  # by chance
        [(SLEEP, True, 0.100)] * 10 + [(LOOP, False, 0.004)] * 50,  # long ones are found, all of them
        [(SLEEP, True, 0.004)] * 10 + [(SLEEP, False, 0.004)] * 50,
        [(LOOP, False, 0.004)] * 50,
    ],
)
def test_where_little_is_known_or_lacks_nothing_moves(samples):
    assert rests(samples) == {}


def test_kinds_of_gaps_are_apart():
    kind = np.repeat([0, 1], [10, 50])
    place, found = np.repeat([SLEEP, LOOP], [10, 50]), np.repeat([True, False], [10, 50])
    moves = unfound_rests(Pairs.of(kind, place), found, ~found, np.full(60, 0.004), PERIOD)
    assert len(moves.sample) == 0


def test_what_ran_before_a_rest_goes_where_running_was_found():
    # 40 samples stand for 200 ms of the loop, of which 120 lie with it, and 60 with rests.
    place = np.repeat([LOOP, SLEEP], [40, 20])
    runs = place == LOOP
    cpu_s = np.where(runs, 0.003, 0.003)
    moves = unfound_runs(Pairs.of(np.zeros(60, np.int64), place), runs, ~runs, cpu_s, PERIOD)
    assert totals(moves, place) == {(SLEEP, LOOP): 0.060}


def test_a_place_keeps_what_it_was_found_to_run():
    # The library's function that sleeps takes CPU time too: 8 samples of it are 40 ms.
    place = np.repeat([LOOP, SLEEP, SLEEP], [40, 8, 20])
    rests_ = np.repeat([False, False, True], [40, 8, 20])
    cpu_s = np.repeat([0.003, 0.003, 0.003], [40, 8, 20])
    moves = unfound_runs(Pairs.of(np.zeros(68, np.int64), place), ~rests_, rests_, cpu_s, PERIOD)
    assert totals(moves, place) == {(SLEEP, LOOP): pytest.approx(0.044)}


WRITES = [(DISK, "rest", 0.0, 0.0)] * 8 + [(LOOP, "", 0.010, 0.040)] * 10


def waits(*kinds, may=lambda place, wait_s: wait_s):
    """Location, number of the two calls, and (place, found at rest or in a call, seconds of CPU, without a core) of
    samples, for each kind; seconds without a core that move, by place from and to. ``may`` gives those of them that
    may follow a rest."""
    location, alike, samples = zip(*kinds, strict=True)
    kind = np.repeat(np.arange(len(kinds)), [len(of) for of in samples])
    place, found, cpu_s, wait_s = (np.array(of) for of in zip(*[row for of in samples for row in of], strict=True))
    begins, calls = found == "rest", found == "call"
    pairs, spent = Pairs.of(kind, place), Spent(cpu_s, wait_s, may(place, wait_s))
    moves = lost_cores(pairs, np.array(location), np.array(alike), begins, calls, spent)
    return totals(moves, place)


def computes(cpu_s, wait_s):
    return [(LOOP, "", cpu_s / 10, wait_s / 10)] * 10


@pytest.mark.parametrize("where", [(0, 1), (1, 0), (1, 1)], ids=["elsewhere", "another rank", "another, elsewhere"])
def test_waits_for_a_core_beyond_those_of_computing_belong_to_the_rests(where):
    # 0.4 s without a core; 0.1 s of computing waits for 0.05 s where nothing rests.
    assert waits((0, 0, WRITES), (*where, computes(1.0, 0.5))) == {(LOOP, DISK): 0.35}


def test_what_calls_that_rest_compute_is_not_usual():
    inside = [*WRITES, *[(DISK, "call", 0.010, 0.040)] * 5]
    assert waits((0, 0, inside), (0, 1, computes(1.0, 1.0))) == {(LOOP, DISK): 0.4 * 5 / 6, (DISK, DISK): 0.2 * 5 / 6}


def test_rests_too_short_to_be_found_are_where_calls_that_rest_run():
    calls = [(DISK, "call", 0.010, 0.040)] * 4 + [(LOOP, "", 0.010, 0.040)] * 4
    assert waits((0, 0, calls), (0, 1, computes(1.0, 1.0))) == {(LOOP, DISK): 0.14, (DISK, DISK): 0.14}


def test_rests_that_were_found_say_more_than_calls():
    both = [*WRITES, *[(SLEEP, "call", 0.010, 0.040)] * 40]
    assert waits((0, 0, both), (0, 1, computes(1.0, 0.0))) == {(LOOP, DISK): 0.4, (SLEEP, DISK): 1.6}


def test_the_most_that_computing_waits_is_usual():
    assert waits((0, 0, WRITES), (0, 1, computes(1.0, 0.5)), (1, 0, computes(1.0, 2.0))) == {(LOOP, DISK): 0.20}


def test_others_elsewhere_tell_of_it_only_where_nobody_else_does():
    assert waits((0, 0, WRITES), (0, 1, computes(1.0, 0.5)), (1, 1, computes(1.0, 4.0))) == {(LOOP, DISK): 0.35}


def test_waits_go_to_the_rests_as_often_as_these_were_found():
    two = [*WRITES, *[(SLEEP, "rest", 0.0, 0.0)] * 24]
    assert waits((0, 0, two), (0, 1, computes(1.0, 0.0))) == {(LOOP, DISK): 0.10, (LOOP, SLEEP): 0.30}


@pytest.mark.parametrize(
    "kinds",
    [
        [(0, 0, WRITES)],  # nobody computes without rests
        [(0, 0, WRITES), (0, 1, computes(0.04, 0.0))],  # nor for long
        [(0, 0, WRITES), (1, 0, WRITES)],
        [(0, 0, WRITES), (0, 1, computes(1.0, 3.0))],  # waits are about as long without rests
        [(0, 0, WRITES[5:]), (0, 1, computes(1.0, 0.0))],  # found at rest by chance
    ],
)
def test_waits_stay_where_nothing_tells_that_rests_cause_them(kinds):
    assert waits(*kinds) == {}


def test_no_more_moves_than_may_follow_a_rest():
    # 0.35 s are more than usual, of which 0.16 were waited where the thread rested, too.
    def may(place, wait_s):
        return np.where(np.arange(len(place)) % 5 < 2, wait_s, 0.0)

    assert waits((0, 0, WRITES), (0, 1, computes(1.0, 0.5)), may=may) == {(LOOP, DISK): 0.16}


def test_who_ran_or_waited_for_a_core_all_through_has_not_rested():
    seconds, cpu_s, wait_s = np.array([(0.030, 0.005, 0.025), (0.030, 0.0049, 0.025), (0.030, 0.004, 0.025)]).T
    assert rested(seconds, cpu_s, wait_s).tolist() == [False, False, True]
