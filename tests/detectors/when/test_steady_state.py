"""What of a run is steady state, when its findings happen, which steps are slow and who makes them so; regions."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.when.region_times import Named, region_times
from scalana.detectors.when.slow_steps import SLOW_STEPS
from scalana.detectors.when.steady import STEADY, steady_state
from scalana.detectors.when.step_marks import steps_of
from scalana.detectors.when.step_range import StepError, part_of
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.periods import Periods
from scalana.graphs.structure.psg import VertexKind
from tests.detectors.jobs import steps as job
from tests.detectors.jobs import structure
from tests.detectors.simulator import sampled, simulate
from tests.detectors.spans import Span, as_columns

RANKS, COUNT = 4, 60
SLOW = {17: 200.0, 41: 300.0}


def cost(step, rank):
    """All compute alike; rank 1 computes a little more; rank 3 fetches for long in two steps."""
    late = {"extra": 4.0} if rank == 1 else {}
    return {"compute": 10.0, **late, **({"fetch": SLOW[step]} if rank == 3 and step in SLOW else {})}


def ppg_of(program, sample_s=0.0):
    timeline, names = simulate(program)
    if sample_s:
        timeline = sampled(timeline, sample_s)
    psg = structure(names)
    seconds = float(timeline.locations.end_s.max())
    run = RunInfo(seconds=seconds, ranks=timeline.ranks, calls_of_rank=[0] * RANKS, comm_s_of_rank=[0.0] * RANKS)
    return PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run), names


def with_start_up(program, ms=2000.0, end_ms=500.0):
    """Rank 2 starts slowly, which all others wait for; the end is the same for all."""
    return [
        [("work", "start", ms if rank == 2 else ms / 4), *actions, ("work", "finish", end_ms)]
        for rank, actions in enumerate(program)
    ]


@pytest.fixture
def run():
    return ppg_of(with_start_up(job(RANKS, COUNT, cost)))


def test_the_steady_state_is_what_lies_in_the_steps_and_the_rest_is_outside(run):
    ppg, names = run
    analysis = analyze(ppg)
    assert len(analysis.steps) == COUNT and analysis.steps.source == "communication"
    total = COUNT * 0.014 + sum(SLOW.values()) / 1e3 - len(SLOW) * 0.004
    assert analysis.section(STEADY).time.total_s == pytest.approx(RANKS * total)
    whole = analysis.time
    assert whole.total_s == pytest.approx(RANKS * ppg.run.seconds)
    outside = {name: analysis.section(STEADY).outside["time_s"][row].tolist() for row, name in enumerate(names)}
    assert outside["start"] == pytest.approx([0.5, 0.5, 2.0, 0.5]) and outside["finish"] == pytest.approx([0.5] * RANKS)
    assert outside["compute"] == pytest.approx([0.0] * RANKS, abs=1e-9)
    assert outside["barrier"] == pytest.approx([1.5, 1.5, 0.0, 1.5])
    assert analysis.section(STEADY).outside["wait_s"].sum() == pytest.approx(4.5)
    assert analysis.section(STEADY).time.wait_s == pytest.approx(whole.wait_s - 4.5)


def test_inside_and_outside_of_any_periods_add_up_to_the_whole(run):
    timeline = run[0].timeline
    waits = find_waits(timeline)
    random = np.random.default_rng(4)
    edges = np.sort(random.uniform(0.0, timeline.locations.end_s.max(), (10, RANKS)), axis=0)
    inside = steady_state(timeline, waits, Periods.of(edges[::2], edges[1::2]), 12)
    around = np.concatenate([np.full((1, RANKS), -1.0), edges, np.full((1, RANKS), 1e9)])
    other = steady_state(timeline, waits, Periods.of(around[::2], around[1::2]), 12)
    metrics = timeline_metrics(timeline, 12)
    for name in ("time_s", "comm_s", "stall_s"):
        assert inside.outside[name] + other.outside[name] == pytest.approx(metrics[name])
    parts = [inside.time, other.time]
    assert sum(part.wait_s for part in parts) == pytest.approx(waits.total_s)
    assert sum(part.work_s for part in parts) == pytest.approx(timeline.own.cpu_s.sum())


def test_slow_steps_and_who_made_them_so(run):
    analysis = analyze(run[0])
    assert [step.number for step in analysis.section(SLOW_STEPS)] == [41, 17]
    for step in analysis.section(SLOW_STEPS):
        assert step.seconds == pytest.approx(0.01 + SLOW[step.number] / 1e3)
        assert step.cause.ranks == [3] and run[1][step.cause.line - 1] == "fetch"
        assert step.cause.lost_s == pytest.approx(3 * SLOW[step.number] / 1e3, rel=0.05)


def test_steps_that_are_slow_on_all_ranks_have_no_cause():
    everyone = job(RANKS, COUNT, lambda step, rank: {"compute": 90.0 if step == 30 else 10.0})
    (slow,) = analyze(ppg_of(everyone)[0]).section(SLOW_STEPS)
    assert slow.number == 30 and slow.cause is None


def test_findings_say_when_they_happen(run):
    ppg, names = run
    told = {names[finding.line - 1]: finding for finding in analyze(ppg).findings}
    assert set(told) == {"start", "extra", "fetch"}
    for finding in told.values():
        assert sum(finding.evidence.as_dict()["lost_by_phase"].values()) == pytest.approx(finding.lost_s)
    start, extra, fetch = (told[name].evidence.as_dict() for name in ("start", "extra", "fetch"))
    assert start["lost_by_phase"]["startup_s"] == pytest.approx(4.5) and "in_steps" not in start
    assert extra["lost_by_phase"]["startup_s"] == 0.0 and extra["in_steps"]["steps"] > 50
    assert fetch["in_steps"].items() >= {"steps": 2, "of": COUNT, "numbers": [17, 41], "counted": True}.items()
    assert fetch["in_steps"]["without_s"] == pytest.approx(0.014, rel=0.02)


def test_some_steps_alone(run):
    ppg, names = run
    steps = steps_of(ppg)
    part, chosen = part_of(ppg, steps, 17, 19)
    analysis = analyze(part, chosen)
    assert part.run.seconds == pytest.approx(0.21 + 2 * 0.014)
    assert analysis.time.total_s == pytest.approx(RANKS * part.run.seconds)
    assert [names[finding.line - 1] for finding in analysis.findings][:1] == ["fetch"]
    assert analysis.findings[0].lost_s == pytest.approx(0.6, rel=0.05)
    assert part.run.calls_of_rank == [3] * RANKS
    assert chosen.number.tolist() == [17, 18, 19]


@pytest.mark.parametrize(
    ("window", "message"),
    [((60, 60), "no step 60: it has steps 0 to 59"), ((5, 3), "step 3 comes before step 5")],
)
def test_steps_that_are_not_there(run, window, message):
    ppg, _ = run
    with pytest.raises(StepError, match=message):
        part_of(ppg, steps_of(ppg), *window)


def test_no_steps_at_all():
    ppg, _ = ppg_of([[("work", "compute", 10.0)]] * RANKS)
    with pytest.raises(StepError, match="this run has no steps"):
        part_of(ppg, steps_of(ppg), 0, 1)
    analysis = analyze(ppg)
    assert analysis.steps is None and analysis.section(STEADY) is None and analysis.section(SLOW_STEPS) is None


def spans_of(regions):
    """Spans that are regions, given as (name, rank, start_s, end_s), each rank's on one lane; more are on a second."""
    spans = [Span(rank + RANKS * (name in SECOND), "region", name, *when) for name, rank, *when in regions]
    return as_columns(spans, [*range(RANKS), *range(RANKS)])


