"""A rank that takes longer for everything: one finding of the whole, since when, and what a sound rank would save."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.detectors.when.rank_work import RankWork
from scalana.graphs.metrics import burst_locations, timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.structure.psg import Place, VertexKind
from scalana.report.findings.claims import claim
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate

RANKS, STEPS, PLACES, PLACE_MS = 8, 72, 24, 3.0


def program(times, noise=0.03):
    """Many places of equal work; ``times`` says by what factor one takes longer in a step on a rank."""

    def cost(step, rank):
        return {f"kernel {place}": PLACE_MS * times(step, rank, place) for place in range(PLACES)}

    return steps(RANKS, STEPS, cost, noise=noise)


def analysed(times, hosts=(), without_core=None) -> Analysis:
    """``without_core`` are ranks that wait for a core for all that takes them longer than a sound one."""
    timeline, names = simulate(program(times))
    if without_core is not None:
        lacks = np.isin(timeline.locations.rank[burst_locations(timeline)[timeline.own.burst]], without_core)
        longer_s = timeline.own.seconds - 1.1e-3 * PLACE_MS
        timeline.own.core_wait_s[:] = np.where(lacks, np.maximum(longer_s, 0.0), 0.0)
        timeline.own.cpu_s[:] = timeline.own.seconds - timeline.own.core_wait_s
    psg, seconds = structure(names), float(timeline.locations.end_s.max())
    run = RunInfo(ranks=RANKS, seconds=seconds, host_of_rank=list(hosts))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run))


def seconds_of(times) -> float:
    return float(simulate(program(times))[0].locations.end_s.max())


def sound(step, rank, place):
    return 1.0


def from_step_35(step, rank, place):
    return 1.5 if rank == 3 and step >= 35 else 1.0


def always(step, rank, place):
    return 1.5 if rank == 3 else 1.0


def a_host(step, rank, place):
    return 1.3 if rank in (2, 3) and step >= 35 else 1.0


@pytest.mark.parametrize(
    ("times", "ranks", "factor", "since"),
    [(from_step_35, [3], 1.5, 35), (always, [3], 1.5, None), (a_host, [2, 3], 1.3, 35)],
    ids=["from a step on", "always", "a host"],
)
def test_a_rank_that_is_slow_for_everything_is_one_finding(times, ranks, factor, since) -> None:
    (finding, *others) = analysed(times, [f"node{rank // 2}" for rank in range(RANKS)]).findings
    known = finding.evidence.slow_rank
    assert (finding.kind, finding.ranks, others) == ("slow-rank", ranks, [])
    assert known.slow_times == pytest.approx(factor, rel=0.02)
    assert known.slow_since == pytest.approx(since, abs=1) if since else known.slow_since is None
    assert finding.saving_s == pytest.approx(seconds_of(times) - seconds_of(sound), rel=0.1)
    said = claim(finding, RANKS)
    assert f"{factor} times as long as the others for everything" in said and ("from step" in said) is bool(since)


def more_rows(step, rank, place):
    """Twice the batch: the optimizer, the last two places, has as much to do as before."""
    return 2.0 if rank == 3 and place < PLACES - 2 else 1.0


def some_places(step, rank, place):
    return 3.0 if rank == 3 and place in (2, 5, 7, 9) else 1.0


def test_a_rank_with_more_work_in_some_places_is_late_there() -> None:
    findings = analysed(some_places).findings
    assert findings and all(one.kind == "late-ranks" and one.ranks == [3] for one in findings)


def test_a_rank_with_more_turns_of_one_loop_is_late_there() -> None:
    """The lines of a loop take longer by one factor, each as often as it turns."""
    timeline, names = simulate(program(always))
    psg, seconds = structure(names), float(timeline.locations.end_s.max())
    loop = psg.add(VertexKind.LOOP, Place("work.c", 8, 40, 4, "for (int i = 1; i <= sweeps; i++)"), 0)
    for number, name in enumerate(names):
        if name.startswith("kernel"):
            psg[number].parent = loop
    run = RunInfo(ranks=RANKS, seconds=seconds)
    findings = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)).findings
    assert all("for everything" not in claim(one, RANKS) and one.kind != "slow-rank" for one in findings)


def test_a_rank_with_more_work_in_many_places_is_not_slow_for_everything() -> None:
    (finding,) = analysed(more_rows).findings
    assert (finding.kind, finding.ranks) == ("slow-rank", [3])
    assert finding.saving_s == pytest.approx(seconds_of(more_rows) - seconds_of(sound), rel=0.1)
    assert f"in {PLACES - 2} places of which none stands out" in claim(finding, RANKS)


@pytest.mark.parametrize("odd", [lambda step: False, lambda step: step == 40], ids=["even", "one slow step"])
def test_ranks_that_are_alike_are_not_slow(odd) -> None:
    findings = analysed(lambda step, rank, place: 1.5 if rank == 3 and odd(step) else 1.0).findings
    assert [one.kind for one in findings if one.kind == "slow-rank"] == []


def test_a_slow_rank_is_found_though_half_of_all_ranks_are_late_now_and_then() -> None:
    """For want of a core, one after the other, as on a host with fewer cores than ranks."""
    turns = (0, 1, 2, 4)

    def times(step, rank, place):
        in_turn = rank in turns and step % 8 == turns.index(rank)
        return 4.0 if in_turn else from_step_35(step, rank, place)

    found = [one for one in analysed(times, without_core=turns).findings if one.kind == "slow-rank"]
    assert [one.ranks for one in found] == [[3]]
    assert found[0].evidence.slow_rank.slow_since == pytest.approx(35, abs=1)


def busy_core(step, rank, place):
    return 3.0 if rank == 3 and step >= 35 else 1.0


def test_a_rank_whose_core_another_program_takes_from_a_step_on() -> None:
    findings = analysed(busy_core, without_core=[3]).findings
    (finding,) = [one for one in findings if one.ranks == [3]]
    assert finding.kind == "waiting-for-core"
    assert finding.evidence.slow_rank.slow_since == pytest.approx(35, abs=1)
    assert finding.saving_s == pytest.approx(seconds_of(busy_core) - seconds_of(sound), rel=0.1)
    assert "waits for a core from step 3" in claim(finding, RANKS) and "3.0 times" in claim(finding, RANKS)
    assert "Other programs" in finding.advice


def test_who_works_longer_may_wait_for_a_core_in_proportion() -> None:
    work_s = np.ones((3, 4))
    work_s[:, 2] = 2.0
    core_wait_s, others = work_s / 2, np.array([0, 1, 3])
    assert not RankWork(np.arange(3), work_s, core_wait_s).lacking(2, others).any()
    core_wait_s[:, 2] = 4.0
    assert RankWork(np.arange(3), work_s, core_wait_s).lacking(2, others) == pytest.approx(2.0)
