"""Threads that hold what main threads wait for, in simulated jobs: against the job run again without them."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.limits.held_locks import turns_s
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.timeline import Timeline, WaitsForHelpers
from tests.detectors.jobs import steps, structure
from tests.detectors.simulator import simulate

STEPS = 12
FILE = "/job/train.py"
LINES = {"loop": "total += n * n", "lock": "with table:", "ask": "inbox.get()"}


def costs(thread_ms: float, late_ms: float = 0.0):  # type: ignore[no-untyped-def]
    """Steps in which main threads compute, and wait for their threads; the last rank does something else as well."""
    return lambda step, rank: {"forward": 10.0, "count": thread_ms, "late": late_ms if rank == 1 else 0.1}


def seconds_of(ranks: int, cost) -> float:  # type: ignore[no-untyped-def]
    timeline, _ = simulate(steps(ranks, STEPS, cost))
    return float(timeline.locations.end_s.max())


def analysis_of(ranks: int, cost, waiting: dict[str, float], interpreter: bool = True) -> Analysis:  # type: ignore[no-untyped-def]
    """The analysis of a job in which `count` is the work of threads. ``waiting`` says which part of it main threads
    wait for in lines of each kind."""
    timeline, names = simulate(steps(ranks, STEPS, cost))
    psg, run = structure(names), RunInfo(ranks=ranks, seconds=float(timeline.locations.end_s.max()))
    count, waits_in = names.index("count"), names.index("forward")
    psg[waits_in].place = psg[waits_in].place.__class__(FILE, 1, len(LINES), 0, "forward")
    timeline.activities.helper[count] = True
    whole_s = float(timeline.own.seconds[timeline.own.activity == count].sum())
    seconds = whole_s * np.array([waiting.get(kind, 0.0) for kind in LINES])
    rows = np.arange(len(LINES))
    timeline.activities.waits = WaitsForHelpers(
        np.full(len(rows), count),
        np.full(len(rows), waits_in),
        1 + rows,
        seconds,
        seconds if interpreter else np.zeros(len(rows)),
        np.full(len(rows), float(timeline.locations.end_s.max()) / 2),
    )
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run))


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{line}\n" for line in LINES.values()]
    monkeypatch.setitem(linecache.cache, FILE, (sum(map(len, lines)), None, lines, FILE))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(("where", "kind"), [("loop", "gil-bound"), ("lock", "lock-bound")])
def test_without_the_thread_steps_take_what_is_predicted(ranks: int, where: str, kind: str) -> None:
    first = analysis_of(ranks, costs(15.0), {where: 1.0}).findings[0]
    assert (first.kind, first.ranks) == (kind, list(range(ranks)))
    assert first.evidence.waits_at is not None
    assert (first.evidence.waits_at.file, first.evidence.waits_at.line) == (FILE, 1 + list(LINES).index(where))
    really_s = seconds_of(ranks, costs(15.0)) - seconds_of(ranks, costs(0.0))
    assert first.saving_s == pytest.approx(really_s, rel=0.01)


def test_only_that_part_counts_in_which_the_main_thread_waits_for_the_interpreter() -> None:
    """Half of the thread's work is asked for: it takes as long in a process."""
    first = analysis_of(2, costs(16.0), {"loop": 0.5, "ask": 0.5}).findings[0]
    really_s = seconds_of(2, costs(16.0)) - seconds_of(2, costs(8.0))
    assert first.kind == "gil-bound" and first.saving_s == pytest.approx(really_s, rel=0.01)


def crowded(setup_core_ms: float, step_core_ms: float) -> Timeline:
    """Two ranks that compute 20 ms before their steps and 10 ms in each, and wait for cores meanwhile."""

    def cost(step: int, rank: int) -> dict[str, float]:
        return {"set up": 20.0 + setup_core_ms} if step == 0 else {"forward": 10.0 + step_core_ms}

    timeline, names = simulate(steps(2, 1 + STEPS, cost))
    own = timeline.own
    for name, waited_ms in (("set up", setup_core_ms), ("forward", step_core_ms)):
        rows = own.activity == names.index(name)
        own.core_wait_s[rows] = 1e-3 * waited_ms
        own.cpu_s[rows] = own.seconds[rows] - own.core_wait_s[rows]
    return timeline


@pytest.mark.parametrize(
    ("setup_core_ms", "step_core_ms", "turns_ms"),
    [(0.0, 15.0, 15.0), (10.0, 15.0, 10.0), (10.0, 5.0, 0.0), (40.0, 5.0, 0.0), (0.0, 0.0, 0.0)],
)
def test_turns_are_what_is_waited_for_a_core_more_than_in_the_rest_of_the_run(
    setup_core_ms: float, step_core_ms: float, turns_ms: float
) -> None:
    timeline = crowded(setup_core_ms, step_core_ms)
    in_steps = np.isclose(timeline.own.seconds, 1e-3 * (10.0 + step_core_ms))
    stretch = Stretch(0.0, 1.0, STEPS, True, in_steps.astype(np.float64), np.ones(len(timeline.calls)))
    seconds = turns_s(stretch, timeline)
    assert seconds[in_steps] == pytest.approx(np.full(2 * STEPS, 1e-3 * turns_ms))


def test_a_late_rank_that_costs_more_comes_first() -> None:
    kinds = [one.kind for one in analysis_of(3, costs(5.0, late_ms=40.0), {"loop": 1.0}).findings]
    assert kinds == ["late-ranks", "gil-bound"]


@pytest.mark.parametrize(
    ("thread_ms", "waiting", "interpreter"),
    [
        (15.0, {"ask": 1.0}, True),
        (15.0, {"loop": 1.0}, False),  # for a child process, or in a function that waits
        (0.2, {"loop": 1.0}, True),
    ],
)
def test_work_that_is_asked_for_or_slight_is_no_lock(
    thread_ms: float, waiting: dict[str, float], interpreter: bool
) -> None:
    assert not analysis_of(2, costs(thread_ms), waiting, interpreter).findings


def test_what_one_rank_waits_for_is_a_matter_of_that_rank() -> None:
    def alone(step: int, rank: int) -> dict[str, float]:
        return {"forward": 10.0, "count": 15.0 if rank == 1 else 0.1}

    found = analysis_of(3, alone, {"loop": 1.0}).findings
    assert [(one.kind, one.ranks) for one in found] == [("late-ranks", [1])]
