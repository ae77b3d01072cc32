"""Ranks that exchange tokens for heads around attention: how they are known, what that takes, and a ring instead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.lengths.exchange_costs import HEAD_EXCHANGES, hidden_in_a_ring_s
from scalana.detectors.lengths.head_exchanges import head_exchanges
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.report.topics.data.exchanged_heads import entries, sections
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

STEPS, LAYERS, QUERIES = 4, 2, 1 << 20
ATTENTION_MS, OTHER_MS, TRANSFER_MS = 40.0, 30.0, 2.0


def layer(before, after, backward=False):
    """The exchanges of one layer, in bytes: those before attention and those after it, with the work between."""
    first, second = ((after,), before) if backward else (before, (after,))
    times = 2.0 if backward else 1.0
    exchanges = [[("exchange", size) for size in some] for some in (first, second)]
    return [*exchanges[0], ("work", "attention", times * ATTENTION_MS), *exchanges[1], ("work", "other", OTHER_MS)]


def program_of(before, after, ranks=4, transfer_ms=TRANSFER_MS):
    """All steps: a forward and a backward of every layer, then gradients. Returns the actions of a rank, and bytes."""
    step = [
        *(one for _ in range(LAYERS) for one in layer(before, after)),
        *(one for _ in range(LAYERS) for one in layer(before, after, backward=True)),
    ]
    everyone = list(range(ranks))
    actions, sizes = [], []
    for one in [*step, ("coll", "allreduce", everyone, -1)] * STEPS:
        if one[0] == "exchange":
            sizes.append(one[1])
            one = ("coll", "alltoall", everyone, -1, transfer_ms)
        actions.append(one)
    return [actions for _ in everyone], sizes


def simulated(program, sizes):
    """A run in which all-to-alls of a rank are of some bytes, one after the other."""
    timeline, names = simulate(program)
    exchanges = timeline.calls.operation == timeline.calls.operation[0]
    nbytes = timeline.calls.nbytes.copy()
    nbytes[exchanges] = np.tile(sizes, (len(program), 1)).ravel()
    calls = replace(timeline.calls, nbytes=nbytes)
    return replace(timeline, calls=calls), names


def groups_of(before, after, **options):
    return list(head_exchanges(simulated(*program_of(before, after, **options))[0]))


@pytest.mark.parametrize("keys", [1, 2, 8])
@pytest.mark.parametrize("apart", [False, True], ids=["in-one", "one-by-one"])
def test_exchanges_of_queries_keys_and_values_are_attention(keys: int, apart: bool) -> None:
    of_keys = QUERIES // keys
    before = (QUERIES, of_keys, of_keys) if apart else (QUERIES + 2 * of_keys,)
    timeline, _ = simulated(*program_of(before, QUERIES))
    (group,) = head_exchanges(timeline)
    assert (group.ranks, group.queries_per_key) == ((0, 1, 2, 3), keys)
    assert group.nbytes.reshape(STEPS, 2 * LAYERS, 2).sum(axis=2) == pytest.approx(2 * QUERIES + 2 * of_keys)
    assert group.keys_and_values == pytest.approx(2 * of_keys)
    assert group.forward.tolist() == ([True] * LAYERS + [False] * LAYERS) * STEPS
    seconds = np.where(group.forward, 1.0, 2.0) * ATTENTION_MS / 1e3
    assert group.attention_s(timeline) == pytest.approx(np.repeat(seconds[:, None], 4, axis=1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((QUERIES,), QUERIES, id="experts"),
        pytest.param((64, QUERIES), QUERIES, id="experts-and-counts"),
        pytest.param((QUERIES // 2,), QUERIES, id="experts-that-get-fewer-bits"),
        pytest.param((5 * QUERIES,), QUERIES, id="more-than-keys-and-values"),
        pytest.param((int(2.6 * QUERIES),), QUERIES, id="no-whole-number-of-heads"),
    ],
)
def test_other_exchanges_are_none(before: tuple[int, ...], after: int) -> None:
    assert groups_of(before, after) == []


def test_ranks_that_give_unequal_parts_are_none() -> None:
    program, sizes = program_of((3 * QUERIES,), QUERIES)
    timeline, _ = simulated(program, sizes)
    timeline.calls.nbytes[0] += 4096
    assert list(head_exchanges(timeline)) == []


def analysed(timeline, names):
    psg = structure(names)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=len(timeline.locations))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run))


def test_a_report_says_what_they_are_and_blames_nobody() -> None:
    analysis = analysed(*simulated(*program_of((3 * QUERIES,), QUERIES)))
    assert analysis.findings == []
    found = analysis.sections[HEAD_EXCHANGES.name]
    (one,) = found.groups
    attentions, computed_ms = 2 * LAYERS, LAYERS * 3 * ATTENTION_MS
    assert (one.attentions, one.calls) == (attentions, 2 * attentions)
    assert one.nbytes == pytest.approx(attentions * 4 * QUERIES * 3 / 4)
    assert one.ring_bytes == pytest.approx(LAYERS * 3 * (1 + 2) * 2 * QUERIES)
    assert one.exchange_s == pytest.approx(2 * attentions * TRANSFER_MS / 1e3)
    assert one.attention_s == pytest.approx(computed_ms / 1e3)
    assert found.ring_step_s == pytest.approx((computed_ms + attentions * OTHER_MS) / 1e3)
    assert found.step_s == pytest.approx(found.ring_step_s + one.exchange_s)
    (shown,) = sections(analysis)
    assert "1/4 of the heads" in str(shown) and "around a ring" in str(shown).lower()
    assert entries(analysis)["context_parallelism"]["groups"][0]["queries_per_key"] == 1


@pytest.mark.parametrize("transfer_ms", [TRANSFER_MS, 60.0])
def test_messages_of_a_ring_are_hidden_as_far_as_blocks_are_computed_meanwhile(transfer_ms: float) -> None:
    timeline, _ = simulated(*program_of((3 * QUERIES,), QUERIES, transfer_ms=transfer_ms))
    (group,) = head_exchanges(timeline)
    transfer_s = timeline.calls.exit_s - timeline.calls.enter_s
    left_ms = 1e3 * float((transfer_s - hidden_in_a_ring_s(group, transfer_s, timeline))[group.came].sum()) / 4
    of_a_byte = 2 * transfer_ms / (4 * QUERIES * 3 / 4)
    played = 0.0
    for times in (1.0, 2.0):  # the rounds of one forward and one backward: messages while blocks are computed
        message, block = times * 2 * QUERIES * of_a_byte, times * ATTENTION_MS / 4
        rounds = [max(message, block) for _ in range(3)] + [block]
        played += LAYERS * STEPS * (sum(rounds) - times * ATTENTION_MS)
    assert left_ms == pytest.approx(played, abs=1e-6)
