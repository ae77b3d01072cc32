"""The event loop against one that goes token by token, laws of conservation, and policies in cases with known ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scalana.workload.costs import Decode, named
from scalana.workload.errors import WorkloadError
from scalana.workload.replay import POLICIES, Replayed, Setting, replay
from scalana.workload.step_costs import StepCosts
from scalana.workload.trajectories import Workload
from scalana.workload.workload_file import made_of

from .examples import workload
from .slow_replicas import Answer, Replica

ONE = Decode(1.0, slots=100)


def played(of: Workload, policy: str, replicas: int, decode: Decode = ONE, **more: Any) -> Replayed:
    return replay(of, Setting(policy, replicas, decode, **more))


def training(seconds: float, ranks: int) -> StepCosts:
    """A loop that trains for so long, on processes that all meet after each phase."""
    every = np.full(ranks, seconds)
    return StepCosts({}, {"training": every}, frozenset({"generation"}), 0.0, False, np.full(ranks, np.nan))


def random_turns(seed: int, count: int) -> Workload:
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        turns = [
            (float(random.integers(0, 50)), float(random.integers(1, 60)), float(random.choice([0.0, 0.31])))
            for _ in range(random.integers(1, 4))
        ]
        turns[-1] = (*turns[-1][:2], 0.0)
        entry = {"step": 0, "group": number, "prompt": turns[0][0], "response": sum(turn[1] for turn in turns)}
        entry |= {"verifier_s": np.nan, "replica": number % 2, "begin_s": np.nan, "end_s": np.nan, "clipped": False}
        rows.append({**entry, "turns": turns})
    return made_of(rows, "token", "random turns")


@pytest.mark.parametrize("slots", [3, 100])
@pytest.mark.parametrize(
    "decode",
    [
        Decode(0.01),
        Decode(0.01, 0.002),
        Decode(0.01, 0.001, 2e-5),
        Decode(0.004, 0.001, 1e-5, start_s=0.05, read_s=0.0005),
    ],
    ids=["floor", "sequence", "context", "read"],
)
def test_events_are_as_token_by_token(decode: Decode, slots: int) -> None:
    """Two replicas, answers of several turns with tools. Who joins in the middle of a token waits for its end in the
    slow loop and not in the fast one: ends differ by a few tokens at most."""
    of, decode = random_turns(11, 24), replace(decode, slots=slots)
    fast = played(of, "recorded", 2, decode)
    token_s = decode.floor_s + decode.sequence_s * 12
    for number in range(2):
        rows = np.flatnonzero(of.replica == number).tolist()
        turns = of.turns
        columns = [slice(int(turns.first[row]), int(turns.first[row + 1])) for row in rows]
        answers = [
            Answer(
                [
                    (int(read), int(tokens), float(tool))
                    for read, tokens, tool in zip(turns.read[at], turns.tokens[at], turns.tool_s[at])
                ]
            )
            for at in columns
        ]
        Replica(decode, list(answers)).finish()
        slow = np.array([one.ended_s for one in answers])
        assert np.abs(fast.end_s[rows] - slow).max() <= 8 * token_s
        assert abs(fast.end_s[rows].mean() / slow.mean() - 1) < 0.02


def test_events_are_exact_where_all_begin_together() -> None:
    """Without slots, tools or reading, nothing joins in the middle of a token."""
    lengths = np.random.default_rng(1).integers(5, 300, 16)
    decode = Decode(0.01, 0.002, 1e-6, slots=16)
    of = workload([lengths.tolist()])
    found = played(of, "batch", 1, decode)
    answers = [Answer([(10, int(tokens), 0.0)]) for tokens in lengths]
    Replica(decode, list(answers)).finish()
    # The sum over whole tokens is less than the parabola's by half of what one token adds: 8 us of 30 ms.
    assert found.end_s == pytest.approx([one.ended_s for one in answers], rel=3e-4)


def test_batches_that_end_as_a_whole() -> None:
    decode = Decode(1.0, 0.5, start_s=2.0, slots=2, whole_batches=True)
    found = played(workload([[2, 4, 3, 1, 6]]), "batch", 1, decode)
    # Two of 2 and 4: 4 tokens at 1 + 2 * 0.5; then 3 and 1; then 6 alone at 1.5. Each begins with 2 s.
    assert found.end_s.tolist() == pytest.approx([10.0, 10.0, 18.0, 18.0, 29.0])


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "recorded"])
def test_nothing_is_lost(policy: str) -> None:
    """Every trajectory is generated once, and lasts at least as long as it takes alone; replicas are busy for no longer
    than there is time; no step trains on what has not ended."""
    lengths = np.random.default_rng(4).lognormal(4.0, 0.8, (5, 64)).round().clip(1)
    of = workload(lengths.tolist(), answers=4)
    decode = Decode(0.01, 0.0005, 1e-7, slots=8)
    found = played(of, policy, 4, decode, steps=training(0.4, 4))
    assert np.isfinite(found.end_s).all() and (found.replica >= 0).all()
    alone = of.response * (decode.floor_s + decode.sequence_s)
    assert (found.end_s - found.begin_s >= alone - 1e-9).all()
    assert 0.0 < found.busy <= 1.0 and len(found.step_s) == 5
    assert found.end_s.max() <= found.total_s + 1e-9
    assert found.total_s >= 5 * 0.4
    at_least = of.response.sum() * (decode.floor_s / decode.slots + decode.sequence_s) / 4
    assert found.total_s >= at_least


def test_at_most_so_many_at_once() -> None:
    of = workload([np.random.default_rng(0).integers(5, 90, 40).tolist()])
    found = played(of, "fifo", 3, Decode(0.01, slots=4))
    for replica in range(3):
        mine = found.replica == replica
        times = np.concatenate((found.begin_s[mine] + 1e-9, found.end_s[mine]))
        change = np.repeat([1, -1], mine.sum())
        assert np.cumsum(change[np.argsort(times, kind="stable")]).max() <= 4


def test_policies_in_a_case_with_known_ends() -> None:
    """Two replicas with one place each, a token a second; lengths 6, 1, 1, 4 are dealt in this order."""
    of, decode = workload([[6, 1, 1, 4]]), replace(ONE, slots=1)
    assert played(of, "batch", 2, decode).total_s == 7.0  # 6 and 1; 1 and 4
    assert played(of, "fifo", 2, decode).total_s == 6.0  # 6; 1, 1 and 4
    assert played(of, "longest", 2, decode).total_s == 6.0
    assert played(replace(of, replica=np.array([0, 0, 0, 1])), "recorded", 2, decode).total_s == 8.0


def test_a_slow_replica_takes_longer() -> None:
    of = workload([[10, 10]])
    found = played(of, "batch", 2, replace(ONE, factor=(1.0, 1.5)))
    assert found.end_s.tolist() == [10.0, 15.0]


def test_steps_one_behind_overlap_training() -> None:
    """Generation takes 10 s, training 6 s: in turn 16 s a step, one behind 10 s, but for the first and the last."""
    of = workload([[10, 10]] * 4)
    assert played(of, "batch", 2, steps=training(6.0, 2)).total_s == pytest.approx(64.0)
    behind = played(of, "one-step-off", 2, steps=training(6.0, 2))
    assert behind.total_s == pytest.approx(46.0)
    assert behind.stale.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    # Where training takes longer, it is what a step takes.
    assert played(of, "one-step-off", 2, steps=training(20.0, 2)).total_s == pytest.approx(90.0)


def test_a_long_answer_holds_up_no_other_step_where_none_is_awaited() -> None:
    """One answer of 100 s among those of 1 s: in turn it is waited for; otherwise others are trained on meanwhile."""
    of = workload([[100, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]])
    costs = training(1.0, 4)
    assert played(of, "batch", 4, steps=costs).step_s.tolist() == [101.0, 2.0, 2.0]
    free = played(of, "async", 4, steps=costs)
    assert free.step_s[0] < 5.0 and free.step_s[1] < 5.0 and free.total_s == pytest.approx(101.0)
    assert free.stale.max() <= 4
    tight = played(of, "async", 4, steps=costs, staleness=0)
    assert tight.step_s.tolist() == [101.0, 2.0, 2.0] and not tight.stale.any()


def test_what_is_carried_over_is_read_again() -> None:
    """20 answers, of which one is long: a step ends with 95 % of what is under way, the rest goes on."""
    of = workload([[1] * 19 + [50]] + [[1] * 20] * 4)
    whole = played(of, "batch", 20, steps=training(1.0, 20))
    carried = played(of, "partial", 20, steps=training(1.0, 20))
    assert whole.step_s[0] == 51.0 and carried.step_s[0] <= 4.0
    assert carried.total_s < whole.total_s and carried.stale.max() >= 1
    read = played(of, "partial", 20, replace(ONE, read_s=0.5), steps=training(1.0, 20))
    assert read.total_s > carried.total_s


def test_more_replicas_are_never_slower_where_answers_are_even() -> None:
    of = workload([[50] * 64] * 2)
    decode = named("32b-tp4")
    totals = [played(of, "fifo", replicas, decode).total_s for replicas in (1, 4, 16, 64)]
    assert totals == sorted(totals, reverse=True)


def test_what_cannot_be_replayed_says_why() -> None:
    of = workload([[1, 2]])
    with pytest.raises(WorkloadError, match="--policy batch"):
        played(of, "recorded", 2)
    with pytest.raises(WorkloadError, match="4 were recorded; use --policy batch"):
        played(replace(of, replica=np.array([0, 3])), "recorded", 2)
    with pytest.raises(WorkloadError, match="--replicas 0: must be at least 1"):
        played(of, "fifo", 0)
    with pytest.raises(WorkloadError, match="known are 7b-tp2, 32b-tp4"):
        named("8b")


def test_generation_without_costs_ends() -> None:
    """Costs that were fitted to nonsense may be 0, or too small for a clock to tell."""
    for decode in (Decode(0.0), Decode(0.0, start_s=2.0), Decode(1e-13)):
        found = played(workload([[100, 5, 60]] * 3), "batch", 2, decode, steps=training(1e4, 2))
        assert found.total_s == pytest.approx(3 * (1e4 + decode.start_s))
