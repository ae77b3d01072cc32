"""What locations did between their communication calls, from samples and exact CPU clocks.

Between two calls of a location lies a *gap*. Its length is exact, and so is the CPU time spent in it, since a call
reads the thread's CPU clock; the samples only tell how the two are to be divided. Every sample owns the stretch of
its gap that is nearest to it in time. A gap too short for any sample is divided like sampled short gaps between the
same two calls. Nothing is lost: the rows of a gap add up to its length.

A location that waits for another thread or child process of its own rank (a lock, a queue, a data loader's worker)
does no work itself; the stretch then belongs to whoever of its rank was active in it, as a *helper* activity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.short_rests import Moves, Pairs, unfound_rests, unfound_runs
from scalana.graphs.tables import BoolArray, Samples, Threads, to_seconds
from scalana.graphs.timeline import ROW, Activities, FloatArray, IntArray, OwnWork
from scalana.graphs.unsampled import Profiles, common_profiles, evidence_of, own_kinds, unsampled
from scalana.graphs.work_rows import Gaps, Rows, concatenated, exact_cpu, grouped, sorted_by_gap
from scalana.runtime.record_format import (
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
_RESTING = np.isin(np.arange(6), (STATE_ASLEEP, STATE_LOCK, STATE_IPC, STATE_DISK))
_MOST_WAIT_NS = 1 << 42
"""More than any thread waits for a core at a time (73 minutes)."""


@dataclass(slots=True)
class Places:
    """Where the call paths of all processes lead."""

    vertex: IntArray
    """Vertex of the innermost frame ``[paths]``."""
    line: IntArray
    """Innermost line of the user's own code, 0 if the path has none ``[paths]``."""
    waits: BoolArray
    """Whether the innermost frame is library code that waits for other threads or processes ``[paths]``."""
    spins: BoolArray
    """Whether the innermost frame is that of a library whose threads spin while they wait for others ``[paths]``."""
    computes: BoolArray
    """Whether the innermost frame is native code of the user's own, which cannot rest: it calls what rests ``[paths]``.
    """
    native: BoolArray
    """Whether the innermost frame is native code ``[paths]``."""


@dataclass(slots=True)
class _Stretches:
    """Neighbouring samples of a thread, and how the time between them divides. One row per sample.

    ``border_ns[i]`` is where sample ``i`` hands over to the next; the rates are CPU (and core wait) a second before
    and after that border, until ``over_ns[i]``: from there on to sample ``i + 1`` the thread rested.
    """

    follows: BoolArray
    """Whether row ``i + 1`` is of the same thread."""
    border_ns: IntArray
    over_ns: IntArray
    cpu_before: FloatArray
    cpu_after: FloatArray
    wait_before: FloatArray
    wait_after: FloatArray


def own_work(
    gaps: Gaps, samples: Samples, threads: Threads, places: Places, period_ns: int
) -> tuple[OwnWork, Activities]:
    """Divide every gap over activities.

    ``samples`` are sorted by (thread, time) on the aligned axis; ``threads.location`` says which threads are
    locations and ``threads.rank`` to which rank all of them belong.

    This is all in one; of a large run :func:`sampled_work` and :func:`inferred_work` are done portion by portion.
    """
    catalogue = Catalogue(
        np.concatenate((places.vertex, gaps.default_vertex)), np.concatenate((places.line, gaps.default_line))
    )
    vertices = int(max(gaps.before.max(initial=-1), gaps.after.max(initial=-1))) + 1
    rows, evidence = sampled_work(gaps, samples, threads, places, catalogue, vertices, period_ns)
    common = common_profiles([evidence])
    return numbered([inferred_work(gaps, rows, common, catalogue, vertices, period_ns)], catalogue)


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
    gaps: Gaps,
    samples: Samples,
    threads: Threads,
    places: Places,
    catalogue: Catalogue,
    vertices: int,
    period_ns: int,
    in_calls: BoolArray | None = None,
) -> tuple[Rows, Rows]:
    """Rows of the gaps that hold samples, and what they tell of those that hold none (for :func:`common_profiles`).

    ``in_calls`` says which paths lead into a communication call ``[paths]``: in a gap that holds unwritten calls, a
    sample there tells nothing of own work.
    """
    place_of_path = catalogue.find(places.vertex, places.line)
    kind = own_kinds(gaps, vertices, period_ns)
    rows, mended = _sampled(gaps, kind, samples, threads, places, place_of_path, period_ns, in_calls)
    exact_cpu(rows, gaps.cpu_ns, mended)
    return rows, evidence_of(gaps, rows, vertices, period_ns)


