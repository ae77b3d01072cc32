"""What each rank got of a mixture, batch by batch, and how long it waited and worked; what other ways to load bring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.section_name import SectionName
from scalana.detectors.sources.loading_model import Loader, Steps, dealt_evenly, times_s
from scalana.detectors.thresholds.counts import SHOWS_THE_NOISE
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.detectors.thresholds.factors import DOUBLED
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.ppg import PPG
from scalana.graphs.spans.sources import Batches, Gets, batches_of, gets_of
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps as RunSteps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline

EVENLY = "dealt-evenly"
MIXED = "in-every-batch"
MORE = "more-workers"
APART = "own-workers"
AHEAD = "further-ahead"
"""Ways to load: the samples of a source dealt out over ranks, each batch with the same share of every source, twice the
workers, as many workers again for one source alone, twice the batches ahead."""
BY_PREFERENCE = (EVENLY, MIXED, MORE, AHEAD, APART)
"""Which of several that bring as much is named first: what changes least, and costs no cores."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """The batches of a mixture that all ranks got, one after the other, without the last: what follows that is not
    known. Arrays are ``[gets, ranks]`` if they say nothing else."""

    batches: Batches
    """All that were made."""
    step: IntArray
    """Row of the steps of the steady state in which each batch is asked for, -1 outside of them."""
    asked_s: FloatArray
    got_s: FloatArray
    ready_s: FloatArray
    """When it was asked for and made."""
    next_s: FloatArray
    """When the next one is asked for."""
    wait_s: FloatArray
    """Until then, waiting for other ranks."""
    load_s: FloatArray
    """``[gets, ranks, sources]``"""
    items: FloatArray
    """``[gets, ranks, sources]``"""
    cost_s: FloatArray
    worker: IntArray
    workers: int
    ahead: int
    least_s: float
    """What the cores of a host take at least for a batch of all its ranks, and what follows it."""
    rows: IntArray
    """All spans of waiting for such batches ``[spans]``."""

    @property
    def steady(self) -> BoolArray:
        """Which batches are of the steady state ``[gets]``."""
        return np.asarray((self.step >= 0).all(axis=1))

    @property
    def waited_s(self) -> FloatArray:
        """What ranks wait for each batch."""
        return self.got_s - self.asked_s

    # ---- a model of it ----

    def loader(self) -> Loader:
        """That of every rank, as it is."""
        return Loader(self.workers, self.ahead, self.cost_s)

    def modelled(self) -> Steps | None:
        """The work between batches, where a model of it takes as long as the run did; None where none does."""
        meets = np.append((self.step[1:] != self.step[:-1]).any(axis=1), True)
        own_s = np.maximum(self.next_s - self.ready_s - self.wait_s, 0.0)
        measured_s = self.steady_s(self.asked_s)
        best, least = None, TRUSTED_REPLAY
        for together in (meets, np.zeros(len(meets), np.bool_)):
            steps = Steps(own_s, together)
            off = abs(self.steady_s(times_s(steps, [self.loader()])) / measured_s - 1.0) if measured_s > 0.0 else 1.0
            if off <= least:
                best, least = steps, off
        return best

    def steady_s(self, asked_s: FloatArray) -> float:
        """Seconds of the steady state, of an average rank, if batches are asked for at these times."""
        rows = np.flatnonzero(self.steady)
        return float((asked_s[rows[-1]] - asked_s[rows[0]]).mean())

    def ways(self, source: int) -> dict[str, list[Loader]]:
        """Other ways to load, with regard to a source."""
        now, part = self.loader(), self.load_s[:, :, source]
        steady = self.steady
        mean = np.full(self.cost_s.shape, float(self.cost_s[steady].mean()))
        rest_s = self.cost_s - self.load_s.sum(axis=2)
        even = dealt_evenly(self.load_s, self.items) + rest_s.mean(axis=1, keepdims=True)
        found = {
            EVENLY: [replace(now, cost_s=even)],
            MIXED: [replace(now, cost_s=mean)],
            MORE: [now.with_workers(DOUBLED)],
            APART: [replace(now, cost_s=self.cost_s - part), replace(now.with_workers(1), cost_s=part)],
        }
        if self.workers:
            found[AHEAD] = [replace(now, ahead=now.ahead * DOUBLED)]
        return found

    def predicted_s(self, steps: Steps, source: int) -> dict[str, float]:
        """Seconds of the steady state with each other way to load, in proportion to how long it was."""
        as_is_s = self.steady_s(times_s(steps, [self.loader()]))
        scale = self.steady_s(self.asked_s) / as_is_s
        bound = replace(steps, least_s=self.least_s)
        ways = self.ways(source).items()
        return {name: scale * self.steady_s(times_s(bound, loaders)) for name, loaders in ways}


MIXTURE: SectionName[Mixture] = SectionName("sources")


def mixture_of(ppg: PPG, run_steps: RunSteps, waits: WaitStates) -> Mixture | None:
    """That of a run; None where ranks get no mixture, or it is not known what it cost in enough steps of all ranks."""
    ranks, spans = ppg.timeline.ranks, ppg.spans
    batches = batches_of(spans, ranks)
    if batches is None:
        return None
    gets = gets_of(spans, batches, ranks)
    place = _grid(gets, ranks)
    if place is None:
        return None
    asked_s, got_s = gets.start_s[place], gets.end_s[place]
    batch = gets.batch[place]
    next_s = asked_s[1:]
    steps = Periods.of(*(times[run_steps.steady()] for times in run_steps.on_all_ranks()))
    rank = np.broadcast_to(np.arange(ranks), batch[:-1].shape)
    step = steps.row_at(rank.ravel(), (asked_s[:-1] + got_s[:-1]).ravel() / 2).reshape(rank.shape)
    kept = slice(0, len(batch) - 1)
    ahead = gets.ahead[place[kept]]
    found = Mixture(
        batches,
        step,
        asked_s[kept],
        got_s[kept],
        np.clip(batches.end_s[batch[kept]], asked_s[kept], got_s[kept]),
        next_s,
        _rank_waits(ppg.timeline, waits, asked_s),
        batches.load_s[batch[kept]],
        batches.items[batch[kept]],
        batches.cost_s[batch[kept]],
        batches.worker[batch[kept]],
        int(np.median(batches.workers[batch[kept]])),
        int(np.median(ahead)) if (ahead > 0).all() else 0,
        0.0,
        gets.row[gets.batch >= 0],
    )
    if np.count_nonzero(found.steady) < SHOWS_THE_NOISE:
        return None
    return replace(found, least_s=_least_s(found, ppg, steps))


def _grid(gets: Gets, ranks: int) -> IntArray | None:
    """The rows of what ranks got, the same number of each, ``[gets, ranks]``; None where some rank got nothing."""
    known = np.flatnonzero(gets.batch >= 0)
    each = [known[gets.rank[known] == rank] for rank in range(ranks)]
    count = min(map(len, each), default=0)
    return np.stack([rows[:count] for rows in each], axis=1) if count > SHOWS_THE_NOISE else None


def _rank_waits(timeline: Timeline, waits: WaitStates, asked_s: FloatArray) -> FloatArray:
    """What each rank waits for others from when it asks for a batch to when it asks for the next ``[gets, ranks]``."""
    calls, locations = timeline.calls, timeline.locations
    periods = Periods.of(asked_s[:-1], asked_s[1:])
    rows = np.flatnonzero(locations.is_main[calls.location])
    rank = locations.rank[calls.location[rows]]
    at = periods.row_at(rank, (calls.enter_s[rows] + calls.exit_s[rows]) / 2)
    inside = at >= 0
    key = at[inside] * asked_s.shape[1] + rank[inside]
    wait_s = waits.all_s(timeline)[rows[inside]]
    return weighted_count(key, wait_s, asked_s[:-1].size).reshape(asked_s[:-1].shape)


def _least_s(mixture: Mixture, ppg: PPG, steady: Periods) -> float:
    """What the cores of a host take at least for a batch of all its ranks."""
    timeline, ranks = ppg.timeline, ppg.timeline.ranks
    own, (begin_s, end_s) = timeline.own, gap_edges(timeline)
    rank = timeline.locations.rank[burst_locations(timeline)]
    inside = steady.row_at(rank, (begin_s + end_s) / 2) >= 0
    itself = inside[own.burst] & ~timeline.activities.helper[own.activity]
    computing_s = weighted_count(rank[own.burst][itself], own.cpu_s[itself], ranks)
    batches = mixture.batches
    made = np.maximum(np.bincount(batches.rank, minlength=ranks), 1)
    loading_s = np.bincount(batches.rank, batches.cpu_s, ranks) / made
    need_s = loading_s + computing_s / max(int(np.count_nonzero(mixture.steady)), 1)
    return float(ppg.run.cores.least_s(need_s).max(initial=0.0))
