"""Waiting for workers of loaders that are started in each epoch, with what workers that are kept would save.

A loader without ``persistent_workers`` starts its workers when an epoch begins, and ends them after it. Where they are
spawned, each imports the program's modules again; more workers would take longer, not less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, WorkerStarts
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import KEEP_WORKERS
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.data.loading_work import loading_work
from scalana.detectors.limits.input_bound import KIND, loading_at, saved_s
from scalana.detectors.limits.shared_cause import SharedCause, all_spend, all_spend_alike
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.sources.data_waits import DataWaits
from scalana.detectors.thresholds.shares import MAJORITY, MINOR
from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.spans.span_columns import Spans


def worker_starts(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: ranks that all wait for new workers when an epoch begins."""
    spans, waits = facts.ppg.spans, facts.data_waits if profile.has_steps else None
    if waits is None:
        return []
    seconds = spans.end_s(waits.rows) - spans.start_s(waits.rows)
    is_start, is_end = epoch_edges(waits, spans)
    is_edge = is_start | is_end
    edges = waits.among(is_edge, seconds)
    if not is_start.any() or not all_spend(edges.wait_s):
        return []
    if float((edges.wait_s / np.maximum(waits.step_s, 1e-300)).min()) < MINOR:
        return []
    if float(edges.wait_s.sum()) < MAJORITY * float(waits.wait_s.sum()):
        return []
    usual_s = float(np.median(seconds[~is_edge])) if not is_edge.all() else 0.0
    starts = np.bincount(waits.rank[is_start], minlength=facts.timeline.ranks)
    left = np.clip(starts * usual_s / np.maximum(edges.wait_s * waits.steps, 1e-300), 0.0, 1.0)
    row = edges.rows[int(np.argmax(seconds[is_edge]))]
    place = CodeLocation(TargetKind.OWN, int(spans.vertex[row]), int(spans.line[row]))
    count = max(round(float(np.median(starts))), 1)
    known = WorkerStarts(count, float(np.median(edges.wait_s)) * waits.steps / count)
    ranks = list(range(facts.timeline.ranks))
    finding = replace(
        finding_at(place, ranks, float(edges.wait_s.sum()) * waits.steps, facts.psg, KIND),
        saving_s=saved_s(edges, [left], facts)[0],
        evidence=Evidence(
            loading=loading_at(edges.rows, facts), worker_starts=known, callers=callers(place.vertex, facts.psg)
        ),
        advice=KEEP_WORKERS,
    )
    extent = Extent(tuple(ranks), loading_work(waits, facts)[0], np.zeros(0, np.int64))
    return [SharedCause(finding, extent, all_spend_alike(edges.wait_s))]


def epoch_edges(waits: DataWaits, spans: Spans) -> tuple[BoolArray, BoolArray]:
    """Which waits are for the first batch of new workers, and which for the end of those of an epoch, when no batch
    comes ``[waits]`` each."""
    in_each = spans.integers("each_epoch", 0)[waits.rows] > 0
    batch = spans.integers("batch")[waits.rows]
    return in_each & (batch == 0), in_each & (batch < 0)
