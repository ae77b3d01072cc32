"""Noisy programs of many steps for the simulator, and a structure graph to go with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors import analyze
from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from tests.detectors.simulator import sampled, simulate


def steps(ranks, count, cost, *, group=None, seed=1, noise=0.0):
    """A program of ``count`` steps: ``cost(step, rank)`` gives ``{activity: ms}``, and an allreduce ends each step."""
    random = np.random.default_rng(seed)
    program = []
    for rank in range(ranks):
        actions = [("coll", "barrier", list(range(ranks)), -1)]
        for step in range(count):
            for name, ms in cost(step, rank).items():
                actions.append(("work", name, ms * float(np.exp(random.normal(0.0, noise)))))
            actions.append(("coll", "allreduce", list(range(ranks)), -1))
        program.append(actions)
    return program


def structure(names):
    """A structure graph with the simulator's vertices as children of one function, in a loop of their own each.

    Vertex ``v`` of the simulator is vertex ``v`` here as well, so the function stands at the end.
    """
    psg = PSG()
    psg.vertices.clear()
    root = len(names)
    for index, name in enumerate(names):
        kind = VertexKind.COMM if name in ("allreduce", "barrier", "broadcast", "send", "recv") else VertexKind.COMP
        psg.vertices.append(_vertex(index, kind, Place("/job/train.py", index + 1, index + 1, 0, name), root))
    psg.vertices.append(_vertex(root, VertexKind.FUNCTION, Place("/job/train.py", 1, 99, 0, "main"), -1))
    psg.vertices[root].children = list(range(len(names)))
    return psg


def _vertex(index, kind, place, parent):
    from scalana.graphs.structure.psg import Vertex

    return Vertex(index, kind, place, parent, index)


def analyse(program, *, period_s=0.0, on_cpu=True, rank_of=None, **options):
    """Findings of a program, with the names of the places instead of lines; sampled if a period is given.

    Some of its ranks may be threads of others, by ``rank_of``.
    """
    timeline, names = simulate(program, **options)
    if rank_of is not None:
        timeline.locations.rank[:] = rank_of
    if not on_cpu:
        timeline.own.cpu_s[:] = 0.0
    if period_s:
        timeline = sampled(timeline, period_s)
    waits = find_waits(timeline)
    replay = prepare(timeline)
    table = blame(timeline, waits)
    found = detect(timeline, structure(names), Waiting(waits, table, replay, find_task_farms(timeline)))
    return [(names[f.line - 1], f) for f in found], waits


def analysed(program, samples=None, **options):
    """The whole analysis of a program, by all detectors; ``samples`` are behind each row of own work."""
    timeline, names = simulate(program, **options)
    if samples is not None:
        timeline = replace(timeline, own=replace(timeline.own, samples=np.full(len(timeline.own), samples)))
    psg = structure(names)
    run = RunInfo(ranks=timeline.ranks, seconds=float(timeline.locations.end_s.max()))
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run))
