"""Runs all detectors over one graph and puts their findings together; it knows none of them by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.time_split import split_time
from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.reconcile import reconciled
from scalana.detectors.registry import DETECTORS
from scalana.detectors.thresholds.differences import SUM_TOLERANCE
from scalana.detectors.thresholds.shares import CORES_SHARED, SHARE_OF_ITS_OWN
from scalana.detectors.when.compiled_lines import compiled_lines, warnings_of, with_compiled
from scalana.detectors.when.compiling import with_compiling
from scalana.detectors.when.module_comparison import with_work
from scalana.detectors.when.module_times import with_modules
from scalana.detectors.when.module_work import module_work
from scalana.detectors.when.regions import Named, region_times
from scalana.detectors.when.servers import with_servers
from scalana.detectors.when.slow_steps import slow_steps
from scalana.detectors.when.steady import steady_state
from scalana.detectors.when.step_costs import with_series
from scalana.detectors.when.told import with_loading, with_regions, with_steps
from scalana.graphs.metrics import add_calls
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.graphs.timeline import Timeline


def analyze(ppg: PPG, steps: Steps | None = None) -> Analysis:
    """See :func:`scalana.detectors.analyze`."""
    facts = Facts(ppg, steps)
    _fill_waiting(facts)
    warnings = _warnings(ppg)
    outcomes = _outcomes(facts)
    findings = _findings(outcomes, ppg.timeline)
    warnings += _unbalanced(facts)
    time = split_time(ppg.timeline, facts.waits, ppg.run.ranks, ppg.run.seconds)
    warnings.extend([] if _core_wait_share(ppg.timeline) > CORES_SHARED else _turns_in_calls(ppg, time))
    time, findings = _with_stuck(sum(outcome.waiting_s for outcome in outcomes), time, findings)
    sections = {name: part for outcome in outcomes for name, part in outcome.sections.items()}
    ordered = sorted(findings, key=lambda finding: (not kind_of(finding.kind).is_fault, -finding.lost_s))
    analysis = Analysis(ppg, ordered, time, facts.waits, facts.blame, warnings, sections)
    _tell_when(analysis, facts)
    return analysis


def _outcomes(facts: Facts) -> list[Outcome]:
    """What every detector finds that the run has something for."""
    return [detector.detect(facts) for detector in DETECTORS if all(map(facts.has, detector.needs))]


def _findings(outcomes: list[Outcome], timeline: Timeline) -> list[Finding]:
    return reconciled([(outcome.told, outcome.explained) for outcome in outcomes], timeline)


def _tell_when(analysis: Analysis, facts: Facts) -> None:
    """Add what regions, modules, loaders of data, compilers and steps tell."""
    ppg, waits, table, steps = analysis.ppg, analysis.waits, analysis.blame, facts.steps
    analysis.regions = region_times(Named.of(ppg.spans), ppg.timeline, waits)
    if analysis.regions:
        analysis.findings = with_regions(analysis.findings, table, analysis.regions, ppg.timeline, ppg.psg)
    analysis.findings = with_loading(analysis.findings, table, ppg.spans, ppg.timeline)
    analysis.findings = with_series(analysis.findings)
    analysis.modules = facts.modules
    if analysis.modules is not None:
        analysis.findings = with_modules(analysis.findings, analysis.modules, ppg)
        analysis.work = module_work(ppg, waits, facts.first_steady)
        if analysis.work is not None:
            analysis.findings = with_work(analysis.findings, analysis.work)
    steady = None
    if steps is not None:
        analysis.steps = steps
        analysis.steady = steady_state(ppg.timeline, waits, steps.steady_periods(), len(ppg.psg))
        analysis.findings = with_steps(analysis.findings, table, waits, steps, ppg.timeline)
        analysis.slow_steps = slow_steps(steps, ppg, _findings_of)
        steady = steps.steady_periods()
    analysis.findings = with_compiling(analysis.findings, table, ppg.spans, ppg.timeline, steady)
    analysis.findings = with_servers(analysis.findings, table, ppg.servers, ppg.timeline, steady)
    analysis.compiled = compiled_lines(ppg, steps)
    analysis.findings = with_compiled(analysis.findings, analysis.compiled, table, ppg, steady)
    analysis.warnings += warnings_of(ppg)


def _findings_of(part: PPG) -> list[Finding]:
    """What is found in a part of a run, analysed by itself."""
    facts = Facts(part)
    return _findings(_outcomes(facts), part.timeline) if facts.wait_s > 0.0 else []


def _fill_waiting(facts: Facts) -> None:
    """Fill the metric ``wait_s``."""
    metric = facts.ppg.metrics["wait_s"]
    if metric.any():
        metric[:] = 0.0
    add_calls(metric, facts.timeline, facts.waits.all_s(facts.timeline))


def _unbalanced(facts: Facts) -> list[str]:
    """A warning where the delay costs do not add up to the waiting."""
    missing_s = abs(float(facts.blame.seconds.sum()) - facts.wait_s)
    if missing_s <= SUM_TOLERANCE * max(facts.wait_s, 1e-9):
        return []
    return [f"the delay costs miss {missing_s:.3f} s of {facts.wait_s:.3f} s of waiting: please report this"]


def _with_stuck(stuck_s: float, time: TimeSplit, findings: list[Finding]) -> tuple[TimeSplit, list[Finding]]:
    """What ranks waited in calls that never returned counts as waiting, of which all findings have their shares."""
    stuck_s = min(stuck_s, time.transfer_s)
    if stuck_s <= 0.0:
        return time, findings
    time = replace(time, wait_s=time.wait_s + stuck_s, transfer_s=time.transfer_s - stuck_s)
    whole_s = max(time.wait_s, 1e-300)
    return time, [replace(finding, lost_share=finding.lost_s / whole_s) for finding in findings]


def _warnings(ppg: PPG) -> list[str]:
    timeline = ppg.timeline
    oversubscribed = _core_wait_share(timeline)
    if oversubscribed <= CORES_SHARED:
        return []
    shared = _shared_cores(ppg.run)
    where = f": {shared}" if shared else ""
    return [f"ranks waited for a CPU core in {oversubscribed:.0%} of the time outside communication{where}"]


def _turns_in_calls(ppg: PPG, time: TimeSplit) -> list[str]:
    """A warning where ranks that hardly compute between calls take turns on the cores inside of these."""
    shared = _shared_cores(ppg.run)
    if not shared or time.transfer_s <= SHARE_OF_ITS_OWN * time.total_s:
        return []
    return [f"{shared}: part of the time in calls (transfer) is waiting for a core"]


def _shared_cores(run: RunInfo) -> str:
    """How many ranks share how many cores; empty where every rank has one, or it is not known."""
    cores = sum(dict(zip(run.host_of_rank, run.cores_of_rank, strict=False)).values())
    return f"{run.ranks} ranks on {cores} cores" if 0 < cores < run.ranks else ""


def _core_wait_share(timeline: Timeline) -> float:
    total = float(timeline.own.seconds.sum())
    return float(np.sum(timeline.own.core_wait_s)) / total if total > 0.0 else 0.0
