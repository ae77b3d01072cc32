"""A manager that waits for its workers is no fault of theirs, unless a worker or a piece of work is not ordinary."""

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
