"""Where the rank-seconds of a run went; the parts add up to ranks times the job's seconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scalana.detectors.account import TimeSplit
from scalana.detectors.delays.wait_states import WaitStates
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.timeline import Timeline


def split_time(timeline: Timeline, waits: WaitStates, ranks: int, seconds: float) -> TimeSplit:
    """Divide ``ranks * seconds`` by what the main thread of every rank did.

    Time outside any record (a launcher that starts, a rank that has ended) is ``other_s``.
    """
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    if not len(locations):
        return TimeSplit(other_s=ranks * seconds)
    main_work: npt.NDArray[np.bool_] | slice = slice(None)
    main_calls, main_bursts = main_work, main_work
    if not locations.is_main.all():
        burst_location = burst_locations(timeline)
        main_work, main_calls = locations.is_main[burst_location[own.burst]], locations.is_main[calls.location]
        main_bursts = locations.is_main[burst_location]
    work = float(np.minimum(own.cpu_s, own.seconds)[main_work].sum())
    outside = float(own.seconds[main_work].sum())
    wait = float(waits.all_s(timeline)[main_calls].sum())
    inside = float((calls.exit_s - calls.enter_s)[main_calls].sum())
    if timeline.unwritten is not None:
        inside += float(timeline.unwritten.burst_s[main_bursts].sum())
        wait = min(wait, inside)  # it is estimated
    return TimeSplit(
        work_s=work,
        stall_s=outside - work,
        wait_s=wait,
        transfer_s=inside - wait,
        other_s=ranks * seconds - outside - inside,
    )


def split_by_rank(timeline: Timeline, waits: WaitStates, ranks: int, seconds: float) -> FloatArray:
    """The same of every rank, in the order of the fields of :class:`TimeSplit` ``[5, ranks]``."""
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    weight = locations.is_main.astype(np.float64)

    def of_rank(location: IntArray, amount: FloatArray) -> FloatArray:
        of_location = np.bincount(location, amount, len(locations)) * weight
        return np.asarray(np.bincount(locations.rank, of_location, ranks), np.float64)

    burst_location = burst_locations(timeline)
    of_work = burst_location[own.burst]
    work = of_rank(of_work, np.minimum(own.cpu_s, own.seconds))
    out = of_rank(of_work, own.seconds)
    wait = of_rank(calls.location, waits.all_s(timeline))
    inside = of_rank(calls.location, calls.exit_s - calls.enter_s)
    if timeline.unwritten is not None:
        inside += of_rank(burst_location, timeline.unwritten.burst_s)
        wait = np.minimum(wait, inside)  # it is estimated
    return np.stack((work, out - work, wait, inside - wait, seconds - out - inside))
