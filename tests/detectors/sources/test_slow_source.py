"""An expensive source of a mixture as the cause of late steps: what is said, and what other ways to load save.

Loaders are played here, batch by batch, with the program that a finding advises as well: that is what predictions are
compared with.
"""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.sources.loading_model import dealt_evenly
from scalana.detectors.sources.mixture import MIXTURE
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import cost, other_loading, source
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

RANKS, STEPS, BATCH, OWN_S = 4, 72, 4, 0.03
SAMPLE_S = {"text": 0.002, "image": 0.005, "video": 0.08}
VIDEO = list(SAMPLE_S).index("video")


def drawn(videos):
    """Samples of each source ``[steps, ranks, sources]``; ``videos(step, rank)`` of a batch are videos."""
    items = np.zeros((STEPS, RANKS, len(SAMPLE_S)))
    random = np.random.default_rng(1)
    for step, rank in np.ndindex(STEPS, RANKS):
        items[step, rank, VIDEO] = videos(step, rank)
        texts = random.integers(0, BATCH - videos(step, rank) + 1)
        items[step, rank, :2] = texts, BATCH - videos(step, rank) - texts
    return items


def in_turn(step, rank):
    """Each rank has a batch of videos in every twelfth step, in steps of its own."""
    return BATCH * (step % 12 == 3 * rank + 1)


def evenly(step, rank):
    """As many videos, but one on each rank in the same steps."""
    return int(step % 3 == 1)


def on_one(step, rank):
    """Only one rank has videos."""
    return 2 * (rank == 2)


def played(items, workers):
    """When batches are asked for and handed out, each ``[steps, ranks]``, and when they are begun and done."""
    cost = items @ np.array(list(SAMPLE_S.values()))
    asked, got, begun, done = (np.zeros((STEPS, RANKS)) for _ in range(4))
    now = np.zeros(RANKS)
    free = np.zeros((RANKS, max(workers, 1)))
    for step in range(STEPS):
        for rank in range(RANKS):
            asked[step, rank] = now[rank]
            if workers:
                told = got[step - 2 * workers, rank] if step >= 2 * workers else 0.0
                begun[step, rank] = max(free[rank, step % workers], told)
            else:
                begun[step, rank] = now[rank]
            done[step, rank] = free[rank, step % max(workers, 1)] = begun[step, rank] + cost[step, rank]
            got[step, rank] = max(now[rank], done[step, rank])
        now = np.full(RANKS, got[step].max() + OWN_S)
    return asked, got, begun, done


def spans_of(worked, items, workers, vertex, joint):
    """What recorders write: a span for each wait of a rank, and one for each source of a batch, of its worker."""
    waits = [row for row in worked if row[0] == "load"]
    _, _, begun, done = played(items, workers)
    # Samples of several sources that one call loads: each has an equal part of what it took.
    cost_ns = 1e9 * (items @ np.array(list(SAMPLE_S.values()))) / BATCH
    # Waits of a run are as they were simulated: where a rank does not wait, it asks when it has worked.
    spans = [
        Span(rank, "data", "DataLoader", *when, {"batch": step, "workers": workers, "ahead": 2 * workers})
        for rank in range(RANKS)
        for step, (_, _, *when) in enumerate(row for row in waits if row[1] == rank)
    ]
    for step, rank, one in np.argwhere(items > 0.0).tolist():
        name = list(SAMPLE_S)[one]
        load_ns = round(items[step, rank, one] * (cost_ns[step, rank] if joint else 1e9 * SAMPLE_S[name]))
        worker = step % workers if workers else -1
        says = {"kind": "source", "source": name, "items": int(items[step, rank, one]), "load_ns": load_ns}
        says |= {"batch": step, "worker": worker, "workers": workers, **({"joint": 1} if joint else {})}
        lane = RANKS + rank * max(workers, 1) + max(worker, 0)
        spans.append(Span(lane, "other", "DataLoader", begun[step, rank] - 1e-6, done[step, rank] - 1e-6, says))
    lanes = [*range(RANKS), *(place // max(workers, 1) for place in range(RANKS * max(workers, 1)))]
    return as_columns(spans, lanes, vertex, vertex + 1, range(len(lanes)))


def analysis(items, workers, joint=False):
    """What is found in a run with these batches; ``joint``: each is loaded by one call."""
    asked, got, _, _ = played(items, workers)
    everyone = ("coll", "allreduce", list(range(RANKS)), -1)
    waits_ms = 1e3 * np.maximum(got - asked, 1e-6)
    program = [
        [
            action
            for step in range(STEPS)
            for action in (("work", "load", waits_ms[step, rank]), ("work", "compute", 1e3 * OWN_S), everyone)
        ]
        for rank in range(RANKS)
    ]
    worked = []
    timeline, names = simulate(program, worked=worked)
    psg = structure(names)
    edges = timeline.calls.exit_s.reshape(RANKS, STEPS).T
    marks = Steps("optimizer", np.arange(STEPS), np.vstack((np.zeros((1, RANKS)), edges[:-1])), edges)
    run = RunInfo(seconds=float(timeline.locations.end_s.max()), ranks=RANKS)
    spans = spans_of(worked, items, workers, names.index("load"), joint)
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans), marks)


