"""A source of a mixture of data that makes steps late: far more expensive than the others, on some ranks or on all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import Evidence, OtherLoading, SlowSource
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import advise_source
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.data.loading_work import loading_work
from scalana.detectors.limits.input_bound import loading_at, loading_place
from scalana.detectors.limits.shared_cause import SharedCause
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.sources.mixture import BY_PREFERENCE, Mixture
from scalana.detectors.thresholds.counts import SEVERAL
from scalana.detectors.thresholds.differences import DEAD_BAND
from scalana.detectors.thresholds.factors import COMPARABLE, FAR_MORE
from scalana.detectors.thresholds.shares import IN_PART, MAJORITY, WORTH_IF_ONCE
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray

KIND = "slow-source"


def slow_source(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: the source that takes most of loading, if a sample of it is far more expensive than others and
    another way to load it makes steps shorter, or ranks wait for it where no model says so."""
    mixture = facts.mixture if profile.has_steps else None
    if mixture is None or facts.steps is None:
        return []
    steady = mixture.steady
    load_s, items = mixture.load_s[steady], mixture.items[steady]
    source = int(load_s.sum(axis=(0, 1)).argmax())
    if not _is_expensive(load_s.sum(axis=(0, 1)), items.sum(axis=(0, 1)), source):
        return []
    measured_s = mixture.steady_s(mixture.asked_s)
    steps = mixture.modelled()
    predicted_s = mixture.predicted_s(steps, source) if steps is not None else {}
    lost_s, waited_s = _lost_s(mixture, source)
    known = _known(mixture, source, predicted_s)
    saving_s = measured_s - predicted_s[known.other_loading[0].change] if predicted_s else 0.0
    gain_s = saving_s if predicted_s else waited_s / facts.timeline.ranks
    return _cause(mixture, known, (lost_s, saving_s), facts) if gain_s >= WORTH_IF_ONCE * measured_s else []


def _is_expensive(load_s: FloatArray, items: FloatArray, source: int) -> bool:
    """Whether a source takes a good part of loading, and each of its samples far more than one of the others; both
    ``[sources]``."""
    part, samples = load_s[source] / load_s.sum(), items[source] / items.sum()
    return bool(part >= IN_PART and part * (1.0 - samples) >= FAR_MORE * samples * (1.0 - part))


def _lost_s(mixture: Mixture, source: int) -> tuple[float, float]:
    """Rank-seconds that ranks wait for a source, and for ranks that wait for it; and those of waiting for data alone.

    What ranks wait for each other between two batches is for the rank that has waited longest for its batch, as far as
    it has waited longer for it than they did.
    """
    whole_s = mixture.load_s.sum(axis=2)
    part = np.divide(mixture.load_s[:, :, source], whole_s, out=np.zeros(whole_s.shape), where=whole_s > 0.0)
    for_data_s = mixture.waited_s * part
    last = mixture.waited_s.argmax(axis=1)
    rows = np.arange(len(last))
    longer_s = mixture.waited_s[rows, last][:, None] - mixture.waited_s
    for_ranks_s = np.minimum(mixture.wait_s, longer_s) * part[rows, last][:, None]
    steady = mixture.steady
    return float((for_data_s + for_ranks_s)[steady].sum()), float(for_data_s[steady].sum())


def _cause(mixture: Mixture, known: SlowSource, seconds: tuple[float, float], facts: Facts) -> list[SharedCause]:
    """The cause, by what is known of the source. ``seconds`` are rank-seconds that it costs, and those by which the run
    would be shorter."""
    waits = facts.data_waits
    if waits is None:
        return []
    work = loading_work(waits, facts)
    place, named = loading_place(*work, waits, facts)
    source = mixture.batches.names.index(known.source)
    ranks, times = _ranks(mixture, source)
    is_alone = len(ranks) < facts.timeline.ranks and times is None
    lost_s, saving_s = seconds
    finding = finding_at(place, ranks, lost_s, facts.psg, KIND)
    known = _with_worker(replace(known, source_times=times, source_alone=is_alone), mixture, ranks)
    evidence = Evidence(
        loading=loading_at(mixture.rows, facts),
        source=known,
        leaf=leaf_below(place, named, facts.timeline, facts.psg),
        callers=callers(place.vertex, facts.psg),
    )
    share = lost_s / max(facts.wait_s, lost_s, 1e-300)
    found = replace(finding, lost_share=share, saving_s=saving_s, evidence=evidence, advice=advise_source(known))
    everyone = tuple(range(facts.timeline.ranks))
    return [SharedCause(found, Extent(everyone, work[0], np.zeros(0, np.int64)), True)]


