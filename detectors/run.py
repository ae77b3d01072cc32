"""Runs the detectors over one graph and puts their findings together."""

from __future__ import annotations

import numpy as np

from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.contexts import same_work
from scalana.detectors.delays.time_split import split_time
from scalana.detectors.delays.wait_states import find_dependencies, find_waits, unwritten_waits
from scalana.detectors.hang import detect as hangs
from scalana.detectors.late_ranks import detect as late_ranks
from scalana.detectors.late_ranks.interference import name_rivals
from scalana.detectors.noise.contention import without_turns
from scalana.detectors.noise.task_farms import find_pools
from scalana.detectors.slow_workers import detect as slow_workers
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.metrics import add_calls
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.timeline import Timeline

CROWDED = 0.05
"""Part of the recorded time that ranks wait for a core, from which the report says so."""
TRANSFER = 0.25
"""Part of the recorded time that calls take by themselves, from which the report says where ranks share cores."""
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
    table = blame(timeline, waits, same_work(timeline, ppg.psg))
    warnings = _warnings(ppg)
    unbalanced = abs(float(table.seconds.sum()) - total_s)
    if unbalanced > SUM_TOLERANCE * max(total_s, 1e-9):
        warnings.append(f"the blame misses {unbalanced:.3f} s of {total_s:.3f} s of waiting: please report this")
    pools = find_pools(timeline)
    findings = late_ranks.detect(timeline, ppg.psg, waits, table, replay, pools)
    told = {(finding.file, finding.line, rank) for finding in findings for rank in finding.ranks}
    slow = slow_workers.detect(pools, table, timeline, ppg.psg)
    findings += [f for f in slow if not any((f.file, f.line, rank) in told for rank in f.ranks)]
    findings = name_rivals(findings, ppg.metrics["helper_cpu_s"], ppg.psg)
    findings = without_turns(findings, timeline, ppg.run)
    hung = hangs.detect(timeline, ppg.psg, ppg.run)
    time = split_time(timeline, waits, ppg.run.ranks, ppg.run.seconds)
    warnings.extend([] if _core_wait_share(timeline) > CROWDED else _turns_in_calls(ppg, time))
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
    shared = _shared_cores(ppg.run)
    where = f": {shared}" if shared else ""
    return [f"ranks waited for a CPU core in {crowded:.0%} of the time outside communication{where}"]


def _turns_in_calls(ppg: PPG, time: TimeSplit) -> list[str]:
    """A warning where ranks that hardly compute between calls take turns on the cores inside of these."""
    shared = _shared_cores(ppg.run)
    if not shared or time.transfer_s <= TRANSFER * time.total_s:
        return []
    return [f"{shared}: what calls take (transfer) is in part waiting for a core"]


def _shared_cores(run: RunInfo) -> str:
    """How many ranks share how many cores; empty where every rank has one, or it is not known."""
    cores = sum(dict(zip(run.host_of_rank, run.cores_of_rank, strict=False)).values())
    return f"{run.ranks} ranks on {cores} cores" if 0 < cores < run.ranks else ""


def _core_wait_share(timeline: Timeline) -> float:
    total = float(timeline.own.seconds.sum())
    return float(np.sum(timeline.own.core_wait_s)) / total if total > 0.0 else 0.0