def steady_s(items, workers):
    """From the second step to the last."""
    asked = played(items, workers)[0]
    return float((asked[-2] - asked[0]).mean())


def predicted(found):
    return {one.change: one.step_s * (STEPS - 2) for one in found.evidence.source.other_loading}


@pytest.mark.parametrize("workers", [0, 1])
def test_steps_are_late_in_which_some_rank_has_videos(workers: int) -> None:
    items = drawn(in_turn)
    first, *others = analysis(items, workers).findings
    assert (first.kind, first.ranks, first.function) == ("slow-source", [0, 1, 2, 3], "main")
    assert not others
    known = first.evidence.source
    assert (known.source, known.sources, known.source_workers) == ("video", 3, workers)
    assert known.source_samples == pytest.approx(1 / 12, abs=0.01)
    assert known.sample_s == pytest.approx(0.08)
    changed = predicted(first)
    assert changed["dealt-evenly"] == pytest.approx(steady_s(drawn(evenly), workers), rel=0.1)
    assert changed["more-workers"] == pytest.approx(steady_s(items, 2 * workers or 1), rel=0.1)
    assert known.steps_with_s > 3 * known.steps_without_s
    run = RunInfo(ranks=RANKS, seconds=10.0)
    assert claim(first, RANKS).startswith("Source `video` has 8.5 % of the samples of 3 sources, and takes ")
    assert "Such a sample takes 80 ms to load, one of the others 3" in source(first, run)
    assert "dealt out evenly over the ranks" in other_loading(first)
    assert first.saving_s == pytest.approx(steady_s(items, workers) - changed[known.other_loading[0].change], rel=0.1)
    assert f"{first.saving_s:.2f} s" in cost(first, run)


@pytest.mark.parametrize("videos", [in_turn, evenly], ids=["by themselves", "among others"])
def test_what_each_source_takes_is_fitted_where_one_call_loads_several(videos) -> None:
    items = drawn(videos)
    (apart,), (joint,) = analysis(items, 1).findings[:1], analysis(items, 1, joint=True).findings[:1]
    assert joint.kind == "slow-source"
    known, usual = joint.evidence.source, apart.evidence.source
    assert (known.source, known.sample_s) == ("video", pytest.approx(0.08, rel=0.01))
    assert known.other_sample_s == pytest.approx(usual.other_sample_s, rel=0.05)
    assert joint.lost_s == pytest.approx(apart.lost_s, rel=0.02)
    for one, other in zip(known.other_loading, usual.other_loading, strict=True):
        assert (one.change, one.step_s) == (other.change, pytest.approx(other.step_s, rel=0.02))


def test_nothing_is_known_of_sources_in_batches_that_are_all_alike() -> None:
    items = drawn(lambda step, rank: 1)
    items[:, :, :2] = 2, 1
    assert not [one for one in analysis(items, 1, joint=True).findings if one.kind == "slow-source"]
    assert MIXTURE.name not in analysis(items, 1, joint=True).sections


def test_what_waits_for_videos_is_their_cost() -> None:
    items = drawn(in_turn)
    (first,) = analysis(items, 0).findings
    asked, got, _, _ = played(items, 0)
    # In a step with videos all ranks wait for the one that has them.
    has = items[1:-1, :, VIDEO].any(axis=1)
    assert first.lost_s == pytest.approx(RANKS * (got - asked)[1:-1].max(axis=1)[has].sum(), rel=0.1)


def test_a_rank_that_has_all_of_a_source_is_named() -> None:
    (first,) = analysis(drawn(on_one), 1).findings
    assert (first.kind, first.ranks) == ("slow-source", [2])
    assert claim(first, RANKS).startswith("Only rank 2 loads source `video`: it has 12 % of the samples of 3 sources")
    dealt = drawn(lambda step, rank: int((step + rank) % 2 == 0))
    assert predicted(first)["dealt-evenly"] == pytest.approx(steady_s(dealt, 1), rel=0.1)


def test_the_worker_that_has_all_of_a_source_is_named() -> None:
    (first,) = analysis(drawn(lambda step, rank: BATCH * (step % 4 == 1 and rank == 1)), 2).findings
    known = first.evidence.source
    assert (first.ranks, known.source_worker, known.source_worker_rank) == ([1], 1, 1)
    assert "On rank 1, worker 1 loads 100 % of these samples." in source(first, RunInfo(ranks=RANKS))


def test_sources_that_cost_alike_or_are_hidden_are_no_cause() -> None:
    hidden = analysis(drawn(lambda step, rank: 0), 2)
    assert not [one for one in hidden.findings if one.kind == "slow-source"]


def test_samples_are_dealt_out_evenly() -> None:
    items = np.zeros((1, 3, 2))
    items[0, 0] = 4, 0
    items[0, 1] = 0, 6
    cost = items * [10.0, 1.0]
    # The fourth expensive sample is left over; each rank gets two of the six others.
    assert sorted(dealt_evenly(cost, items)[0].tolist()) == [12.0, 12.0, 22.0]
