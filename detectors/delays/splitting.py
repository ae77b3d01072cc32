"""The numeric part of the blame: what each culprit did in excess of those who waited for it, as one kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scalana.graphs.arrays.compiled_loops import compiled
from scalana.graphs.arrays.segments import sort_values
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


class RunColumns(NamedTuple):
    """Those of :class:`~scalana.detectors.delays.classes.Runs`."""

    first: IntArray
    """Start of each comparison's runs ``[comparisons + 1]``."""
    location: IntArray
    """``[runs]``"""
    waits: BoolArray
    """``[runs]``"""


class SumColumns(NamedTuple):
    """Those of :class:`~scalana.detectors.delays.summing.Sums`, of some runs that follow each other."""

    first: IntArray
    """``[runs + 1]``"""
    target: IntArray
    """``[rows]``"""
    seconds: FloatArray
    """``[rows]``"""


class GroupColumns(NamedTuple):
    """Those of :class:`~scalana.detectors.delays.classes.Groups`."""

    vertex: IntArray
    """``[comparisons]``"""
    instances: IntArray
    """How many are joined ``[comparisons]``."""
    first: IntArray
    """Start of each comparison's wait groups ``[comparisons + 1]``."""
    waiter: IntArray
    """``[wait groups]``"""
    waiters: IntArray
    """``[wait groups]``"""
    wait_s: FloatArray
    """``[wait groups]``"""


CONTEXTS, CHOICES = 0, 1
"""What activities can be one work by, see :class:`SameWork`."""


class SameWork(NamedTuple):
    """Activities that are compared as one work: the same in several contexts
    (:mod:`~scalana.detectors.delays.contexts`), and what ranks run instead of each other
    (:mod:`~scalana.detectors.delays.choices`)."""

    number: IntArray
    """Of the work, -1 for activities that stand alone; different ones for contexts and for choices
    ``[2, activities]``."""
    works: int
    """How many there are."""


class Rules(NamedTuple):
    """What targets mean, and how sure sums are."""

    transfer: int
    """First target that is a transfer, not an activity."""
    unresolved: int
    wait: int
    """First target that is a wait group."""
    period_s: float
    """Of sampling."""
    explained: float
    """Share of a wait that the excess must explain."""


class _Culprit(NamedTuple):
    """What a culprit did: its activities, then its waits as one total in the last column."""

    did: FloatArray
    """``[columns]``"""
    median: FloatArray
    """Of the members ``[columns]``."""
    noise: FloatArray
    """How much a difference may be by chance ``[columns]``."""
    work: IntArray
    """Which of its works each column is, -1 for none ``[2, columns]``."""
    did_work: FloatArray
    """``[works]``"""
    median_work: FloatArray
    """Of the members ``[works]``."""


