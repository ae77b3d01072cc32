"""What looks and samples did not find goes where the others were found, and nothing is made or lost."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.short_rests import Pairs, unfound_rests, unfound_runs

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