def inferred_work(
    gaps: Gaps, rows: Rows, common: Profiles, catalogue: Catalogue, vertices: int, period_ns: int
) -> Rows:
    """Rows of all gaps, sorted by their numbers, which stand in place of the gaps themselves."""
    inferred = unsampled(gaps, rows, common, catalogue.find, vertices, period_ns)
    exact_cpu(inferred, gaps.cpu_ns)
    merged = concatenated([rows, inferred])
    merged.gap = gaps.number[merged.gap]
    merged.samples = np.where(merged.samples > 0, np.maximum(np.rint(merged.samples), 1), 0).astype(np.int64)
    return sorted_by_gap(merged)


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
        gap=column("gap", ROW),
        activity=column("activity", ROW),
        seconds=column("seconds", np.float64),
        cpu_s=column("cpu_s", np.float64),
        core_wait_s=column("core_wait_s", np.float64),
        samples=column("samples", ROW),
    )
    return own, Activities(catalogue.vertex[found // 2], catalogue.line[found // 2], (found % 2).astype(np.bool_))


def active_s(samples: Samples, threads: Threads, places: Places, period_ns: int) -> FloatArray:
    """Seconds that each sample stands for if its thread was active in it, else 0 ``[samples]``.

    The first sample of a thread stands for a period before it, the last for half a period after it.
    """
    stretches = _stretches(samples, places, period_ns)
    time, half = samples.time_ns, period_ns // 2
    until = np.where(stretches.follows, stretches.border_ns, time + half)
    since = np.empty_like(time)
    since[:1] = time[:1] - half
    since[1:] = np.where(stretches.follows[:-1], stretches.border_ns[:-1], time[1:] - half)
    return np.where(_active(samples, places, stretches), to_seconds(until - since), 0.0)


@dataclass(slots=True)
class InGaps:
    """Samples that lie in gaps, sorted by (thread, time). Those of a gap share all of its time."""

    rows: IntArray
    """``[samples in gaps]``"""
    gap: IntArray
    """``[samples in gaps]``"""
    left_ns: IntArray
    """From when on a sample stands for what its thread did ``[samples in gaps]``."""
    right_ns: IntArray
    """Until when ``[samples in gaps]``."""
    cpu_s: FloatArray
    """CPU time in between ``[samples in gaps]``."""

    @classmethod
    def of(cls, gaps: Gaps, samples: Samples, threads: Threads, places: Places, period_ns: int) -> InGaps:
        """Find them."""
        stretches = _stretches(samples, places, period_ns)
        gap = _gap_of_samples(gaps, samples, threads)
        rows = np.flatnonzero(gap >= 0)
        gap = gap[rows]
        left, right = _owned(rows, gap, gaps, stretches)
        cpu = _integral(rows, samples.time_ns[rows], left, right, stretches, samples, "cpu", period_ns)
        return cls(rows, gap, left, right, cpu)


def _stretches(samples: Samples, places: Places, period_ns: int) -> _Stretches:
    """Divide the time between neighbouring samples.

    The border is the midpoint, unless the thread did not run in between: then it stayed where the earlier sample
    says until the last period, since a thread that does not advance writes no samples. Who was at rest in the earlier
    one stayed there until what it then ran, and waited for a core, began; that is right before the later one, or, if
    it was at rest again, at any time, as likely early as late; who has not run at all has but begun to wait. Who ran in
    the earlier one and was at rest in the later ran, and waited for a core, on the way from one place to the other, and
    then rested in the later: it would have been found at rest in the earlier. So did who computed in the earlier, and
    was in a library's function in the later: of many short rests a look finds few.
    """
    time, n = samples.time_ns, len(samples)
    follows = np.zeros(n, np.bool_)
    border, over = time.copy(), time.copy()
    cpu_before, cpu_after, wait_before, wait_after = (np.zeros(n) for _ in range(4))
    if n > 1:
        follows[:-1] = samples.thread[1:] == samples.thread[:-1]
        apart = np.maximum(time[1:] - time[:-1], 1)
        cpu = np.minimum(samples.cpu_ns[1:], apart)
        wait = _carried_back(samples.core_wait_ns[1:], apart - cpu, follows[:-1])
        rested = _RESTING[samples.state[:-1]]
        far = 2 * apart > 3 * period_ns
        running, computes = samples.state == STATE_RUNNING, places.computes[samples.path]
        to_call = (running & computes)[:-1] & (running & ~computes)[1:]
        rests = far & ~rested & (_RESTING[samples.state[1:]] | to_call)
        held = rested | (far & ~rests & (2 * (cpu + wait) < apart))
        middle = (time[:-1] + time[1:]) // 2
        border[:-1] = np.where(held, np.maximum(middle, time[1:] - period_ns // 2), middle)
        began = time[1:] - cpu - wait
        began = np.where(_RESTING[samples.state[1:]] & (cpu > 0), (time[:-1] + began) // 2, began)
        border[:-1] = np.where(rested, began, border[:-1])
        half = np.maximum((cpu + wait) // 2, period_ns // 2)
        border[:-1] = np.where(rests, time[:-1] + half, border[:-1])
        over[:-1] = np.where(rests, np.minimum(border[:-1] + half, time[1:]), time[1:])
        ran = np.where(held, np.maximum(time[1:] - border[:-1], 1), apart)
        moves = np.where(rests, 0.5 * apart / np.maximum(border[:-1] - time[:-1], 1), 1.0)
        rests_on = np.where(rests, 0.5 * apart / np.maximum(over[:-1] - border[:-1], 1), 1.0)
        for spent, before, after in ((cpu, cpu_before, cpu_after), (wait, wait_before, wait_after)):
            before[:-1] = np.where(held, 0.0, np.minimum(moves * spent / ran, 1.0))
            after[:-1] = np.minimum(rests_on * spent / ran, 1.0)
    return _Stretches(follows, border, over, cpu_before, cpu_after, wait_before, wait_after)


def _carried_back(wait_ns: IntArray, room_ns: IntArray, follows: BoolArray) -> IntArray:
    """How long threads waited for a core in each stretch between samples ``[stretches]``.

    The kernel tells it when a thread has got one: what does not fit into that stretch was waited in those before, in
    which the thread was seen not to run.
    """
    over = wait_ns - room_ns
    if over.max() <= 0:
        return wait_ns
    total = np.cumsum(np.where(follows, over, -_MOST_WAIT_NS)[::-1])
    over = (total - np.minimum(np.minimum.accumulate(total), 0))[::-1]  # what each stretch hands to the one before
    return np.minimum(wait_ns + np.append(over[1:], 0), room_ns)


def _sampled(
    gaps: Gaps,
    kind: IntArray,
    samples: Samples,
    threads: Threads,
    places: Places,
    place_of_path: IntArray,
    period_ns: int,
    in_calls: BoolArray | None,
) -> tuple[Rows, BoolArray]:
    """Rows of the gaps that hold samples, CPU as the samples have it; and in which gaps short rests, or runs, went to
    where others were found ``[gaps]``. ``kind`` is that of each gap ``[gaps]``."""
    stretches = _stretches(samples, places, period_ns)
    gap_of_sample = _gap_of_samples(gaps, samples, threads)
    if gaps.unwritten_ns is not None and in_calls is not None:
        gap_of_sample[in_calls[samples.path] & (gaps.unwritten_ns > 0)[gap_of_sample]] = -1
    rows = np.flatnonzero(gap_of_sample >= 0)
    gap = gap_of_sample[rows]
    time = samples.time_ns[rows]
    left, right = _owned(rows, gap, gaps, stretches)
    seconds = to_seconds(right - left)
    cpu = _integral(rows, time, left, right, stretches, samples, "cpu", period_ns)
    wait = _integral(rows, time, left, right, stretches, samples, "wait", period_ns)
    if gaps.unwritten_ns is not None:
        part = (gaps.own_ns() / np.maximum(gaps.end_ns - gaps.start_ns, 1))[gap]
        seconds, cpu, wait = seconds * part, cpu * part, wait * part
    wait = np.minimum(wait, np.maximum(seconds - cpu, 0.0))
    ticks = np.clip(np.rint((right - left) / period_ns), 1, _MOST_TICKS).astype(np.int64)

    state = samples.state[rows]
    blocked = (state == STATE_LOCK) | (state == STATE_IPC)
    blocked |= (state == STATE_UNKNOWN) & places.waits[samples.path[rows]]
    blocked |= places.spins[samples.path[rows]]
    starved = (state == STATE_RUNNING) & (cpu + wait < 0.1 * seconds)
    native = places.native[samples.path[rows]]
    runs, rests = native & (state == STATE_RUNNING), native & _RESTING[state]
    run = rest = Moves.none()
    if rests.any():
        begins = rests.copy()
        begins[1:] &= ~(rests[:-1] & (samples.path[rows[1:]] == samples.path[rows[:-1]]) & (gap[1:] == gap[:-1]))
        # Where both were found in a gap, the borders between the samples divide it.
        has_run, has_rest = (np.bincount(gap[these], minlength=len(kind))[gap] > 0 for these in (runs, rests))
        pairs = Pairs.of(kind[gap], place_of_path[samples.path[rows]])
        run = unfound_runs(pairs, runs, rests & ~has_run, cpu, period_ns * _NS)
        moved_s = np.bincount(run.sample, run.seconds, len(rows))
        seconds, cpu = seconds - moved_s, cpu - moved_s
        rest_s = np.maximum(seconds - cpu - wait, 0.0)
        rest = unfound_rests(pairs, begins, runs & ~has_rest, rest_s, period_ns * _NS)
        seconds = seconds - np.bincount(rest.sample, rest.seconds, len(rows))
    asked = np.flatnonzero((blocked | starved) & (seconds > 0))
    helped, helped_row, helped_path, helped_share = _helpers(
        asked, starved, left, right, ticks, samples, threads, places, stretches, gap_of_sample, rows, period_ns
    )
    own_share = (ticks - helped) / ticks

    shares = np.concatenate((own_share, helped_share))
    of = np.concatenate((np.arange(len(rows), dtype=np.int64), helped_row))
    activity = np.concatenate((2 * place_of_path[samples.path[rows]], 2 * place_of_path[helped_path] + 1))
    keep = shares > 0
    of, shares, activity = of[keep], shares[keep], activity[keep]
    at_work = Rows(gap[of], activity, seconds[of] * shares, cpu[of] * shares, wait[of] * shares, ticks[of] * shares)
    moved = [_rows(run, gap, run.seconds), _rows(rest, gap, np.zeros(len(rest.sample)))]
    mended = np.zeros(len(gaps.location), np.bool_)
    mended[np.concatenate([part.gap for part in moved])] = True
    return grouped(concatenated([at_work, *moved])), mended


def _rows(moves: Moves, gap: IntArray, cpu_s: FloatArray) -> Rows:
    """Rows of what is moved to other places, in the gaps that its samples lie in."""
    nothing = np.zeros(len(moves.sample))
    return Rows(gap[moves.sample], 2 * moves.place, moves.seconds, cpu_s, nothing, nothing.copy())


def _owned(rows: IntArray, gap: IntArray, gaps: Gaps, stretches: _Stretches) -> tuple[IntArray, IntArray]:
    """From when to when each of the samples that lie in gaps stands for what its thread did (ns)."""
    # A sample shares its gap with its neighbours only if they lie in the same one; else it owns up to the edge.
    joins_next = np.zeros(len(rows), np.bool_)
    joins_next[:-1] = gap[1:] == gap[:-1]
    joins_last = np.zeros(len(rows), np.bool_)
    joins_last[1:] = joins_next[:-1]
    right = np.where(joins_next, stretches.border_ns[rows], gaps.end_ns[gap])
    before = np.concatenate((rows[:1], rows[:-1]))  # of samples between two of a gap, the earlier one has the time
    left = np.where(joins_last, stretches.border_ns[before], gaps.start_ns[gap])
    return left, right


def _integral(
    rows: IntArray,
    time: IntArray,
    left: IntArray,
    right: IntArray,
    stretches: _Stretches,
    samples: Samples,
    what: str,
    period_ns: int,
) -> FloatArray:
    """Seconds of CPU or core wait between ``left`` and ``right`` of each sample, at the rates of its stretches."""
    before, after, counted = (
        (stretches.cpu_before, stretches.cpu_after, samples.cpu_ns)
        if what == "cpu"
        else (stretches.wait_before, stretches.wait_after, samples.core_wait_ns)
    )
    previous = rows - 1
    has_previous = (rows > 0) & stretches.follows[previous]
    # The first sample of a thread has no stretch before it: its clock tells of the time since the last tick.
    first_rate = np.minimum(counted[rows] / np.maximum(time - left, 1), 1.0)
    border = np.clip(stretches.border_ns[previous], left, time)
    early = np.where(
        has_previous,
        (border - left) * before[previous]
        + (np.clip(stretches.over_ns[previous], border, time) - border) * after[previous],
        (time - left) * first_rate,
    )
    follows = stretches.follows[rows]
    border = np.clip(stretches.border_ns[rows], time, right)
    last_rate = np.where(has_previous, after[previous], first_rate)
    late = np.where(
        follows,
        (border - time) * before[rows] + (np.clip(stretches.over_ns[rows], border, right) - border) * after[rows],
        (right - time) * last_rate,
    )
    return np.asarray((early + late) * _NS)


def _gap_of_samples(gaps: Gaps, samples: Samples, threads: Threads) -> IntArray:
    """The gap that each sample of a location lies in, -1 for samples in calls and of other threads."""
    result = np.full(len(samples), -1, np.int64)
    location = threads.location[samples.thread]
    rows = np.flatnonzero(location >= 0)
    if len(rows) == 0 or len(gaps.location) == 0:
        return result
    time, location = samples.time_ns[rows], location[rows]
    origin = min(int(time.min()), int(gaps.start_ns.min()))
    span = max(int(time.max()), int(gaps.end_ns.max())) - origin + 1
    starts = gaps.location * span + (gaps.start_ns - origin)
    gap = np.searchsorted(starts, location * span + (time - origin), side="right") - 1
    inside = (gap >= 0) & (gaps.location[gap] == location) & (time <= gaps.end_ns[gap])
    result[rows[inside]] = gap[inside]
    return result


def _active(samples: Samples, places: Places, stretches: _Stretches) -> BoolArray:
    """Whether a thread does something in a sample: runs, sleeps or is busy with a disk; not: waits for others."""
    cpu = np.zeros(len(samples))
    ran = (stretches.over_ns - stretches.border_ns)[:-1] / np.maximum(samples.time_ns[1:] - stretches.border_ns[:-1], 1)
    cpu[1:] = np.where(stretches.follows[:-1], stretches.cpu_after[:-1] * ran, 0.0)
    waits, spins = places.waits[samples.path], places.spins[samples.path]
    active = (samples.state == STATE_RUNNING) | (samples.state == STATE_ASLEEP) | (samples.state == STATE_DISK)
    active |= (samples.state == STATE_UNKNOWN) & ~waits
    runs = cpu > 0.5  # who was woken up and has no core yet does not spin
    return np.asarray((active & ~(runs & spins)) | (runs & ~waits & ~spins))


def _helpers(
    asked: IntArray,
    starved: BoolArray,
    left: IntArray,
    right: IntArray,
    ticks: IntArray,
    samples: Samples,
    threads: Threads,
    places: Places,
    stretches: _Stretches,
    gap_of_sample: IntArray,
    rows: IntArray,
    period_ns: int,
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Who of its own rank was active while a location waited.

    ``asked`` are the waiting rows; each is looked at in ``ticks`` places. Returns how many ticks of every row found a
    helper; and per (tick, helper) the row, the helper's path and the share of the row.
    """
    active = _active(samples, places, stretches) & (places.line[samples.path] > 0)
    location = threads.location[samples.thread]
    active &= ~((location >= 0) & (gap_of_sample < 0))  # another location inside a call is communicating, not working
    first = np.searchsorted(samples.thread, np.arange(len(threads) + 1))
    useful = np.flatnonzero(np.bincount(samples.thread[active], minlength=len(threads)) > 0)
    if len(asked) == 0 or len(useful) == 0:
        nobody = np.zeros(0, np.int64)
        return np.zeros(len(rows), np.int64), nobody, nobody, np.zeros(0)
    useful = useful[np.argsort(threads.rank[useful], kind="stable")]
    by_rank = threads.rank[useful]

    tick_row = np.repeat(asked, ticks[asked])
    count = ticks[tick_row]
    ordinal = np.arange(len(tick_row)) - np.repeat(np.cumsum(ticks[asked]) - ticks[asked], ticks[asked])
    tick_time = left[tick_row] + ((right - left)[tick_row] * (2 * ordinal + 1)) // (2 * count)

    # Every tick against every useful thread of its rank.
    rank = threads.rank[samples.thread[rows[tick_row]]]
    low, high = np.searchsorted(by_rank, rank, "left"), np.searchsorted(by_rank, rank, "right")
    fan = high - low
    tick = np.repeat(np.arange(len(tick_row)), fan)
    helper = useful[np.repeat(low - (np.cumsum(fan) - fan), fan) + np.arange(len(tick))]
    row = tick_row[tick]
    other = helper != samples.thread[rows[row]]
    tick, helper, row = tick[other], helper[other], row[other]

    # The sample of the helper that owns the tick.
    time = tick_time[tick]
    origin = min(int(samples.time_ns.min()), int(tick_time.min()))
    span = max(int(samples.time_ns.max()), int(tick_time.max())) - origin + 1
    keys = samples.thread * span + (samples.time_ns - origin)
    at = np.searchsorted(keys, helper * span + (time - origin), side="right") - 1
    at = np.maximum(at, first[helper])  # shortly before the first sample
    handed = stretches.follows[at] & (time >= stretches.border_ns[at])
    at = np.where(handed, at + 1, at)
    ran_ns = np.maximum(samples.cpu_ns[at] + samples.core_wait_ns[at], period_ns)  # a thread may be found late
    near = handed | (time >= samples.time_ns[at] - ran_ns)
    near &= stretches.follows[at] | (time <= samples.time_ns[at] + period_ns)
    helps = near & active[at]
    # Who merely lacks the interpreter lock waits for a thread of its own process that runs.
    same = threads.process[helper] == threads.process[samples.thread[rows[row]]]
    helps &= ~starved[row] | (same & (samples.state[at] == STATE_RUNNING))
    tick, row, at = tick[helps], row[helps], at[helps]

    several = np.bincount(tick, minlength=len(tick_row))
    helped = np.bincount(tick_row[several > 0], minlength=len(rows))
    return helped, row, samples.path[at], 1.0 / (several[tick] * ticks[row])