@compiled
def split_comparisons(low, high, runs, sums, groups, same, rules):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Split the wait groups of the comparisons from ``low`` to ``high``; returns (group, target, share) rows.

    ``sums`` are of these comparisons alone; the other tuples hold the columns of all of them.
    """
    run_first, run_location, run_waits = runs
    sum_first, sum_target, sum_s = sums
    vertex, count, group_first, group_waiter, group_waiters, group_wait_s = groups
    work_of, works = same
    start = run_first[low]
    most = 0
    for comparison in range(low, high):
        run = run_first[comparison] - start
        most += (group_first[comparison + 1] - group_first[comparison]) * (sum_first[run + 1] - sum_first[run] + 1)
    out_group = np.empty(most, sum_target.dtype)
    out_target = np.empty(most, sum_target.dtype)
    out_share = np.empty(most, np.float64)
    used = 0
    usual = np.empty(1024, np.float64)
    usual_work = np.empty(1024, np.float64)
    row_of_work = np.full(works, -1, np.int64)
    for comparison in range(low, high):
        # The culprit's own rows: activities first, then its waits, compared as one total in the last column.
        run = run_first[comparison] - start
        begin, end = sum_first[run], sum_first[run + 1]
        columns = 0
        while begin + columns < end and sum_target[begin + columns] < rules.wait:
            columns += 1
        width = columns + 1
        did, noise = _did(begin, end, columns, sums, count[comparison], rules)
        first_run = run_first[comparison] + 1
        members = run_first[comparison + 1] - first_run
        others = SumColumns(sum_first[run + 1 :], sum_target, sum_s)
        if members * width > len(usual):
            usual = np.empty(2 * members * width, np.float64)
        _fill(usual, members, others, begin, columns, rules.wait)
        median = np.zeros(width, np.float64)
        mean = np.zeros(width, np.float64)
        _typical(usual, members, run_waits[first_run:], median, mean)
        # What it did in several contexts, whichever of them the others did it in.
        what = sum_target[begin : begin + columns]
        work, several = _number_works(what, rules.transfer, work_of, row_of_work)
        did_work = np.zeros(several, np.float64)
        mean_work = np.zeros(several, np.float64)
        median_work = np.zeros(several, np.float64)
        if several:
            _add_work(did_work, work, did, columns)
            if members * several > len(usual_work):
                usual_work = np.empty(2 * members * several, np.float64)
            _fill_work(usual_work, members, several, others, rules.transfer, work_of, row_of_work)
            _typical(usual_work, members, run_waits[first_run:], median_work, mean_work)
            _forget_numbers(what, work, work_of, row_of_work)
        culprit = _Culprit(did, median, noise, work, did_work, median_work)
        excess = np.empty(width, np.float64)
        for group in range(group_first[comparison], group_first[comparison + 1]):
            wait_s = group_wait_s[group] / group_waiters[group]
            mine, mine_work = mean, mean_work
            if group_waiters[group] == 1:
                place = 0
                while place < members - 1 and run_location[first_run + place] < group_waiter[group]:
                    place += 1
                mine = usual[place * width : (place + 1) * width]
                if several:
                    mine_work = usual_work[place * several : (place + 1) * several]
            total = _excess(excess, culprit, mine, mine_work, rules.explained * wait_s)
            whole = total if total >= rules.explained * wait_s else max(wait_s, total)
            given = 0.0
            for row in range(begin, end):
                column = min(row - begin, columns)
                if excess[column] <= 0.0:
                    continue
                share = excess[column] / whole
                if column < columns or row == begin + columns:
                    given += share
                out_group[used], out_target[used] = group, sum_target[row]
                out_share[used] = share if column < columns else share * sum_s[row] / did[columns]
                used += 1
            if total < rules.explained * wait_s and given < 1.0:
                out_group[used], out_target[used] = group, rules.unresolved + vertex[comparison]
                out_share[used] = 1.0 - given
                used += 1
    return out_group[:used].copy(), out_target[:used].copy(), out_share[:used].copy()


@compiled
def _did(begin, end, columns, sums, count, rules):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What the culprit did, of which there are the rows from ``begin`` to ``end``: its activities, and its waits as one
    total; and how much a difference from others may be by chance, each ``[columns + 1]``."""
    _, target, seconds = sums
    did = np.zeros(columns + 1, np.float64)
    noise = np.zeros(columns + 1, np.float64)
    for column in range(columns):
        did[column] = seconds[begin + column]
        if target[begin + column] < rules.transfer:  # calls are timed, not sampled
            # Two standard deviations of the difference of two sampled sums. A visit of any length is measured to
            # within one period at random, so its variance is period^2 / 6, and less for much shorter ones.
            variance = min(count * rules.period_s**2 / 6.0, did[column] * rules.period_s)
            noise[column] = 2.0 * np.sqrt(2.0 * variance)
    for row in range(begin + columns, end):
        did[columns] += seconds[row]
    return did, noise


@compiled
def _number_works(what, transfer, work_of, row_of_work):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Number the works that the culprit's activities are part of, also in ``row_of_work``; returns the number of each
    column, -1 for those that stand alone ``[2, columns + 1]``, and how many there are."""
    work = np.full((2, len(what) + 1), -1, np.int64)
    several = 0
    for by in (CONTEXTS, CHOICES):
        for column in range(len(what)):
            if what[column] < transfer and work_of[by, what[column]] >= 0:
                if row_of_work[work_of[by, what[column]]] < 0:
                    row_of_work[work_of[by, what[column]]] = several
                    several += 1
                work[by, column] = row_of_work[work_of[by, what[column]]]
    return work, several


@compiled
def _forget_numbers(what, work, work_of, row_of_work):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Clear what :func:`_number_works` wrote to ``row_of_work``."""
    for by in (CONTEXTS, CHOICES):
        for column in range(len(what)):
            if work[by, column] >= 0:
                row_of_work[work_of[by, what[column]]] = -1