SECOND = ("b", "c")
"""Regions in another thread."""


def times_of(ppg):
    return region_times(Named.of(ppg.spans), ppg.timeline, find_waits(ppg.timeline))


def test_regions_nest_and_hold_time_and_waiting(run):
    ppg, _ = run
    begin = ppg.timeline.calls.enter_s[ppg.timeline.calls.first[2]]  # where rank 2 comes to the barrier
    regions = [("profile", rank, 0.0, 9.0) for rank in range(RANKS)]
    for rank in range(RANKS):
        regions += [
            ("start", rank, 0.0, begin),
            ("read", rank, 0.1, 0.2 + 0.1 * rank),
            ("read", rank, 0.3 + 0.1 * rank, 0.4 + 0.1 * rank),
        ]
    ppg.spans = spans_of(regions)
    outer, inner = times_of(ppg)
    assert (outer.path, inner.path) == (("start",), ("start", "read"))
    assert (outer.count, inner.count) == (RANKS, 2 * RANKS)
    assert outer.seconds == pytest.approx([begin] * RANKS)
    assert inner.seconds == pytest.approx([0.2, 0.3, 0.4, 0.5])
    assert outer.wait_s == pytest.approx([1.5, 1.5, 0.0, 1.5])
    assert inner.wait_s == pytest.approx([0.0, 0.0, 0.0, 0.1])


def test_a_region_in_another_thread_lies_in_none_of_this_one():
    ppg, _ = ppg_of([[("work", "compute", 10000.0)]] * RANKS)
    ppg.spans = spans_of([("a", 0, 0.0, 4.0), ("b", 0, 1.0, 6.0), ("c", 0, 2.0, 3.0), ("c", 0, 8.0, 9.0)])
    assert {time.path: time.seconds[0] for time in times_of(ppg)} == {
        ("a",): 4.0, ("b",): 5.0, ("b", "c"): 1.0, ("c",): 1.0,
    }  # fmt: skip


def test_regions_before_a_window_are_not_in_it(run):
    ppg, _ = run
    ppg.spans = spans_of([("early", 0, 0.0, 1.0), ("long", 0, 0.5, 9.0)])
    part, _ = part_of(ppg, steps_of(ppg), 3, 5)
    (time,) = times_of(part)
    assert time.path == ("long",) and time.seconds[0] == pytest.approx(3 * 0.014)


def test_findings_name_their_region_by_time(run):
    """Rank 3's fetches lie in the region, and with them nearly all that is done between two calls there."""
    ppg, names = run
    calls = ppg.timeline.calls
    rows = calls.first[3] + 1 + np.array(list(SLOW))
    edges = [(calls.exit_s[row - 1] + 0.001, calls.enter_s[row] - 0.001) for row in rows.tolist()]
    ppg.spans = spans_of([("input", 3, start, end) for start, end in edges])
    told = {names[finding.line - 1]: finding.evidence.as_dict().get("region") for finding in analyze(ppg).findings}
    assert told == {"fetch": "input", "extra": None, "start": None}


def test_findings_name_the_region_around_them_in_the_source(run):
    from scalana.graphs.structure.psg import Place, Vertex

    ppg, names = run
    vertex, count = names.index("extra"), len(ppg.psg)
    ppg.psg.vertices.append(Vertex(count, VertexKind.REGION, Place("/job/train.py", 1, 9, 0, "more"), len(names), 0))
    ppg.psg[vertex].parent = count
    ppg.metrics = timeline_metrics(ppg.timeline, len(ppg.psg))
    ppg.spans = spans_of([("more", rank, 2.1, 2.2) for rank in range(RANKS)])
    told = {names[finding.line - 1]: finding.evidence.as_dict().get("region") for finding in analyze(ppg).findings}
    assert told["extra"] == "more"
