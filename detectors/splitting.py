"""The numeric part of the blame: what each culprit did in excess of those who waited for it, as one kernel."""

from __future__ import annotations

import numba
import numpy as np

from scalana.detectors.segments import grown, sort_values


@numba.njit(cache=True)
def split_comparisons(  # type: ignore[no-untyped-def]  # pragma: no cover
    sum_first,
    sum_location,
    sum_target,
    sum_s,
    culprit,
    vertex,
    count,
    group_first,
    group_waiter,
    group_waiters,
    group_wait_s,
    present_first,
    present_location,
    present_waits,
    transfer,
    unresolved,
    wait_base,
    period_s,
    explained,
):
    """Split every wait group; returns its (group, target, share) rows.

    ``sum_first``, ``group_first`` and ``present_first`` ``[comparisons + 1]`` say which rows are of a comparison; the
    other columns are those of ``Sums`` and ``Groups``, in their order.
    """
    capacity = max(1024, 4 * len(group_wait_s))
    out_group = np.empty(capacity, dtype=np.int64)
    out_target = np.empty(capacity, dtype=np.int64)
    out_share = np.empty(capacity, dtype=np.float64)
    used = 0
    usual = np.empty(1024, dtype=np.float64)
    for comparison in range(len(culprit)):
        low, high = sum_first[comparison], sum_first[comparison + 1]
        # The culprit's own rows: activities first, then its waits, compared as one total in the last column.
        begin = low
        while begin < high and sum_location[begin] != culprit[comparison]:
            begin += 1
        end = begin
        while end < high and sum_location[end] == culprit[comparison]:
            end += 1
        columns = 0
        while begin + columns < end and sum_target[begin + columns] < wait_base:
            columns += 1
        width = columns + 1
        did = np.zeros(width, dtype=np.float64)
        for column in range(columns):
            did[column] = sum_s[begin + column]
        for row in range(begin + columns, end):
            did[columns] += sum_s[row]
        first_present = present_first[comparison]
        members = present_first[comparison + 1] - first_present
        if members * width > len(usual):
            usual = np.empty(2 * members * width, dtype=np.float64)
        for at in range(members * width):
            usual[at] = 0.0
        _fill(
            usual, low, high, sum_location, sum_target, sum_s, culprit[comparison],
            present_location[first_present : first_present + members], sum_target[begin : begin + columns], wait_base,
        )  # fmt: skip
        median = np.zeros(width, dtype=np.float64)
        if members >= 2:
            for column in range(width):
                median[column] = _median(usual, column, width, members)
        noise = np.zeros(width, dtype=np.float64)
        for column in range(columns):
            if sum_target[begin + column] < transfer:  # calls are timed, not sampled
                noise[column] = _sampling_noise(did[column], count[comparison], period_s)
        mean = np.zeros(width, dtype=np.float64)
        _mean_of_waiters(usual, mean, width, members, present_waits, first_present)
        excess = np.empty(width, dtype=np.float64)
        for group in range(group_first[comparison], group_first[comparison + 1]):
            wait_s = group_wait_s[group] / group_waiters[group]
            if group_waiters[group] > 1:
                mine = mean
            else:
                place = 0
                while place < members - 1 and present_location[first_present + place] < group_waiter[group]:
                    place += 1
                mine = usual[place * width : (place + 1) * width]
            total = _excess(excess, did, mine, median, noise, explained * wait_s)
            whole = total if total >= explained * wait_s else max(wait_s, total)
            if used + end - begin + 1 > capacity:
                size = 2 * capacity + end - begin + 1
                out_group = grown(out_group, size)
                out_target = grown(out_target, size)
                out_share = grown(out_share, size)
                capacity = size
            told = 0.0
            for column in range(columns):
                if excess[column] > 0.0:
                    out_group[used], out_target[used] = group, sum_target[begin + column]
                    out_share[used] = excess[column] / whole
                    told += out_share[used]
                    used += 1
            if excess[columns] > 0.0:
                part = excess[columns] / whole
                told += part
                for row in range(begin + columns, end):
                    out_group[used], out_target[used] = group, sum_target[row]
                    out_share[used] = part * sum_s[row] / did[columns]
                    used += 1
            if total < explained * wait_s and told < 1.0:
                out_group[used], out_target[used] = group, unresolved + vertex[comparison]
                out_share[used] = 1.0 - told
                used += 1
    return out_group[:used].copy(), out_target[:used].copy(), out_share[:used].copy()


@numba.njit(cache=True)
def _fill(usual, low, high, location, target, seconds, culprit, present, columns, wait_base):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What the members did in the culprit's activities, and waited, as rows of ``usual``."""
    width = len(columns) + 1
    member = 0
    column = 0
    last = -1
    for row in range(low, high):
        here = location[row]
        if here == culprit:
            continue
        if here != last:
            while present[member] < here:
                member += 1
            last = here
            column = 0
        what = target[row]
        if what >= wait_base:
            usual[member * width + width - 1] += seconds[row]
            continue
        while column < len(columns) and columns[column] < what:
            column += 1
        if column < len(columns) and columns[column] == what:
            usual[member * width + column] += seconds[row]


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _mean_of_waiters(usual, mean, width, members, waits, first):  # type: ignore[no-untyped-def]  # pragma: no cover
    waiters = 0
    for member in range(members):
        if waits[first + member]:
            waiters += 1
            for column in range(width):
                mean[column] += usual[member * width + column]
    for column in range(width if waiters else 0):
        mean[column] /= waiters


@numba.njit(cache=True)
def _excess(excess, did, mine, median, noise, wanted):  # type: ignore[no-untyped-def]  # pragma: no cover
    """What the culprit did more of than the waiter and than is ordinary; where that explains too little of the wait,
    than the waiter alone; then without regard to sampling noise. The last that is tried stands. Returns its sum."""
    total = 0.0
    for attempt in range(4):
        total = 0.0
        for column in range(len(did)):
            reference = mine[column] if attempt % 2 else max(mine[column], median[column])
            floor = noise[column] if attempt < 2 else 0.0
            more = did[column] - reference
            excess[column] = more if more > 0.0 and more > floor else 0.0
            total += excess[column]
        if total >= wanted:
            break
    return total


@numba.njit(cache=True)
def _sampling_noise(seconds, count, period_s):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Two standard deviations of the difference of two sampled sums of ``count`` stretches.

    A visit of any length is measured to within one period at random, so its variance is period^2 / 6, and less for
    visits much shorter than a period.
    """
    variance = min(count * period_s**2 / 6.0, seconds * period_s)
    return 2.0 * np.sqrt(2.0 * variance)
