"""A step is limited by cores only where the job itself keeps them busy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.analysis import Analysis
from scalana.detectors.evidence import InputBound
from scalana.detectors.limits.advice import advise
from scalana.detectors.run import analyze
from scalana.graphs.host_cores import HostCores
from scalana.graphs.samples.computing_threads import ComputingThreads
from scalana.report.text.page import render
from tests.graphs.runs import FILE, allreduce, build, make_ranks

STEPS, STEP_MS, CORES = 20, 40, 4
ON_A_CORE = 0.5
"""Part of its own work that a rank has a core for."""


def analysed(
    folder: Path, helpers_s: float, before_ms: int = 0, threads: ComputingThreads | None = None, host_cores: int = CORES
) -> Analysis:
    """Of two ranks that wait for a core half of the time, and next to which others compute so long in all: these
    ``threads``. They may use four cores of their host, or have all of them."""
    ranks = make_ranks(folder, 2)
    for rank in ranks:
        rank.work([(FILE, "prepare", 3)], 100 + before_ms)
    for number in range(STEPS):
        for rank in ranks:
            begin = rank.now
            rank.work([(FILE, "compute", 20)], STEP_MS, ON_A_CORE)
            rank.marked_step(number, begin)
        allreduce(ranks, number + 1)
    for rank in ranks:
        rank.end()
    ppg = build(folder, command=["train"])
    own = ppg.timeline.own
    own.core_wait_s[:] = np.maximum(own.seconds - own.cpu_s, 0.0)
    alone = int(np.flatnonzero(ppg.metrics["time_s"].sum(axis=1) == 0.0)[-1])
    ppg.metrics["helper_cpu_s"][alone] = helpers_s / 2
    cores = frozenset(range(CORES))
    ppg.run.cores = HostCores.of(["here"] * 2, [cores] * 2, [host_cores] * 2)
    ppg.threads = threads or ComputingThreads()
    return analyze(ppg)


@pytest.mark.parametrize(
    ("busy", "before_ms", "found"),
    [(CORES, 0, True), (CORES, 2000, True), (1, 0, False)],
    ids=["the job", "the job, after a long start", "other programs"],
)
def test_the_job_has_to_keep_the_cores_busy_in_its_steps(
    tmp_path: Path, busy: int, before_ms: int, found: bool
) -> None:
    steps_s = STEPS * STEP_MS * 1e-3
    helpers_s = busy * steps_s - 2 * ON_A_CORE * steps_s
    kinds = [(one.kind, one.ranks) for one in analysed(tmp_path, helpers_s, before_ms).findings]
    assert (("core-bound", [0, 1]) in kinds) is found


def threads(is_own: bool, has_python: bool, cpu_s: tuple[float, ...], in_one_process: bool = True) -> ComputingThreads:
    """Such threads of each of two ranks, with so many seconds each."""
    rank = np.repeat([0, 1], len(cpu_s))
    process = rank if is_own else 2 + (rank if in_one_process else np.arange(len(rank)))
    flags = (np.full(len(rank), one) for one in (is_own, has_python))
    return ComputingThreads(rank, process, *flags, np.tile(cpu_s, 2), np.zeros(len(rank)))


@pytest.mark.parametrize(
    ("what", "host_cores", "computing", "count", "advice"),
    [
        (threads(True, False, (0.4, 0.4, 0.39, 0.001)), CORES, "threads", 3, "Set OMP_NUM_THREADS=2 for each rank"),
        (threads(True, True, (0.8,)), CORES, "python-threads", 1, "max_workers"),
        (threads(False, True, (0.4, 0.4), False), CORES, "children", 2, "fewer child processes"),
        (threads(False, True, (0.4, 0.4)), CORES, "children", 1, "fewer child processes"),
        (threads(False, False, (0.4, 0.4)), CORES, "child-threads", 2, "Set OMP_NUM_THREADS=1"),
        (threads(True, False, (0.8,)), 16, "threads", 1, "Let ranks use the 12 other cores of their host"),
    ],
    ids=["threads of libraries", "threads of Python", "children", "a child", "threads of children", "bound"],
)
def test_what_computes_next_to_ranks_says_what_to_set(
    tmp_path: Path, what: ComputingThreads, host_cores: int, computing: str, count: int, advice: str
) -> None:
    steps_s = STEPS * STEP_MS * 1e-3
    found = analysed(tmp_path, CORES * steps_s - 2 * ON_A_CORE * steps_s, threads=what, host_cores=host_cores)
    (bound,) = (one for one in found.findings if one.kind == "core-bound")
    busy = bound.evidence.busy_cores
    assert busy is not None
    assert (busy.host_cores, busy.host_ranks, busy.computing, busy.computing_count) == (CORES, 2, computing, count)
    assert busy.unused_cores == (host_cores - CORES or None)
    assert advice in bound.advice


@pytest.mark.parametrize("computing", [1, 3], ids=["a core for each", "more than cores"])
def test_others_have_the_cores_where_the_job_has_one_for_each_of_its_threads(tmp_path: Path, computing: int) -> None:
    what = threads(True, False, (0.5,) * computing)
    text = " ".join(render(analysed(tmp_path, 0.1, threads=what)).split())
    assert "if no rank waited for a core." in text
    assert ("4 threads compute on 4 cores" in text and "other programs take its cores" in text) is (computing == 1)


@pytest.mark.parametrize(("unused", "said"), [(0, "use more cores"), (1, "the other core"), (7, "the 7 other cores")])
def test_a_loader_on_few_cores_of_a_host_is_given_the_others(unused: int, said: str) -> None:
    assert said in advise(InputBound(0.1, 0.08, [], []), 1, unused)
