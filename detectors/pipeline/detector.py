"""Pipelines, as a detector: which cause, in which stage, layer and line, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.pipeline.diagnosis.culprit_findings import FindingMaker
from scalana.detectors.pipeline.diagnosis.culprit_places import Places
from scalana.detectors.pipeline.diagnosis.culprits import Culprit, find_culprits
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis, diagnose, what_is_no_layer
from scalana.detectors.pipeline.diagnosis.job_causes import Job, explained, of_job
from scalana.detectors.pipeline.diagnosis.replicas import find_awaited
from scalana.detectors.pipeline.measured.on_devices import extents as device_extents
from scalana.detectors.pipeline.measured.on_devices import hosts_only, with_devices
from scalana.detectors.pipeline.measured.recorded import FORWARDS, Recorded, read_pipeline
from scalana.detectors.pipeline.measured.replayable import ActionRows
from scalana.detectors.pipeline.model.actions import Kind, OrderError
from scalana.detectors.pipeline.model.engines import Engine, engine_of_run
from scalana.detectors.pipeline.plans.in_report import with_plan
from scalana.detectors.pipeline.plans.proposal import Proposal
from scalana.detectors.pipeline.recognised.hand_written import read_hand_written
from scalana.detectors.pipeline.recognised.streams import fill_and_drain
from scalana.detectors.reconcile import Extent
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.dependences.progress import of_mpi
from scalana.graphs.spans.device_actions import uses_device

SECTION = "pipeline"
OF_A_RANK = ("imbalance", "data")
"""Causes that are told where nothing is sure but how much each rank does in all."""


@dataclass(frozen=True)
class Pipeline:
    """One pipeline of a run, as reports need it."""

    recorded: Recorded
    diagnosis: Diagnosis
    culprits: tuple[Culprit, ...]
    proposal: Proposal | None = None
    """A plan that is faster; None where nothing is predicted."""
    job: Job | None = None
    """What all replicas show together; of the first pipeline alone, None where that is not known."""
    awaits: tuple[int, ...] = ()
    """The ranks of a replica for which it waits in reducing gradients."""


class Pipelines:
    """See :mod:`scalana.detectors.pipeline`."""

    kinds = tuple(
        BY_NAME[f"pipeline-{name}"]
        for name in ("imbalance", "straggler", "lengths", "link", "host", "replica", "schedule")
    )

    def detect(self, facts: Facts) -> Outcome:
        """Diagnose every pipeline. Where its replay reproduces what was measured, what ranks do within its steps is
        explained, whatever is found there."""
        outcome = Outcome()
        found: list[Pipeline] = []
        makers: list[FindingMaker] = []
        for recorded in read_all(facts):
            try:
                diagnosis = diagnose(recorded.rows, engine_of(recorded), recorded.between, recorded.layers)
            except OrderError:
                continue
            measured = diagnosis.measured
            outside = () if diagnosis.layers is None else what_is_no_layer(diagnosis.layers)
            notes = (*measured.notes, *recorded.notes, *outside)
            diagnosis = replace(diagnosis, measured=replace(measured, notes=notes))
            if diagnosis.attribution.trusted:  # else nobody knows better, and other detectors have the word
                outcome.explained += extents(recorded) + _on_devices(recorded, facts)
            culprits = [one for one in find_culprits(diagnosis) if not recorded.doubtful or one.cause in OF_A_RANK]
            places = Places(facts.blamed)
            maker = FindingMaker(recorded, diagnosis, places, facts.wait_s)
            plain = bool(found) or recorded.schedule == FORWARDS or recorded.doubtful  # replicas do the same
            plain = plain or engine_of(recorded).is_unknown
            planned, proposal = (diagnosis, None) if plain else with_plan(diagnosis)
            found.append(Pipeline(recorded, planned, tuple(culprits), proposal))
            makers.append(maker)
        job, slow = _whole_job(facts, found), frozenset[int]()
        left = [list(one.culprits) for one in found]
        if job is not None:
            whole = explained(job, makers, left)
            left, slow = whole.culprits, whole.slow_replicas
            outcome.verdicts += whole.verdicts
            found[0] = replace(found[0], job=job)
        for one, maker, own in zip(found, makers, left, strict=True):
            outcome.verdicts += [maker.of_culprit(culprit) for culprit in own]
            outcome.verdicts += [] if one.recorded.doubtful else maker.schedule()
        pipelines = [(one.recorded, one.diagnosis.attribution) for one in found]
        for awaited in find_awaited(pipelines, facts.timeline, facts.waits) if len(found) > 1 else ():
            there = found[awaited.pipeline]
            for p in awaited.waiting:
                found[p] = replace(found[p], awaits=there.recorded.ranks)
            if awaited.pipeline not in slow and not explains(there.culprits, awaited.saving_s):
                outcome.verdicts.append(makers[awaited.pipeline].replica(awaited, makers[awaited.waiting[0]]))
        if found:
            outcome.sections[SECTION] = found
        if _of_torch(facts):
            known = {rank for one in found for rank in one.recorded.ranks}
            outcome.explained += fill_and_drain(facts.timeline, facts.ppg.spans, known)
        return outcome


def _whole_job(facts: Facts, found: list[Pipeline]) -> Job | None:
    """What all pipelines of a run show together, where they are recorded and replayed well."""
    ranks = [one.recorded.ranks for one in found]
    recorded = [one for one in facts.pipelines if one.ranks in ranks]
    unsure = any(one.recorded.doubtful or one.recorded.on_device or one.recorded.inferred for one in found)
    if unsure or len(recorded) != len(found) or [one.ranks for one in recorded] != ranks:
        return None
    if not all(one.diagnosis.attribution.trusted for one in found):
        return None
    return of_job(recorded, facts.ppg.spans, facts.replay, facts.waits.transfer_s(facts.timeline))


def explains(culprits: tuple[Culprit, ...], longer_s: float) -> bool:
    """Whether causes that were found in a pipeline explain most of what its steps are longer than others'."""
    return sum(culprit.lost_s for culprit in culprits) >= MAJORITY * longer_s


