"""Sequences of unequal lengths as the cause of lateness: what is said, and what another packing would save.

The programs are packed anew here, and simulated: that is what predictions are compared with.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import cost, redistributed
from scalana.runtime.torch.sequences.calls import LONGEST
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

RANKS, STEPS, TOKENS = 4, 30, 4096
TOKEN_MS, SQUARE_MS = 2e-3, 4e-6


def drawn(longest, seed=3):
    """Lengths by step and rank, which come to equal tokens; ``longest`` has the binary logarithm for each rank."""
    random = np.random.default_rng(seed)

    def one(most):
        lengths = []
        while (left := TOKENS - sum(lengths)) > 0:
            lengths.append(min(left, int(2 ** random.uniform(4, most))))
        return lengths

    return [[one(most) for most in longest] for _ in range(STEPS)]


def packed(steps, size=None):
    """The same sequences: the longest first, each to the rank that has least to compute, or of another ``size``."""
    size = size or work_ms
    result = []
    for step in steps:
        ranks = [[] for _ in step]
        for length in sorted(itertools.chain(*step), reverse=True):
            min(ranks, key=size).append(length)
        result.append(ranks)
    return result


def work_ms(lengths):
    return sum(TOKEN_MS * one + SQUARE_MS * one**2 for one in lengths)


def program_of(steps, extra_ms=lambda rank, step: 0.0, attention=work_ms):
    """Steps of a forward and a backward, with noise of a per cent, and an allreduce."""
    random = np.random.default_rng(1)
    program = [[] for _ in range(RANKS)]
    for number, step in enumerate(steps):
        for rank, lengths in enumerate(step):
            noise = float(np.exp(random.normal(0.0, 0.01)))
            program[rank] += [("work", "forward", noise * attention(lengths))]
            program[rank] += [("work", "backward", 2.0 * noise * attention(lengths) + extra_ms(rank, number))]
            program[rank] += [("coll", "allreduce", list(range(RANKS)), -1)]
    return program


def spans_of(steps, worked, vertex):
    """What the recorder writes of these lengths, where each forward begins."""
    forwards = {rank: [row[2] for row in worked if row[:2] == ("forward", rank)] for rank in range(RANKS)}
    spans = []
    for rank, step in itertools.product(range(RANKS), range(len(steps))):
        lengths = sorted(steps[step][rank], reverse=True)
        says = {
            "kind": "lengths",
            "source": "cu_seqlens",
            "whole": 0,
            "sequences": len(lengths),
            "tokens": sum(lengths),
        }
        says |= {"squares": sum(one**2 for one in lengths)}
        says |= {str(place): length for place, length in enumerate(lengths[:LONGEST])}
        spans.append(Span(rank, "other", "lengths", forwards[rank][step], forwards[rank][step], says, step))
    return as_columns(spans, range(RANKS), vertex)


def ended_s(program):
    return float(simulate(program)[0].locations.end_s.max())


def findings(steps, **options):
    """What is found in a run whose lengths were noted."""
    worked = []
    timeline, names = simulate(program_of(steps, **options), worked=worked)
    psg = structure(names)
    edges = timeline.calls.exit_s.reshape(RANKS, STEPS).T
    marks = Steps("optimizer", np.arange(STEPS), np.vstack((np.zeros((1, RANKS)), edges[:-1])), edges)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=RANKS)
    spans = spans_of(steps, worked, names.index("forward"))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans), marks).findings


def test_a_rank_with_longer_sequences_has_more_attention_at_equal_tokens() -> None:
    steps = drawn([9, 9, 11, 9])
    first, *others = findings(steps)
    assert (first.kind, first.ranks) == ("uneven-lengths", [2]) and not others
    squares = np.array([[sum(one**2 for one in lengths) for lengths in step] for step in steps]).mean(axis=0)
    times = squares[2] / np.median(squares)
    assert first.evidence.as_dict()["attention_times"] == pytest.approx(times)
    assert claim(first, RANKS).startswith(
        f"Rank 2 has {times:.1f} times the attention work of the median rank, at equal tokens"
    )
    saved_s = ended_s(program_of(steps)) - ended_s(program_of(packed(steps)))
    assert first.saving_s == pytest.approx(saved_s, rel=0.1)
    assert "with sequences packed by cost" in cost(first, RunInfo(ranks=RANKS, seconds=1.0))
    assert first.evidence.lengths.second_per_square == pytest.approx(3e-3 * SQUARE_MS, rel=0.1)


def test_another_rank_in_each_step_is_late_for_its_lengths() -> None:
    steps = drawn([12, 12, 12, 12])
    (first,) = (one for one in findings(steps) if one.kind == "uneven-lengths")
    assert first.ranks == [0, 1, 2, 3] and first.function == "main" and first.evidence.lengths.in_turn
    saved_s = ended_s(program_of(steps)) - ended_s(program_of(packed(steps)))
    assert first.saving_s == pytest.approx(saved_s, rel=0.1)
    assert "a different one in each step" in claim(first, RANKS)


def test_other_distributions_stand_next_to_each_other() -> None:
    """Packing by tokens is simulated; memory allows no more tokens than now; a bound is what ranks do on average."""
    steps = drawn([9, 9, 11, 9])
    first, *_ = findings(steps)
    found = {one.change: one for one in first.evidence.lengths.redistributions}
    whole_s = ended_s(program_of(steps))
    by_tokens_s = whole_s - ended_s(program_of(packed(steps, size=sum)))
    assert found["by-tokens"].saving_s == pytest.approx(by_tokens_s, abs=0.05 * found["by-cost"].saving_s)
    assert found["by-cost-same-memory"].tokens < 1.01 < found["by-cost"].tokens
    assert found["by-cost-same-memory"].saving_s <= found["by-cost"].saving_s <= found["split-evenly"].saving_s
    even_ms = sum(3.0 * np.mean([work_ms(lengths) for lengths in step]) for step in steps)
    assert found["split-evenly"].saving_s == pytest.approx(whole_s - even_ms / 1e3, rel=0.1)
    # Parts of the line may exceed an even part by a tenth at both ends.
    blocks = found["blocks"]
    assert blocks.saving_s == pytest.approx(found["split-evenly"].saving_s, abs=0.2 * even_ms / 1e3)
    assert blocks.tokens > 1.0 and 0.0 <= blocks.received <= RANKS * TOKENS
    said = redistributed(first)
    assert "packed by tokens" in said and "context parallelism" in said


def test_blocks_cut_one_sequence_that_takes_all_of_a_step() -> None:
    """What packing cannot balance: it is cut over all ranks, which are all of equal cost then."""
    steps = [[[TOKENS], [16] * 4, [16] * 5, [16] * 6] for _ in range(STEPS)]
    first, *_ = findings(steps)
    found = {one.change: one for one in first.evidence.lengths.redistributions}
    assert found["by-cost"].saving_s < 0.01 < 0.9 * found["split-evenly"].saving_s <= found["blocks"].saving_s
    assert 0.5 * TOKENS < found["blocks"].received < TOKENS
    assert "Cut into blocks only where" in redistributed(first)


def test_packing_by_tokens_loses_where_packing_by_cost_was_done() -> None:
    steps = packed(drawn([12, 12, 12, 12]))
    ours = [one for one in findings(steps) if one.kind == "uneven-lengths"]
    lost_s = ended_s(program_of(packed(steps, size=sum))) - ended_s(program_of(steps))
    assert lost_s > 0.0
    for one in ours:
        found = {each.change: each.saving_s for each in one.evidence.lengths.redistributions}
        assert found["by-tokens"] == pytest.approx(-lost_s, rel=0.15) and one.saving_s == pytest.approx(0.0, abs=0.01)
        assert re.search("packed by tokens, .* longer", redistributed(one))
    assert ours


def test_a_rank_that_is_slow_for_another_reason_is_no_matter_of_lengths() -> None:
    """One by a constant, where lengths differ from step to step and cost nothing; and one where they cost a little."""
    steps = drawn([9, 9, 10, 9])
    for attention in (lambda lengths: 20.0, work_ms):
        found = findings(steps, extra_ms=lambda rank, step: 40.0 * (rank == 2), attention=attention)
        assert (found[0].kind, found[0].ranks) == ("late-ranks", [2])


def test_a_rank_with_slightly_longer_sequences_is_not_twice_as_slow_for_them() -> None:
    """No step differs from another one, so that the fit alone could not exclude it."""
    steps = [[[256] * 16, [256] * 16, [260] * 16, [256] * 16] for _ in range(STEPS)]
    found = findings(steps, extra_ms=lambda rank, step: 40.0 * (rank == 2))
    assert (found[0].kind, found[0].ranks) == ("late-ranks", [2])


def test_equal_work_has_no_finding_whatever_the_lengths() -> None:
    assert findings(drawn([12, 12, 12, 12]), attention=lambda lengths: 20.0) == []


def test_a_rank_that_is_late_in_turn_without_lengths_has_none() -> None:
    steps = drawn([9, 9, 9, 9])
    found = findings(steps, extra_ms=lambda rank, step: 40.0 * (rank == step % RANKS), attention=lambda lengths: 20.0)
    assert all(one.kind != "uneven-lengths" for one in found)


def test_one_sequence_that_takes_all_of_a_step_leaves_nothing_to_pack() -> None:
    steps = [[[TOKENS], [256] * 16, [256] * 16, [256] * 16] for _ in range(STEPS)]
    first, *_ = findings(steps)
    assert (first.kind, first.ranks) == ("uneven-lengths", [0])
    assert first.saving_s < 0.01 and "context parallelism" in first.advice
    assert "Another packing of the same sequences would not" in cost(first, RunInfo(ranks=RANKS, seconds=1.0))


def test_ranks_that_share_their_sequences_are_one_replica() -> None:
    """Tensor parallelism: ranks 0 and 1 compute the same, and so do 2 and 3; packing moves sequences between pairs."""
    pairs = [[step[0], step[0], step[2], step[2]] for step in drawn([12, 12, 12, 12])]
    (first,) = (one for one in findings(pairs) if one.kind == "uneven-lengths")
    dealt = [[two[0], two[0], two[1], two[1]] for two in packed([[step[0], step[2]] for step in pairs])]
    saved_s = ended_s(program_of(pairs)) - ended_s(program_of(dealt))
    assert first.saving_s == pytest.approx(saved_s, rel=0.1)
