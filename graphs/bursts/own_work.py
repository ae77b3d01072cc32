"""What locations did between their communication calls, from samples and exact CPU clocks.

Between two calls of a location lies a *burst*. Its length is exact, and so is the CPU time spent in it, since a call
reads the thread's CPU clock; the samples only tell how the two are to be divided. Every sample owns the stretch of
its burst that is nearest to it in time. A burst too short for any sample is divided like sampled short bursts between
the same two calls. Nothing is lost: the rows of a burst add up to its length.

A location that waits for another thread or child process of its own rank (a lock, a queue, a data loader's worker)
does no work itself; the stretch then belongs to whoever of its rank was active in it, as a *helper* activity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.places import Places
from scalana.graphs.bursts.even_shares import lengths, unequal
from scalana.graphs.bursts.helper_waits import HeldUp, HelperWaits, add_held_up
from scalana.graphs.bursts.helpers import Sampled, helpers_of
from scalana.graphs.bursts.imputation import Profiles, common_profiles, evidence_of, own_kinds, unsampled
from scalana.graphs.bursts.short_rests import Moves, Pairs, Spent, lost_cores, rested, unfound_rests, unfound_runs
from scalana.graphs.bursts.work_rows import Rows, concatenated, exact_cpu, grouped, sorted_by_burst
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.between import RESTING, stretches_of
from scalana.graphs.samples.in_bursts import InGaps
from scalana.graphs.timeline import ROW, Activities, OwnWork
from scalana.runtime.record.format import (
    STATE_ASLEEP,
    STATE_DISK,
    STATE_IPC,
    STATE_LOCK,
    STATE_RUNNING,
    STATE_UNKNOWN,
)

_NS = 1e-9
_MOST_TICKS = 4096
"""A stretch in which a location waits is looked at no more often than this."""


@dataclass(slots=True)
class _Spent:
    """What samples stand for ``[samples in bursts]`` each."""

    seconds: FloatArray
    cpu_s: FloatArray
    core_wait_s: FloatArray

    def times(self, part: FloatArray) -> _Spent:
        """A part of each."""
        return _Spent(self.seconds * part, self.cpu_s * part, self.core_wait_s * part)

    def of(self, rows: IntArray) -> _Spent:
        """Some of them."""
        return _Spent(self.seconds[rows], self.cpu_s[rows], self.core_wait_s[rows])


@dataclass(frozen=True, slots=True)
class _Found:
    """Where samples in bursts found their threads, each ``[samples in bursts]``."""

    burst: IntArray
    path: IntArray
    state: IntArray
    place: IntArray
    """Of the path, in the catalogue."""


def own_work(
    bursts: Bursts, samples: Samples, threads: Threads, places: Places, period_ns: int
) -> tuple[OwnWork, Activities]:
    """Divide every burst over activities.

    ``samples`` are sorted by (thread, time) on the aligned axis; ``threads.location`` says which threads are
    locations and ``threads.rank`` to which rank all of them belong.

    This is all in one; of a large run :func:`sampled_work` and :func:`inferred_work` are done portion by portion.
    """
    catalogue = Catalogue(
        np.concatenate((places.vertex, bursts.default_vertex)), np.concatenate((places.line, bursts.default_line))
    )
    vertices = int(max(bursts.before.max(initial=-1), bursts.after.max(initial=-1))) + 1
    held_up: list[HeldUp] = []
    sampled = Sampled(samples, threads, places, period_ns)
    rows, evidence = sampled_work(bursts, sampled, catalogue, vertices, None, held_up)
    common = common_profiles([evidence])
    own, activities = numbered([inferred_work(bursts, rows, common, catalogue, vertices, period_ns)], catalogue)
    add_held_up(activities, catalogue.vertex, catalogue.line, held_up)
    return own, activities


class Catalogue:
    """The places that activities can be of: distinct pairs of vertex and line, in order."""

    def __init__(self, vertex: IntArray, line: IntArray) -> None:
        self._width = int(line.max(initial=0)) + 1
        self._keys = np.unique(vertex.astype(np.int64) * self._width + line)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def vertex(self) -> IntArray:
        """``[places]``"""
        return np.asarray(self._keys // self._width)

    @property
    def line(self) -> IntArray:
        """``[places]``"""
        return np.asarray(self._keys % self._width)

    def find(self, vertex: IntArray, line: IntArray) -> IntArray:
        """The place of each pair, which must be one of them."""
        return np.searchsorted(self._keys, vertex.astype(np.int64) * self._width + line).astype(np.int64)


def sampled_work(
    bursts: Bursts,
    sampled: Sampled,
    catalogue: Catalogue,
    vertices: int,
    in_calls: BoolArray | None = None,
    held_up: list[HeldUp] | None = None,
) -> tuple[Rows, Rows]:
    """Rows of the bursts that hold samples, and what they tell of those that hold none (for :func:`common_profiles`).

    ``in_calls`` says which paths lead into a communication call ``[paths]``: in a burst that holds unwritten calls, a
    sample there tells nothing of own work. Where locations waited for helpers is added to ``held_up``.
    """
    places, period_ns = sampled.places, sampled.period_ns
    place_of_path = catalogue.find(places.vertex, places.line)
    kind = own_kinds(bursts, vertices, period_ns)
    rows, mended, waited = _sampled(bursts, kind, sampled, place_of_path, in_calls)
    if held_up is not None:
        whole = HeldUp.of(waited)
        held_up.append(replace(whole, seen=waited))
    exact_cpu(rows, bursts.cpu_ns, mended)
    return rows, evidence_of(bursts, rows, vertices, period_ns)


def inferred_work(
    bursts: Bursts, rows: Rows, common: Profiles, catalogue: Catalogue, vertices: int, period_ns: int
) -> Rows:
    """Rows of all bursts, sorted by their numbers, which stand in place of the bursts themselves."""
    inferred = unsampled(bursts, rows, common, catalogue.find, vertices, period_ns)
    exact_cpu(inferred, bursts.cpu_ns)
    merged = concatenated([rows, inferred])
    merged.burst = bursts.number[merged.burst]
    merged.samples = np.where(merged.samples > 0, np.maximum(np.rint(merged.samples), 1), 0).astype(np.int64)
    return sorted_by_burst(merged)


def numbered(parts: Sequence[Rows], catalogue: Catalogue) -> tuple[OwnWork, Activities]:
    """Rows that follow each other as the timeline has them, and the activities that occur."""
    occurs = np.zeros(2 * len(catalogue), np.bool_)
    for part in parts:
        occurs[part.activity] = True
    found = np.flatnonzero(occurs)
    renumber: npt.NDArray[Any] = np.full(2 * len(catalogue), -1, ROW)
    renumber[found] = np.arange(len(found))

    def column(name: str, kind: type[np.generic]) -> Any:
        """A column of all parts, which lose theirs."""
        result = np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)], dtype=kind)
        for part in parts:
            setattr(part, name, None)
        return result

    for part in parts:
        part.activity = renumber[part.activity]
    own = OwnWork(
        burst=column("burst", ROW),
        activity=column("activity", ROW),
        seconds=column("seconds", np.float64),
        cpu_s=column("cpu_s", np.float64),
        core_wait_s=column("core_wait_s", np.float64),
        samples=column("samples", ROW),
    )
    return own, Activities(catalogue.vertex[found // 2], catalogue.line[found // 2], (found % 2).astype(np.bool_))


def _sampled(
    bursts: Bursts, kind: IntArray, sampled: Sampled, place_of_path: IntArray, in_calls: BoolArray | None
) -> tuple[Rows, BoolArray, HelperWaits]:
    """Rows of the bursts that hold samples, CPU as the samples have it; in which bursts short rests, or runs, went
    to where others were found ``[bursts]``; and the waits for helpers. ``kind`` is that of each burst ``[bursts]``."""
    samples, places, period_ns = sampled.samples, sampled.places, sampled.period_ns
    stretches = stretches_of(samples, places, period_ns)
    there = InGaps.of(bursts, samples, sampled.threads, stretches, in_calls)
    burst, state, path = there.burst, samples.state[there.rows], samples.path[there.rows]
    length_ns = there.right_ns - there.left_ns
    ticks = np.clip(np.rint(length_ns / period_ns), 1, _MOST_TICKS).astype(np.int64)
    spent = _Spent(to_seconds(length_ns), there.cpu_s, there.core_wait_s)
    if bursts.unwritten_ns is not None:
        spent = spent.times((bursts.own_ns() / np.maximum(bursts.end_ns - bursts.start_ns, 1))[burst])
    spent.core_wait_s = np.minimum(spent.core_wait_s, np.maximum(spent.seconds - spent.cpu_s, 0.0))

    blocked = (state == STATE_LOCK) | (state == STATE_IPC)
    blocked |= (state == STATE_UNKNOWN) & places.waits[path]
    blocked |= places.spins[path]
    starved = (state == STATE_RUNNING) & (spent.cpu_s + spent.core_wait_s < 0.1 * spent.seconds)
    found = _Found(burst, path, state, place_of_path[path])
    spent, lost = _without_lost_cores(spent, bursts, found, places)
    spent, short = _without_short(spent, kind, found, places, period_ns)
    runs = (state == STATE_RUNNING) & ~blocked & ~starved
    burst_kind = number_columns(kind[burst], lengths(bursts, period_ns)[burst])[0]
    spent, uneven = _without_uneven(spent, found, burst_kind, runs, to_seconds(samples.cpu_ns[there.rows]))
    moved = concatenated([lost, short])
    asked = np.flatnonzero((blocked | starved) & (spent.seconds > 0))
    helpers = helpers_of(asked, starved, ticks, there, sampled, stretches)

    shares = np.concatenate(((ticks - helpers.helped) / ticks, helpers.share))
    of = np.concatenate((np.arange(len(burst), dtype=np.int64), helpers.row))
    activity = np.concatenate((2 * found.place, 2 * place_of_path[helpers.path] + 1))
    keep = shares > 0
    of, shares, activity = of[keep], shares[keep], activity[keep]
    part = spent.of(of).times(shares)
    at_work = Rows(burst[of], activity, part.seconds, part.cpu_s, part.core_wait_s, ticks[of] * shares)
    mended = np.zeros(len(bursts.location), np.bool_)
    mended[moved.burst] = True
    waited = HelperWaits(
        burst[helpers.row],
        place_of_path[helpers.path],
        found.place[helpers.row],
        spent.seconds[helpers.row] * helpers.share,
        there.left_ns[helpers.row],
        there.right_ns[helpers.row],
        helpers.is_thread & ~places.waits[path[helpers.row]],
    )
    return grouped(concatenated([at_work, moved, uneven])), mended, waited


def _without_lost_cores(spent: _Spent, bursts: Bursts, found: _Found, places: Places) -> tuple[_Spent, Rows]:
    """What samples stand for, without the waits for a core that belong to rests before them; and these (see
    :mod:`~scalana.graphs.bursts.short_rests`).

    That is a question of native code, which is sampled by its CPU time. Looks at Python frames find a thread where it
    waits for a core as well as where it rests.
    """
    burst, path, state = found.burst, found.path, found.state
    native = places.native[path]
    at_rest = (state == STATE_ASLEEP) | (state == STATE_DISK) | (native & RESTING[state])
    begins, calls = _begins(at_rest, path, burst), (state == STATE_RUNNING) & places.calls_rest[path]
    may = native & rested(spent.seconds, spent.cpu_s, spent.core_wait_s)
    here = Spent(spent.cpu_s, spent.core_wait_s, np.where(may, spent.core_wait_s, 0.0))
    if not (begins | calls).any() or not here.after_rest_s.any():
        return spent, _rows(Moves.none(), burst, np.zeros(0))
    location, before, after = (column[burst] for column in (bursts.location, bursts.before, bursts.after))
    alike = number_columns(before, after)[0]
    pairs = Pairs.of(number_columns(location, alike)[0], found.place)
    lost = lost_cores(pairs, location[pairs.sample], alike[pairs.sample], begins, calls, here)
    lost_s = np.bincount(lost.sample, lost.seconds, len(burst))
    left = _Spent(spent.seconds - lost_s, spent.cpu_s, spent.core_wait_s - lost_s)
    return left, _rows(lost, burst, np.zeros(len(lost.sample)))


def _without_short(spent: _Spent, kind: IntArray, found: _Found, places: Places, period_ns: int) -> tuple[_Spent, Rows]:
    """What samples stand for, without the short rests and runs that belong elsewhere; and these (see
    :mod:`~scalana.graphs.bursts.short_rests`). ``kind`` is that of each burst ``[bursts]``."""
    burst, path, state = found.burst, found.path, found.state
    native = places.native[path]
    runs, rests = native & (state == STATE_RUNNING), native & RESTING[state]
    if not rests.any():
        return spent, _rows(Moves.none(), burst, np.zeros(0))
    begins = _begins(rests, path, burst)
    # Where both were found in a burst, the borders between the samples divide it.
    has_run, has_rest = (np.bincount(burst[these], minlength=len(kind))[burst] > 0 for these in (runs, rests))
    pairs = Pairs.of(kind[burst], found.place)
    run = unfound_runs(pairs, runs, rests & ~has_run, spent.cpu_s, period_ns * _NS)
    run_s = np.bincount(run.sample, run.seconds, len(burst))
    left = _Spent(spent.seconds - run_s, spent.cpu_s - run_s, spent.core_wait_s)
    rest_s = np.maximum(left.seconds - left.cpu_s - left.core_wait_s, 0.0)
    rest = unfound_rests(pairs, begins, runs & ~has_rest, rest_s, period_ns * _NS)
    left.seconds = left.seconds - np.bincount(rest.sample, rest.seconds, len(burst))
    return left, concatenated([_rows(run, burst, run.seconds), _rows(rest, burst, np.zeros(len(rest.sample)))])


def _without_uneven(
    spent: _Spent, found: _Found, kind: IntArray, runs: BoolArray, ran_s: FloatArray
) -> tuple[_Spent, Rows]:
    """What samples stand for, without what some of them have for being alone in their bursts; and that (see
    :mod:`~scalana.graphs.bursts.even_shares`). ``kind`` is that of its burst with its length, ``runs`` whether its
    thread ran, and ``ran_s`` the CPU time that it brought, each ``[samples in bursts]``."""
    pairs = Pairs.of(kind, found.place)
    uneven = unequal(pairs, runs, ran_s, np.minimum(spent.cpu_s, spent.seconds))
    taken_s = np.bincount(uneven.sample, uneven.seconds, len(found.burst))
    left = _Spent(spent.seconds - taken_s, spent.cpu_s - taken_s, spent.core_wait_s)
    return left, _rows(uneven, found.burst, uneven.seconds)


def _begins(rests: BoolArray, path: IntArray, burst: IntArray) -> BoolArray:
    """Which samples are the first of a rest, of those that found threads at rest ``[samples in bursts]``."""
    begins = rests.copy()
    begins[1:] &= ~(rests[:-1] & (path[1:] == path[:-1]) & (burst[1:] == burst[:-1]))
    return begins


def _rows(moves: Moves, burst: IntArray, cpu_s: FloatArray) -> Rows:
    """Rows of what is moved to other places, in the bursts that its samples lie in."""
    nothing = np.zeros(len(moves.sample))
    return Rows(burst[moves.sample], 2 * moves.place, moves.seconds, cpu_s, nothing, nothing.copy())
