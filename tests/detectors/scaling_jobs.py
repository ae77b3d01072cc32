"""Simulated programs with planted scaling faults, at any number of ranks, and their analysis."""

from __future__ import annotations

import numpy as np

from scalana import detectors
from scalana.detectors.runs.costs import run_costs
from scalana.detectors.runs.scaling import detect
from scalana.graphs.host_cores import HostCores
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.runtime.operations import BY_NAME
from tests.detectors.simulator import sampled, simulate

STEPS = 12
LINES = {"solve": 10, "gather": 20, "table": 30, "halo": 40, "allreduce": 50, "barrier": 60, "other": 70, "bubble": 80}
"""Line of every activity and call; activities stand in functions of their own name."""


def program(ranks, cost, *, transfer=lambda p: 0.0, steps=STEPS, noise=0.0, run_noise=0.0, seed=0):
    """``cost(rank, ranks)`` gives ``{activity: ms}`` of a step, which an allreduce ends that takes ``transfer(p)`` ms.

    ``noise`` is that of each activity in each step, ``run_noise`` that of an activity over a whole run.
    """
    random = np.random.default_rng(1000 * seed + ranks)
    everyone = list(range(ranks))
    whole = {name: float(np.exp(random.normal(0.0, run_noise))) for name in LINES}
    result = []
    for rank in everyone:
        actions = [("coll", "barrier", everyone, -1)]
        for _ in range(steps):
            for name, ms in cost(rank, ranks).items():
                actions.append(("work", name, ms * whole[name] * float(np.exp(random.normal(0.0, noise)))))
            actions.append(("coll", "allreduce", everyone, -1, transfer(ranks) * whole["allreduce"]))
        result.append(actions)
    return result


def structure(names, moved=0):
    """``main`` with a loop over steps that calls a function for each activity; returns graph and vertex by name."""
    psg, vertex = PSG("job.py"), {}
    main = psg.add(VertexKind.FUNCTION, Place("/job/job.py", 1 + moved, 9 + moved, 0, "main"), 0)
    loop = psg.add(VertexKind.LOOP, Place("/job/job.py", 2 + moved, 9 + moved, 4, "for step in range(STEPS)"), main)
    for name in sorted(names, key=lambda n: LINES[n]):
        line = LINES[name] + moved
        if name in BY_NAME:
            parent = main if name == "barrier" else loop
            place = Place("/job/job.py", line, line, 8, f"dist.{name}")
            vertex[name] = psg.add(VertexKind.COMM, place, parent, BY_NAME[name].code)
        else:
            function = psg.add(VertexKind.FUNCTION, Place("/job/job.py", line - 1, line + 3, 0, name), loop)
            inner = psg.add(VertexKind.LOOP, Place("/job/job.py", line, line + 2, 4, f"for x in {name}_data"), function)
            vertex[name] = psg.add(VertexKind.COMP, Place("/job/job.py", line + 1, line + 2, 8, f"{name}(x)"), inner)
    return psg, vertex


def analyse(program, *, period_s=0.0, moved=0):
    """The analysis of a simulated program, with lines shifted by ``moved``."""
    timeline, names = simulate(program)
    if period_s:
        timeline = sampled(timeline, period_s)
    psg, vertex = structure(names, moved)
    number = np.array([vertex[name] for name in names])
    timeline.calls.vertex = number[timeline.calls.vertex]
    timeline.activities.vertex = number[timeline.activities.vertex]
    timeline.activities.line = np.array([psg[v].place.line for v in timeline.activities.vertex.tolist()])
    seconds = float(timeline.locations.end_s.max())
    run = RunInfo(command=["job"], ranks=timeline.ranks, seconds=seconds, rate_hz=200.0, cwd="/job")
    return detectors.analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run))


def scale(sizes, cost, *, stated=None, at=None, period_s=0.0, cores=1024, **options):
    """Compare a program at several sizes, on one host with so many cores; a size that stands there several times is run
    as often."""
    analyses = []
    for number, ranks in enumerate(sizes):
        analyses.append(analyse(program(ranks, cost, seed=number, **options), period_s=period_s, moved=number % 3))
    for analysis in analyses:
        run = analysis.ppg.run
        run.cores = HostCores.of(["host"] * run.ranks, [frozenset(range(cores))] * run.ranks)
    runs = [run_costs(analysis, f"run-{number}") for number, analysis in enumerate(analyses)]
    reference = max(range(len(sizes)), key=lambda n: sizes[n])
    return detect(runs, reference, analyses[reference], stated=stated, at=at)


def root_loop(rank, ranks):
    """Strong scaling; the root goes over all ranks."""
    return {"solve": 400 / ranks, **({"gather": 5 * ranks} if rank == 0 else {})}


def rebuilt_table(rank, ranks):
    """Strong scaling; every rank builds the same table."""
    return {"solve": 400 / ranks, "table": 20}


def growing_halo(rank, ranks):
    """Strong scaling in three dimensions: the surface shrinks slower than the volume."""
    return {"solve": 400 / ranks, "halo": 60 / ranks ** (2 / 3)}


def plain(rank, ranks):
    """Strong scaling without a fault."""
    return {"solve": 400 / ranks}


def weak_root_loop(rank, ranks):
    """Weak scaling; the root goes over all ranks."""
    return {"solve": 60, **({"gather": 2 * ranks} if rank == 0 else {})}
