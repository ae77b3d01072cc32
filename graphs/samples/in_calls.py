"""What threads waited for a core while calls of their rank were under way: who calls, and who moves the data."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from scalana.graphs.arrays.columns import to_seconds
from scalana.graphs.arrays.intervals import length_until, lengths_before
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.timeline import Calls

_MOVES_DATA = re.compile(r"gloo|nccl", re.IGNORECASE)
"""In names of threads that libraries start to move data."""
_NATIVE = "[native]"
"""The file of a thread that has no Python frames: its function is the name of the thread."""


def that_move_data(tree: CallTree) -> BoolArray:
    """Paths of threads that move data for calls ``[paths]``."""
    of_code = [file.endswith(_NATIVE) and _MOVES_DATA.search(code.name) is not None for code, file in tree.codes]
    return np.array(of_code, np.bool_)[tree.code]


def core_waits_in_calls(
    samples: Samples, threads: Threads, moves: BoolArray, calls: Calls
) -> Iterator[tuple[slice, FloatArray]]:
    """Calls that follow each other at one location, and the seconds that the calling thread, or a thread that moves
    its data, waited for a core in each, where any did.

    A thread waits for a core right before it is seen to run. Threads that move data are seen seldom, and work in calls
    alone: what they waited between two looks was in the calls meanwhile.

    Args:
        samples: sorted by (thread, time), of some ranks.
        threads: of these; ``location`` counts in the run.
        moves: as :func:`that_move_data` gives it ``[paths]``.
        calls: of the run.
    """
    main = {int(threads.rank[row]): int(threads.location[row]) for row in np.flatnonzero(threads.is_main)[::-1]}
    found: dict[int, FloatArray] = {}
    for thread in np.unique(samples.thread[samples.core_wait_ns > 0]).tolist():
        begin, end = np.searchsorted(samples.thread, [thread, thread + 1]).tolist()
        seen, location = slice(begin, end), int(threads.location[thread])
        calling = location >= 0
        if not calling and bool(moves[samples.path[begin]]):
            location = main.get(int(threads.rank[thread]), -1)
        if location < 0:
            continue
        at = slice(int(calls.first[location]), int(calls.first[location + 1]))
        waited_s = (_of_caller if calling else _of_mover)(samples, seen, calls.enter_s[at], calls.exit_s[at])
        found[location] = found.get(location, 0.0) + waited_s
    for location, waited_s in found.items():
        at = slice(int(calls.first[location]), int(calls.first[location + 1]))
        yield at, np.minimum(waited_s, calls.exit_s[at] - calls.enter_s[at])


def _of_caller(samples: Samples, seen: slice, enter_s: FloatArray, exit_s: FloatArray) -> FloatArray:
    """What a thread waited in its own calls ``[calls]``."""
    time_s, wait_s = to_seconds(samples.time_ns[seen]), to_seconds(samples.core_wait_ns[seen])
    before_s = np.append(-np.inf, time_s[:-1])
    since_s = np.maximum(before_s, time_s - to_seconds(samples.cpu_ns[seen]) - wait_s)
    return _within(since_s, time_s, wait_s, enter_s, exit_s)


def _of_mover(samples: Samples, seen: slice, enter_s: FloatArray, exit_s: FloatArray) -> FloatArray:
    """What a thread that moves data waited in the calls of its rank ``[calls]``."""
    time_s = to_seconds(samples.time_ns[seen])
    before_s = lengths_before(np.stack((enter_s, exit_s), axis=1))
    called_s = length_until(time_s, enter_s, exit_s, before_s)  # how long calls were under way until then
    since_s = np.append(called_s[:1], called_s[:-1])
    wait_s = np.minimum(to_seconds(samples.core_wait_ns[seen]), called_s - since_s)
    return _within(since_s, called_s, wait_s, before_s, before_s + (exit_s - enter_s))


def _within(
    since_s: FloatArray, until_s: FloatArray, amount_s: FloatArray, begin_s: FloatArray, end_s: FloatArray
) -> FloatArray:
    """What of amounts that are spread evenly over stretches of time lies in each of some windows ``[windows]``. The
    stretches follow each other ``[stretches]``."""
    total_s = np.cumsum(amount_s)
    times, sums = (np.stack(pair, axis=1).ravel() for pair in ((since_s, until_s), (total_s - amount_s, total_s)))
    return np.asarray(np.interp(end_s, times, sums) - np.interp(begin_s, times, sums))
