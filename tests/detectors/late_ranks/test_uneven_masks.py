"""Attention of which a causal mask leaves unequal parts to ranks: what is said, and what parts in zigzag would save.

The programs count the pairs of a query and a key that a mask lets through, for any division of a sequence; those with
parts in zigzag are simulated, and predictions are compared with that.
"""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.run_info import RunInfo
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import cost, mask
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

STEPS, TOKENS = 12, 16
PAIR_MS = 0.05


def contiguous(ranks):
    return [np.arange(rank * TOKENS, (rank + 1) * TOKENS) for rank in range(ranks)]


def zigzag(ranks):
    parts = np.arange(ranks * TOKENS).reshape(2 * ranks, -1)
    return [np.concatenate((parts[rank], parts[-1 - rank])) for rank in range(ranks)]


def causal(queries, keys):
    return int((queries[:, None] >= keys[None, :]).sum())


def full(queries, keys):
    return len(queries) * len(keys)


class Ring:
    """One step of a rank: forward and backward, a ring each. ``first`` is whether a block is sent on before it is
    computed with."""

    def __init__(self, division, pairs=causal, first=True, slow=()):
        self.division, self.pairs, self.first, self.slow = division, pairs, first, slow
        self.random = np.random.default_rng(1)

    def work(self, name, rank, owner, times):
        ms = times * PAIR_MS * self.pairs(self.division[rank], self.division[owner])
        ms *= float(np.exp(self.random.normal(0.0, 0.02))) * (2.0 if rank in self.slow else 1.0)
        return [("work", name, ms)] if ms else []

    def actions(self, rank, ranks):
        place, count = ranks.index(rank), len(ranks)
        after, before = ranks[(place + 1) % count], ranks[place - 1]
        for name, times in (("forward", 1.0), ("backward", 2.0)):
            for turn in range(count):
                block = self.work(name, place, (place - turn) % count, times)
                last = turn + 1 == count
                send, receive = ([], []) if last else ([("send", after)], [("recv", before)])
                yield from [*send, *block, *receive] if self.first else [*block, *send, *receive]
            yield "work", "projection", 1.0


class Gather(Ring):
    """The same with keys and values gathered before each attention."""

    def actions(self, rank, ranks):
        for name, times in (("forward", 1.0), ("backward", 2.0)):
            yield "coll", "allgather", ranks, -1
            for owner in range(len(ranks)):
                yield from self.work(name, ranks.index(rank), owner, times)
            yield "work", "projection", 1.0


def program_of(way, groups):
    ranks = sorted(rank for group in groups for rank in group)
    group_of = {rank: group for group in groups for rank in group}
    return [
        [
            action
            for _ in range(STEPS)
            for action in (*way.actions(rank, group_of[rank]), ("coll", "allreduce", ranks, -1))
        ]
        for rank in ranks
    ]


def ended_s(program):
    return float(simulate(program)[0].locations.end_s.max())


def findings(program):
    timeline, names = simulate(program)
    psg = structure(names)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=len(program))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)).findings


WAYS = {
    "ring": Ring,
    "ring, computing first": lambda division, **options: Ring(division, first=False, **options),
    "gather": Gather,
}


@pytest.mark.parametrize("ranks", [3, 4, 8])
@pytest.mark.parametrize("way", list(WAYS))
def test_a_causal_mask_over_contiguous_parts_is_named_with_what_zigzag_saves(way: str, ranks: int) -> None:
    group = list(range(ranks))
    program = program_of(WAYS[way](contiguous(ranks)), [group])
    first, *others = findings(program)
    assert (first.kind, first.ranks) == ("uneven-mask", [ranks - 1])
    assert all(one.kind == "unresolved" for one in others)  # lateness that went around the ring
    known = first.evidence.mask
    pairs = [sum(causal(mine, keys) for keys in contiguous(ranks)) for mine in contiguous(ranks)]
    assert known.mask_times == pytest.approx(pairs[-1] / np.mean(pairs), rel=0.05)
    assert known.mask_share > 0.95 and known.mask_ranks == ranks
    assert known.block_s == pytest.approx(1.5 * PAIR_MS * TOKENS**2 / 1e3, rel=0.5)
    saved_s = ended_s(program) - ended_s(program_of(WAYS[way](zigzag(ranks)), [group]))
    assert first.saving_s == pytest.approx(saved_s, rel=0.1)


def test_the_report_says_what_it_is() -> None:
    first, *_ = findings(program_of(Ring(contiguous(4)), [[0, 1, 2, 3]]))
    assert claim(first, 4).startswith(
        "Rank 3 has 1.75 times the attention work of the average rank, at equal tokens: causal mask over contiguous "
        "blocks"
    )
    run = RunInfo(ranks=4, seconds=1.0, names=ProcessNames())
    assert "around a ring of 4" in mask(first, run) and "with parts in zigzag" in cost(first, run)
    assert "8 parts" in first.advice and "in every round" in first.advice


def test_groups_of_data_parallel_replicas_are_one_finding() -> None:
    groups = [[0, 2, 4], [1, 3, 5]]
    program = program_of(Ring(contiguous(3)), groups)
    (first,) = findings(program)
    assert (first.kind, first.ranks) == ("uneven-mask", [4, 5])
    saved_s = ended_s(program) - ended_s(program_of(Ring(zigzag(3)), groups))
    assert first.saving_s == pytest.approx(saved_s, rel=0.1)


@pytest.mark.parametrize("way", list(WAYS))
def test_even_parts_have_no_finding(way: str) -> None:
    for division, pairs in ((zigzag(4), causal), (contiguous(4), full)):
        assert findings(program_of(WAYS[way](division, pairs=pairs), [[0, 1, 2, 3]])) == []


@pytest.mark.parametrize("way", list(WAYS))
def test_a_slow_rank_is_none_of_the_mask(way: str) -> None:
    """The last one, or half of the ranks, in attention that is the same on all."""
    for slow in ((3,), (2, 3)):
        found = findings(program_of(WAYS[way](contiguous(4), pairs=full, slow=slow), [[0, 1, 2, 3]]))
        assert found and all(one.kind != "uneven-mask" for one in found)
        assert found[0].ranks == list(slow)


def test_a_pipeline_with_a_heavy_last_stage_is_none() -> None:
    """Two stages hand forwards there and gradients back: a ring of two ranks, of which one waits before it sends."""

    def actions(rank):
        for _ in range(4):
            yield from (
                [("work", "stage", 5.0), ("send", 1), ("recv", 1)]
                if rank == 0
                else [
                    ("recv", 0),
                    ("work", "stage", 15.0),
                    ("send", 0),
                ]
            )

    program = [[*(one for _ in range(STEPS) for one in actions(rank))] for rank in range(2)]
    found = findings(program)
    assert found and all(one.kind != "uneven-mask" for one in found)


def test_shifts_around_a_ring_with_other_work_are_none() -> None:
    """Ranks that shift a halo and have more to do the higher they are, in all rounds."""

    def actions(rank):
        for _ in range(3):
            yield from (("send", (rank + 1) % 4), ("work", "cells", 5.0 * (rank + 1)), ("recv", (rank - 1) % 4))
        yield "coll", "allreduce", [0, 1, 2, 3], -1

    found = findings([[*(one for _ in range(STEPS) for one in actions(rank))] for rank in range(4)])
    assert found and all(one.kind != "uneven-mask" for one in found)