def _known(mixture: Mixture, source: int, predicted_s: Mapping[str, float]) -> SlowSource:
    """What is known of the source."""
    steady = mixture.steady
    load_s, items = (values[steady].sum(axis=(0, 1)) for values in (mixture.load_s, mixture.items))
    others = np.arange(len(load_s)) != source
    count = len(np.unique(mixture.step[steady]))
    measured_s = mixture.steady_s(mixture.asked_s)
    with_s, without_s = _steps_s(mixture, source)
    best_s, made = min(predicted_s.values(), default=0.0), max(count - 1, 1)

    def place(name: str) -> tuple[float, int]:
        as_good = predicted_s[name] <= (1.0 + DEAD_BAND) * best_s
        return best_s if as_good else predicted_s[name], BY_PREFERENCE.index(name)

    return SlowSource(
        source=mixture.batches.names[source],
        sources=len(load_s),
        source_samples=float(items[source] / items.sum()),
        source_share=float(load_s[source] / load_s.sum()),
        sample_s=float(load_s[source] / items[source]),
        other_sample_s=float(load_s[others].sum() / max(items[others].sum(), 1.0)),
        source_workers=mixture.workers,
        steps_with_s=with_s,
        steps_without_s=without_s,
        source_step_s=measured_s / made,
        other_loading=[OtherLoading(name, predicted_s[name] / made) for name in sorted(predicted_s, key=place)],
    )


def _steps_s(mixture: Mixture, source: int) -> tuple[float | None, float | None]:
    """What a step takes in which some rank has samples of a source, and one in which none has; None where there are too
    few of either."""
    steady = np.flatnonzero(mixture.steady)
    has = (mixture.items[steady, :, source] > 0.0).any(axis=1)
    seconds = np.asarray((mixture.next_s - mixture.asked_s)[steady].mean(axis=1))
    number, place = np.unique(mixture.step[steady, 0], return_inverse=True)
    with_it = weighted_count(place.reshape(-1), np.asarray(has, np.float64), len(number)) > 0.0
    length_s = weighted_count(place.reshape(-1), seconds, len(number))
    if min(np.count_nonzero(with_it), np.count_nonzero(~with_it)) < SEVERAL:
        return None, None
    return float(length_s[with_it].mean()), float(length_s[~with_it].mean())


def _ranks(mixture: Mixture, source: int) -> tuple[list[int], float | None]:
    """The ranks that load more of a source than others, and how many times as much as the median rank, None if that
    loads nothing; all ranks where none does."""
    load_s = mixture.load_s[mixture.steady][:, :, source].sum(axis=0)
    usual_s = float(np.median(load_s))
    more = (load_s >= COMPARABLE * usual_s) & (load_s > 0.0)
    if not more.any() or more.mean() > MAJORITY:
        return list(range(len(load_s))), None
    times = float(load_s[more].mean()) / usual_s if usual_s > 0.0 else None
    return np.flatnonzero(more).tolist(), times


def _with_worker(known: SlowSource, mixture: Mixture, ranks: list[int]) -> SlowSource:
    """The same with the worker that loads most of the source, on the rank of ``ranks`` that waits longest, if its part
    is far more than that of others."""
    if mixture.workers < SEVERAL:
        return known
    steady, source = mixture.steady, mixture.batches.names.index(known.source)
    rank = ranks[int(mixture.waited_s[steady][:, ranks].sum(axis=0).argmax())]
    load_s = weighted_count(mixture.worker[steady][:, rank], mixture.load_s[steady][:, rank, source], mixture.workers)
    most = int(load_s.argmax())
    share = float(load_s[most] / max(float(load_s.sum()), 1e-300))
    if share * (mixture.workers - 1) < FAR_MORE * (1.0 - share):
        return known
    return replace(known, source_worker=most, source_worker_rank=rank, source_worker_share=share)
