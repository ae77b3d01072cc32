"""Runs the detectors over one graph and puts their findings together."""

from __future__ import annotations

import numpy as np

from scalana.detectors import hangs, late_ranks
from scalana.detectors.blame import blame
from scalana.detectors.crowding import without_turns
from scalana.detectors.findings import Analysis
from scalana.detectors.replay import prepare
from scalana.detectors.rivals import name_rivals
from scalana.detectors.time_split import split_time
from scalana.detectors.waits import find_dependencies, find_waits, unwritten_waits
from scalana.graphs.metrics import add_calls
from scalana.graphs.ppg import PPG
from scalana.graphs.timeline import Timeline

CROWDED = 0.05
"""Part of the recorded time that ranks wait for a core, from which the report says so."""
SUM_TOLERANCE = 1e-6
"""Relative error that the sum of all blame may have."""


def analyze(ppg: PPG) -> Analysis:
    """See :func:`scalana.detectors.analyze`."""
    timeline = ppg.timeline
    dependencies = find_dependencies(timeline)
    waits = find_waits(timeline, dependencies)
    if ppg.metrics["wait_s"].any():
        ppg.metrics["wait_s"][:] = 0.0
    wait_s = waits.all_s(timeline)
    add_calls(ppg.metrics["wait_s"], timeline, wait_s)
    total_s = float(wait_s.sum())
    del wait_s  # of a large run a large table
    replay = prepare(timeline, dependencies, unwritten_waits(timeline, waits))
    table = blame(timeline, waits)
    warnings = _warnings(ppg)
    unbalanced = abs(float(table.seconds.sum()) - total_s)
    if unbalanced > SUM_TOLERANCE * max(total_s, 1e-9):
        warnings.append(f"the blame misses {unbalanced:.3f} s of {total_s:.3f} s of waiting: please report this")
    findings = late_ranks.detect(timeline, ppg.psg, waits, table, replay)
    findings = name_rivals(findings, ppg.metrics["helper_cpu_s"], ppg.psg)
    findings = without_turns(findings, timeline, ppg.run)
    hung = hangs.detect(timeline, ppg.psg, ppg.run)
    time = split_time(timeline, waits, ppg.run.ranks, ppg.run.seconds)
    stuck = min(sum(finding.lost_s for finding in hung), time.transfer_s)
    time.wait_s += stuck
    time.transfer_s -= stuck
    if stuck > 0.0:
        for finding in [*findings, *hung]:
            finding.lost_share = finding.lost_s / max(time.wait_s, 1e-300)
    ordered = sorted([*hung, *findings], key=lambda finding: -finding.lost_s)
    return Analysis(ppg, ordered, time, waits, table, warnings)


def _warnings(ppg: PPG) -> list[str]:
    timeline = ppg.timeline
    crowded = _core_wait_share(timeline)
    if crowded <= CROWDED:
        return []
    cores = sum(dict(zip(ppg.run.host_of_rank, ppg.run.cores_of_rank, strict=False)).values())
    where = f": {ppg.run.ranks} ranks on {cores} cores" if 0 < cores < ppg.run.ranks else ""
    return [f"ranks waited for a CPU core in {crowded:.0%} of the time outside communication{where}"]


def _core_wait_share(timeline: Timeline) -> float:
    total = float(timeline.own.seconds.sum())
    return float(np.sum(timeline.own.core_wait_s)) / total if total > 0.0 else 0.0
