"""Findings on noisy programs: planted causes come out with their seconds, and noise does not come out at all."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks import late_ranks as late_ranks
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import VertexKind
from scalana.report.findings.claims import claim
from tests.detectors import examples
from tests.detectors.jobs import analyse, steps, structure
from tests.detectors.simulator import simulate


def end_s(program):
    return simulate(program)[0].locations.end_s.max()


def balanced(step, rank):
    return {"load": 5.0, "forward": 30.0}


PERIODS = [0.0, 0.005]
"""Exact knowledge of own work, and what 200 samples a second tell of it."""


@pytest.mark.parametrize("period_s", PERIODS)
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("seed", range(5))
def test_a_balanced_program_has_no_finding(ranks, seed, period_s):
    found, _ = analyse(steps(ranks, 60, balanced, noise=0.1, seed=seed), period_s=period_s)
    assert found == []


@pytest.mark.parametrize("period_s", PERIODS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_slow_rank(ranks, period_s):
    def cost(step, rank):
        return {"augment": 25.0 if rank == 1 else 5.0, "forward": 30.0}

    def mended(step, rank):
        return {"augment": 5.0, "forward": 30.0}

    program = steps(ranks, 60, cost, noise=0.03)
    (name, finding), *rest = analyse(program, period_s=period_s)[0]
    assert (name, finding.ranks, rest) == ("augment", [1], [])
    assert finding.lost_s == pytest.approx(0.020 * 60 * (ranks - 1), rel=0.1)
    assert finding.saving_s == pytest.approx(end_s(program) - end_s(steps(ranks, 60, mended, noise=0.03)), rel=0.1)
    assert finding.evidence.as_dict()["ratio"] == pytest.approx(5.0, rel=0.1)
    assert [(hop.operation, hop.ranks) for hop in finding.path] == [("allreduce", ranks - 1), ("", 1)]


@pytest.mark.parametrize("period_s", PERIODS)
@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_a_fault_that_moves_is_one_finding_on_all_ranks(ranks, period_s):
    def cost(step, rank):
        return {"forward": 30.0, **({"rebuild": 40.0} if step % ranks == rank else {})}

    found, _ = analyse(steps(ranks, 10 * ranks, cost, noise=0.05), period_s=period_s)
    ((name, finding),) = found
    assert (name, finding.ranks) == ("rebuild", list(range(ranks)))
    assert finding.lost_s == pytest.approx(0.040 * 10 * ranks * (ranks - 1), rel=0.1)
    assert finding.saving_s == pytest.approx(0.040 * 10 * ranks, rel=0.1)


@pytest.mark.parametrize("period_s", PERIODS)
def test_load_that_moves_from_ranks_to_others_over_the_run_is_one_finding(period_s):
    def cost(step, rank):
        return {"forward": 20.0 * (1.0 + 0.9 * np.cos(np.pi * (step / 150 - rank)))}

    def mended(step, rank):
        return {"forward": 20.0 * (1.0 - 0.9 * abs(np.cos(np.pi * step / 150)))}

    program = steps(4, 300, cost, noise=0.1)
    ((name, finding),) = analyse(program, period_s=period_s)[0]
    assert (name, finding.ranks, finding.evidence.as_dict()["drifts"]) == ("forward", [0, 1, 2, 3], True)
    assert finding.saving_s == pytest.approx(end_s(program) - end_s(steps(4, 300, mended, noise=0.1)), rel=0.15)
    assert "each far more than the others during a part of the run" in claim(finding, 4)
    assert "rebalance" in finding.advice


@pytest.mark.parametrize("period_s", PERIODS)
def test_a_core_that_is_slower_for_a_while_is_no_finding(period_s):
    def cost(step, rank):
        return {"forward": 30.0 * (1.3 if rank == 2 and 50 <= step < 90 or rank == 0 and step >= 270 else 1.0)}

    assert analyse(steps(4, 300, cost, noise=0.1), period_s=period_s)[0] == []


def test_ranks_that_take_turns_in_waiting_for_a_lock_are_a_finding_and_in_computing_noise():
    turns = [random.permutation(4) for random in [np.random.default_rng(1)] for _ in range(60)]

    def cost(step, rank):
        return {"forward": 10.0, "lock": 15.0 * turns[step][rank]}

    program = steps(4, 60, cost, noise=0.03)
    assert analyse(program)[0] == []
    ((name, finding),) = analyse(program, on_cpu=False)[0]
    assert (name, finding.ranks) == ("lock", [0, 1, 2, 3])
    assert finding.lost_s == pytest.approx(0.090 * 60, rel=0.1)


@pytest.mark.parametrize("period_s", PERIODS)
def test_two_faults_on_two_ranks_in_two_places(period_s):
    def cost(step, rank):
        return {
            "load": 40.0 if rank == 1 and step % 2 else 5.0,
            "forward": 60.0 if rank == 3 and not step % 2 else 20.0,
        }

    found, _ = analyse(steps(4, 60, cost, noise=0.03), period_s=period_s)
    assert {(name, tuple(f.ranks)) for name, f in found} == {("load", (1,)), ("forward", (3,))}
    assert sum(f.lost_share for _, f in found) > 0.9


@pytest.mark.parametrize("period_s", PERIODS)
def test_two_ranks_slow_in_the_same_place_are_mended_together(period_s):
    def cost(step, rank):
        return {"augment": 35.0 if rank in (1, 2) else 5.0, "forward": 20.0}

    ((name, finding),) = analyse(steps(4, 60, cost, noise=0.03), period_s=period_s)[0]
    assert (name, finding.ranks) == ("augment", [1, 2])
    assert finding.saving_s == pytest.approx(0.030 * 60, rel=0.1)


@pytest.mark.parametrize("period_s", PERIODS)
def test_a_fault_in_every_tenth_step(period_s):
    def cost(step, rank):
        return {"forward": 30.0, **({"evaluate": 200.0} if rank == 2 and step % 10 == 5 else {})}

    ((name, finding),) = analyse(steps(4, 100, cost, noise=0.03), period_s=period_s)[0]
    assert (name, finding.ranks) == ("evaluate", [2])
    assert finding.lost_s == pytest.approx(0.2 * 10 * 3, rel=0.1)


def test_the_saving_of_a_masked_fault_is_what_fixing_only_it_brings():
    found, _ = analyse([rank * 40 for rank in examples.masked()])
    (name, finding), *_ = found
    assert (name, finding.ranks) == ("f", [1])
    assert finding.lost_s == pytest.approx(0.070 * 40)
    assert finding.saving_s == pytest.approx(0.010 * 40)
    behind = finding.evidence.as_dict()["behind"]
    assert behind["ranks"] == [2]
    assert behind["lost_s"] == pytest.approx(0.020 * 3 * 40)


def test_behind_a_cause_hides_none_that_is_told_before_it():
    # In most steps rank 1 is last, and in the others rank 2; either hides the other.
    def cost(step, rank):
        late = {1: ("f", 70 if step % 4 else 50), 2: ("g", 60)}
        return {"forward": 10, **dict([late[rank]] if rank in late else [])}

    (first, f), (second, g) = analyse(steps(4, 80, cost))[0]
    assert (first, f.ranks, second, g.ranks) == ("f", [1], "g", [2])
    assert f.evidence.as_dict()["behind"]["ranks"] == [2]
    assert "behind" not in g.evidence.as_dict()


def test_behind_a_cause_hides_nothing_at_its_own_line(monkeypatch):
    monkeypatch.setattr(late_ranks, "next_cause", lambda candidate, *_: candidate)
    ((name, finding), *_) = analyse([rank * 40 for rank in examples.masked()])[0]
    assert (name, finding.ranks) == ("f", [1])
    assert "behind" not in finding.evidence.as_dict()


@pytest.mark.parametrize(("ms", "told"), [(6, ["extra"]), (2, [])])
def test_what_only_one_rank_does_is_told_though_mending_it_alone_brings_little(ms, told):
    # Rank 2 is nearly as late as rank 1, in a place of its own: without the one, all would wait for the other.
    def cost(step, rank):
        own = {"extra": ms} if rank == 1 else {"shared": 0.9 * ms if rank == 2 else 0.0}
        return {"kernel": 100 - ms, **own}

    found, _ = analyse(steps(4, 40, cost))
    assert [name for name, finding in found if finding.ranks == [1]] == told


def test_what_one_of_several_threads_does_alone_is_not_told_for_its_length():
    """It may but look whether the others have something for it to do."""

    def cost(step, rank):
        own = {"extra": 6} if rank == 1 else {"shared": 5.4 if rank == 2 else 0.0}
        return {"kernel": 94, **own}

    program = [*steps(4, 40, cost), [("work", "main", 4000.0)]]
    assert "extra" in [name for name, _ in analyse(program)[0]]
    assert "extra" not in [name for name, _ in analyse(program, rank_of=(0, 1, 2, 3, 1))[0]]


def test_only_work_is_named_behind_a_masked_fault():
    """Behind the work of rank 1 hides that rank 2 takes part in an operation that lasts."""
    step = [
        [*examples.work(f=40 if rank == 1 else 10)]
        + [("coll", "barrier", [2, 3], -1, 20)] * (rank in (2, 3))
        + [examples.everyone()]
        for rank in range(4)
    ]
    ((name, finding),) = analyse([rank * 40 for rank in step])[0]
    assert (name, finding.ranks) == ("f", [1])
    assert finding.saving_s == pytest.approx(0.010 * 40)
    assert "behind" not in finding.evidence.as_dict()


def test_the_path_of_a_chain_leads_over_every_rank():
    found, _ = analyse([rank * 20 for rank in examples.chain()])
    (name, finding), *_ = found
    assert (name, finding.ranks) == ("assemble", [0])
    assert [hop.rank for hop in finding.path] == [3, 2, 1, 0]
    assert [hop.operation for hop in finding.path] == ["recv", "recv", "recv", ""]


def test_the_only_rank_that_works_is_serial():
    found, _ = analyse([rank * 30 for rank in examples.late_root()])
    (name, finding), *_ = found
    assert (name, finding.kind, finding.ranks) == ("save", "serial", [0])


@pytest.mark.parametrize("period_s", PERIODS)
def test_the_decoy_over_many_steps(period_s):
    found, _ = analyse([rank * 40 for rank in examples.decoy()], period_s=period_s)
    (name, finding), *rest = found
    assert (name, finding.ranks, rest) == ("mask", [1], [])
    assert finding.lost_s == pytest.approx(0.090 * 40, rel=0.1)
    assert finding.saving_s == pytest.approx(0.030 * 40, rel=0.1)


def test_phases_shorter_than_the_sampling_period():
    def cost(step, rank):
        return {"augment": 4.0 if rank == 1 else 1.0, "forward": 3.0}

    ((name, finding),) = analyse(steps(4, 600, cost, noise=0.03), period_s=0.005)[0]
    assert (name, finding.ranks) == ("augment", [1])
    assert finding.lost_s == pytest.approx(0.003 * 600 * 3, rel=0.1)


@pytest.mark.parametrize(
    ("start_ms", "ranks"),
    [
        ([0.0, 40.0, 10.0, 900.0], [3]),
        ([0.0, 150.0, 80.0, 300.0], []),
        ([0.0, 900.0], [1]),
        ([0.0, 4.0, 1.0, 90.0], []),
    ],
)
def test_a_rank_starts_late_if_it_does_so_by_far_more_than_the_others_lie_apart(start_ms, ranks):
    program = steps(len(start_ms), 10, lambda step, rank: {"forward": 10.0})
    found, _ = analyse(program, start_ms=start_ms)
    assert [(finding.kind, finding.ranks) for _, finding in found] == [("carried-in", ranks)] * bool(ranks)


@pytest.mark.parametrize("name", ["import", "load"])
def test_imports_that_cost_nothing_are_no_finding(name):
    """Two ranks wait for a third, while the fourth takes as long at the same line."""
    once = [[("work", name, 100.0 if rank in (0, 3) else 1.0)] for rank in range(4)]
    meet = [[("coll", "allreduce", [0, 1, 2], -1)] if rank < 3 else [] for rank in range(4)]
    program = [a + b + c for a, b, c in zip(once, meet, steps(4, 5, lambda step, rank: {"forward": 10.0}), strict=True)]
    timeline, names = simulate(program)
    psg = structure(names)
    psg.vertices[names.index(name)].kind = VertexKind.CALL
    waits = find_waits(timeline)
    found = late_ranks.detect(timeline, psg, late_ranks.Waiting(waits, blame(timeline, waits), prepare(timeline), []))
    assert [names[finding.line - 1] for finding in found] == ([] if name == "import" else [name])


def test_ranks_that_are_as_late_behind_another_are_mended_together():
    """One waits for all others in turn; where two take long, the second has come when it is waited for."""

    def program(*slow):
        ranks = range(6)
        steps = [[("coll", "barrier", list(ranks), -1)] for _ in ranks]
        for _ in range(30):
            for worker in ranks[1:]:
                steps[0].append(("send", worker))
                steps[worker] += [("recv", 0), ("work", "chunk", 60.0 if worker in slow else 5.0), ("send", 0)]
            steps[0] += [("recv", worker) for worker in ranks[1:]]
        return steps

    (name, finding), *_ = analyse(program(2, 3))[0]
    assert (name, finding.ranks) == ("chunk", [2, 3])
    as_it_is, mended = (simulate(each)[0].locations.end_s.max() for each in (program(2, 3), program()))
    assert finding.saving_s == pytest.approx(as_it_is - mended, rel=0.05)
    assert finding.evidence.as_dict()["seconds_here"] == pytest.approx(30 * 0.06, rel=0.05)
