"""A manager that waits for its workers is no fault of theirs, unless a worker or a task is not ordinary."""

from __future__ import annotations

import numpy as np
import pytest

from tests.detectors.jobs import analyse

ROUNDS = 60
WORKERS = 3


def managed(cost, share=None):
    """Every round the manager gives a piece to all workers, and takes what comes back; noise of 3 %."""
    random = np.random.default_rng(1)
    ranks = range(WORKERS + 1)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    for step in range(ROUNDS):
        for worker in ranks[1:]:
            program[0].append(("send", worker))
            ms = cost(step, worker) * float(np.exp(random.normal(0.0, 0.03)))
            program[worker] += [("recv", 0), ("work", "chunk", ms), ("send", 0)]
        if share is not None:
            program[0].append(("work", "chunk", share))
        program[0] += [("recv", worker) for worker in ranks[1:]]
    return program


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_workers_that_compute_alike_are_not_late(period_s):
    assert analyse(managed(lambda step, rank: 30.0), period_s=period_s)[0] == []


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_a_worker_that_computes_more_is(period_s):
    ((name, finding), *_) = analyse(managed(lambda step, rank: 60.0 if rank == 2 else 30.0), period_s=period_s)[0]
    assert name == "chunk"
    assert 2 in finding.ranks  # with the one that is waited for before


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_pieces_that_are_not_like_the_others_are_found_on_whoever_has_them(period_s):
    def cost(step, rank):
        return 300.0 if step % 10 == 0 and 1 + step // 10 % WORKERS == rank else 30.0

    ((name, finding),) = analyse(managed(cost), period_s=period_s)[0]
    assert (name, finding.ranks) == ("chunk", [1, 2, 3])
    assert finding.saving_s >= 6 * 0.270 * 0.9


def test_a_rank_with_work_of_its_own_that_waits_has_less_of_it_than_the_others():
    ((name, finding), *_) = analyse(managed(lambda step, rank: 30.0, share=10.0))[0]
    assert name == "chunk"
    assert 0 not in finding.ranks


def test_workers_that_sleep_cannot_be_told_apart_by_what_they_compute():
    assert analyse(managed(lambda step, rank: 30.0), on_cpu=False)[0] != []


def in_turn(cost):
    """Every round each rank has something from the one before it, and hands it on; noise of 3 %."""
    random = np.random.default_rng(2)
    ranks = range(4)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    for step in range(ROUNDS):
        for rank in ranks:
            program[rank] += [("recv", rank - 1)] if rank else []
            program[rank].append(("work", "stage", cost(step, rank) * float(np.exp(random.normal(0.0, 0.03)))))
            program[rank] += [("send", rank + 1)] if rank < 3 else []
            program[rank].append(("coll", "barrier", list(ranks), -1))
    return program


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_ranks_that_do_the_same_one_after_another_are_not_late(period_s):
    assert analyse(in_turn(lambda step, rank: 20.0), period_s=period_s)[0] == []


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_one_of_them_that_does_more_is(period_s):
    ((name, finding), *_) = analyse(in_turn(lambda step, rank: 50.0 if rank == 2 else 20.0), period_s=period_s)[0]
    assert name == "stage"
    assert 2 in finding.ranks


def test_what_each_rank_does_in_its_turn_alone_is_found_in_messages_too():
    ranks = range(4)
    program = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
    for step in range(ROUNDS):
        for rank in ranks:
            program[rank].append(("work", "own", 20.0))
            if step % 4 == rank:
                program[rank].append(("work", "rebuild", 60.0))
            program[rank] += [("send", (rank + 1) % 4), ("recv", (rank - 1) % 4)]
    ((name, finding), *_) = analyse(program)[0]
    assert (name, finding.ranks) == ("rebuild", [0, 1, 2, 3])


@pytest.mark.parametrize("slow", [1.0, 2.5])
def test_ranks_that_sleep_alike_one_after_another_are_not_late(slow):
    """As programs do that stand for others, with sleep in place of work."""
    result = analyse(in_turn(lambda step, rank: 20.0 * (slow if rank == 2 else 1.0)), on_cpu=False)[0]
    assert [2 in finding.ranks for _, finding in result[:1]] == ([True] if slow > 1.0 else [])
