"""Where the rank-seconds of a run went; the parts add up to ranks times the job's seconds."""

from __future__ import annotations

import numpy as np

from scalana.detectors.findings import TimeSplit
from scalana.detectors.waits import WaitStates
from scalana.graphs.timeline import Timeline


def split_time(timeline: Timeline, waits: WaitStates, ranks: int, seconds: float) -> TimeSplit:
    """Divide ``ranks * seconds`` by what the main thread of every rank did.

    Time outside any record (a launcher that starts, a rank that has ended) is ``other_s``.
    """
    calls, own, locations = timeline.calls, timeline.own, timeline.locations
    if not len(locations):
        return TimeSplit(other_s=ranks * seconds)
    gap_location = np.concatenate([calls.location, np.arange(len(locations))])
    main_work = locations.is_main[gap_location[own.gap]]
    work = float(np.minimum(own.cpu_s, own.seconds)[main_work].sum())
    outside = float(own.seconds[main_work].sum())
    main_calls = locations.is_main[calls.location]
    wait = float(waits.all_s(timeline)[main_calls].sum())
    inside = float((calls.exit_s - calls.enter_s)[main_calls].sum())
    if timeline.unwritten is not None:
        inside += float(timeline.unwritten.gap_s[locations.is_main[gap_location]].sum())
        wait = min(wait, inside)  # it is estimated
    return TimeSplit(
        work_s=work,
        stall_s=outside - work,
        wait_s=wait,
        transfer_s=inside - wait,
        other_s=ranks * seconds - outside - inside,
    )
