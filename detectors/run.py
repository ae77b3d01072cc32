"""Runs all detectors over one graph and puts their findings together; it knows none of them by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors import advice
from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.annotator import Annotated, Annotator
from scalana.detectors.delays.time_split import split_time
from scalana.detectors.detector import Detector, Outcome
from scalana.detectors.facts import Facts, Outside
from scalana.detectors.finding import Finding
from scalana.detectors.ranking import ranked
from scalana.detectors.reconcile import reconciled
from scalana.detectors.registry import ANNOTATORS, DETECTORS
from scalana.detectors.thresholds.differences import SUM_TOLERANCE
from scalana.detectors.thresholds.shares import CORES_SHARED, SHARE_OF_ITS_OWN
from scalana.graphs.metrics import add_calls
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.graphs.timeline import Timeline


def analyze(
    ppg: PPG,
    steps: Steps | None = None,
    outside: Outside | None = None,
    window: tuple[int, int] | None = None,
    causes_only: bool = False,
) -> Analysis:
    """See :func:`scalana.detectors.analyze`."""
    facts = Facts(ppg, steps, replace(outside or Outside(), findings_of=_findings_of), causes_only)
    _fill_waiting(facts)
    outcomes = _outcomes(facts)
    time = split_time(ppg.timeline, facts.waits, ppg.run.ranks, ppg.run.seconds)
    warnings = [*_warnings(ppg), *_unbalanced(facts)]
    warnings += [warning for outcome in outcomes for warning in outcome.warnings]
    warnings += [] if _core_wait_share(ppg.timeline) > CORES_SHARED else _turns_in_calls(ppg, time)
    stuck_s = sum(outcome.waiting_s for outcome in outcomes)
    time, findings = _with_stuck(stuck_s, time, _findings(outcomes, ppg.timeline))
    annotated = _annotated(ranked(findings), facts)
    sections = {name: part for outcome in outcomes for name, part in outcome.sections.items()}
    return Analysis(
        facts.modelled,
        list(annotated.findings),
        time,
        facts.waits,
        facts.blame,
        [*warnings, *annotated.warnings],
        {**sections, **annotated.sections},
        facts.steps,
        window,
    )


def _annotated(findings: list[Finding], facts: Facts) -> Annotated:
    """What all annotators that the run has something for say of findings, one after the other."""
    result = Annotated(findings)
    for annotator in ANNOTATORS:
        if all(map(facts.has, annotator.needs)):
            more = _annotate(annotator, result.findings, facts)
            sections, warnings = {**result.sections, **more.sections}, (*result.warnings, *more.warnings)
            result = Annotated(more.findings, sections, warnings)
    return result


def _annotate(annotator: Annotator, findings: Sequence[Finding], facts: Facts) -> Annotated:
    """What an annotator says; where it fails, that it did: a report without one part is worth more than none."""
    try:
        return annotator.annotate(findings, facts)
    except MemoryError:
        raise
    except Exception as error:
        if facts.strict:
            raise
        return Annotated(findings, warnings=(_failed(annotator, error),))


def _outcomes(facts: Facts) -> list[Outcome]:
    """What every detector finds that the run has something for."""
    return [_detect(one.load(), facts) for one in DETECTORS if all(map(facts.has, one.needs))]


def _detect(detector: Detector, facts: Facts) -> Outcome:
    """What a detector finds; where it fails, that it did."""
    try:
        return detector.detect(facts)
    except MemoryError:
        raise
    except Exception as error:
        if facts.strict:
            raise
        return Outcome(warnings=(_failed(detector, error),))


def _failed(part: object, error: Exception) -> str:
    return advice.FAILED.format(
        part=type(part).__name__, error=f"{type(error).__name__}: {error}".splitlines()[0][:200]
    )


def _findings(outcomes: list[Outcome], timeline: Timeline) -> list[Finding]:
    return reconciled([(outcome.verdicts, outcome.explained) for outcome in outcomes], timeline)


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
    return [advice.UNBALANCED.format(missing_s=missing_s, wait_s=facts.wait_s)]


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
    return [advice.NO_CORE.format(share=100 * oversubscribed, where=where)]


def _turns_in_calls(ppg: PPG, time: TimeSplit) -> list[str]:
    """A warning where ranks that hardly compute between calls take turns on the cores inside of these."""
    shared = _shared_cores(ppg.run)
    if not shared or time.transfer_s <= SHARE_OF_ITS_OWN * time.total_s:
        return []
    return [advice.NO_CORE_IN_CALLS.format(shared=shared)]


def _shared_cores(run: RunInfo) -> str:
    """How many ranks share how many cores; empty where every rank has one, or it is not known."""
    sharing = run.cores.sharing()
    cores = run.cores.count(sharing)
    some = f" of {run.ranks}" if len(sharing) < run.ranks else ""
    return f"{len(sharing)}{some} ranks on {cores} core{'s' * (cores > 1)}" if sharing else ""


def _core_wait_share(timeline: Timeline) -> float:
    total = float(timeline.own.seconds.sum())
    return float(np.sum(timeline.own.core_wait_s)) / total if total > 0.0 else 0.0