def read_all(facts: Facts) -> list[Recorded]:
    """The pipelines of a run: those that engines tell of, and of other ranks those that messages show."""
    spans, timeline = facts.ppg.spans, facts.timeline
    told = [
        None if (one := read_pipeline(pipeline, spans, timeline)) is None else with_devices(one, pipeline, spans)
        for pipeline in facts.pipelines
    ]
    known = {rank for pipeline in facts.pipelines for rank in pipeline.ranks}
    inferred = read_hand_written(timeline, spans, known, _of_torch(facts))
    inferred = [hosts_only(one) if uses_device(spans, one.ranks) else one for one in inferred]
    return [one for one in told if one is not None] + inferred


def _of_torch(facts: Facts) -> bool:
    """Whether all messages are torch's."""
    of_torch = [not of_mpi(communicator.name) for communicator in facts.run.communicators]
    return bool(of_torch) and all(of_torch)


def engine_of(recorded: Recorded) -> Engine:
    """How the engine of a pipeline sends and receives."""
    if recorded.sends is not None:
        return recorded.sends
    several = len(np.unique(recorded.rows.stage)) > len(recorded.ranks)
    return engine_of_run(recorded.engine, recorded.schedule, several, _waits_in_turn(recorded.rows))


def _waits_in_turn(rows: ActionRows) -> bool:
    """Whether a backward that comes right after a forward of its rank waits after that: messages overlap then, and are
    not one batch for both."""
    order = np.lexsort((rows.begin_s, rows.step, rows.rank))
    kind, rank, step = rows.kind[order], rows.rank[order], rows.step[order]
    turns = (kind[:-1] == Kind.F) & (kind[1:] != Kind.F) & (rank[1:] == rank[:-1]) & (step[1:] == step[:-1])
    waits = rows.wait_end_s[order][1:]
    after = waits >= rows.end_s[order][:-1]
    seen = turns & ~np.isnan(waits)
    return bool(seen.any()) and 2 * int(after[seen].sum()) > int(seen.sum())


def extents(recorded: Recorded) -> list[Extent]:
    """What each rank does from when it enters a step until it leaves it; and that one came last to where all met right
    after it."""
    steps = [Extent((rank,), windows_s=_windows(recorded, place)) for place, rank in enumerate(recorded.ranks)]
    met_s = recorded.met_s[~np.isnan(recorded.met_s).any(axis=(1, 2))]
    if not len(met_s):
        return steps
    last, none = met_s[:, :, 0].argmax(axis=1), np.zeros(0, np.int64)
    return steps + [
        Extent((rank,), activities=none, windows_s=met_s[last == place, place])
        for place, rank in enumerate(recorded.ranks)
        if (last == place).any()
    ]


def _on_devices(recorded: Recorded, facts: Facts) -> list[Extent]:
    """What the devices of a pipeline did for it, where its times are theirs."""
    same = (one for one in facts.pipelines if one.ranks == recorded.ranks)
    return [part for one in same for part in device_extents(one, facts.ppg.spans)] if recorded.on_device else []


def _windows(recorded: Recorded, place: int) -> FloatArray:
    windows = recorded.windows_s[:, place]
    return np.asarray(windows[~np.isnan(windows).any(axis=1)])