@compiled
def _add_work(sums, work, seconds, columns):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add the seconds of columns to those of the works that they are part of."""
    for by in (CONTEXTS, CHOICES):
        for column in range(columns):
            if work[by, column] >= 0:
                sums[work[by, column]] += seconds[column]


@compiled
def _fill(usual, members, sums, begin, columns, wait_base):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What each member did in the culprit's activities, and waited, as a row of ``usual``. The culprit's activities are
    the targets from ``begin`` on."""
    first, target, seconds = sums
    width = columns + 1
    usual[: members * width] = 0.0
    for member in range(members):
        column = 0
        for row in range(first[member], first[member + 1]):
            what = target[row]
            if what >= wait_base:
                usual[member * width + columns] += seconds[row]
                continue
            while column < columns and target[begin + column] < what:
                column += 1
            if column < columns and target[begin + column] == what:
                usual[member * width + column] += seconds[row]


@compiled
def _fill_work(usual, members, several, sums, transfer, work_of, row_of_work):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What each member did of the culprit's works, in any context, as a row of ``usual``."""
    first, target, seconds = sums
    usual[: members * several] = 0.0
    for member in range(members):
        for row in range(first[member], first[member + 1]):
            what = target[row]
            if what >= transfer:
                continue
            for by in (CONTEXTS, CHOICES):
                if work_of[by, what] >= 0 and row_of_work[work_of[by, what]] >= 0:
                    usual[member * several + row_of_work[work_of[by, what]]] += seconds[row]


@compiled
def _typical(usual, members, waits, median, mean):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Of every column of ``usual`` the median over all members, if there are two, and the mean over those that wait."""
    width = len(mean)
    waiters = 0
    for member in range(members):
        if waits[member]:
            waiters += 1
            for column in range(width):
                mean[column] += usual[member * width + column]
    for column in range(width):
        if waiters:
            mean[column] /= waiters
        if members >= 2:
            median[column] = _median(usual, column, width, members)


@compiled
def _median(usual, column, width, members):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Median of a column of non-negative numbers."""
    values = np.empty(members, dtype=np.float64)
    known = 0
    for member in range(members):
        value = usual[member * width + column]
        if value > 0.0:
            values[known] = value
            known += 1
    if 2 * known < members:
        return 0.0
    zeros = members - known
    some = values[:known]
    sort_values(some)
    high = some[members // 2 - zeros]
    if members % 2:
        return high
    low = some[members // 2 - 1 - zeros] if members // 2 - 1 >= zeros else 0.0
    return 0.5 * (low + high)


@compiled
def _excess(excess, culprit, mine, mine_work, wanted):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What the culprit did more of than the waiter and than is ordinary; where that explains too little of the wait,
    than the waiter alone; then without regard to sampling noise. The last that is tried stands. Of work that stands in
    several contexts, and of what is done instead of something else, it is no more than what it did more of in all of
    these together. Returns its sum."""
    did, median, noise, work, did_work, median_work = culprit
    total = 0.0
    for attempt in range(4):
        total = 0.0
        for column in range(len(did)):
            reference = mine[column] if attempt % 2 else max(mine[column], median[column])
            floor = noise[column] if attempt < 2 else 0.0
            more = did[column] - reference
            excess[column] = more if more > 0.0 and more > floor else 0.0
            total += excess[column]
        if len(did_work):
            for by in (CONTEXTS, CHOICES):
                total -= _cut(excess, work[by], by == CONTEXTS, did_work, mine_work, median_work * (1 - attempt % 2))
        if total >= wanted:
            break
    return total


@compiled
def _cut(excess, work, by_context, did_work, mine_work, least_work):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Cut the excess of every work down to what was done more of all of it; returns what was taken. What stands in
    several contexts is taken from these one by one, the largest first, and that of a choice from all its parts."""
    taken = 0.0
    together = np.zeros(len(did_work), np.float64)
    for column in range(len(work)):
        if work[column] >= 0:
            together[work[column]] += excess[column]
    for row in range(len(did_work)):
        over = together[row] - max(did_work[row] - max(mine_work[row], least_work[row]), 0.0)
        if over > 0.0 and by_context:
            taken += _take(excess, work, row, over)
        elif over > 0.0:
            taken += over
            for column in range(len(work)):
                if work[column] == row:
                    excess[column] *= 1.0 - over / together[row]
    return taken


@compiled
def _take(excess, work, row, over):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Take seconds from the excess of one work, the context with the largest one first: what others did elsewhere is
    rather that than a call that it makes besides. Returns what was taken."""
    taken = 0.0
    while taken < over:
        largest = -1
        for column in range(len(excess)):
            if work[column] == row and excess[column] > 0.0 and (largest < 0 or excess[column] > excess[largest]):
                largest = column
        if largest < 0:
            break
        part = min(excess[largest], over - taken)
        excess[largest] -= part
        taken += part
        if part <= 0.0:
            break
    return taken
