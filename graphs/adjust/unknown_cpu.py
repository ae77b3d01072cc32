"""CPU time that nobody read, of imported traces: there a process is taken to work wherever it does not communicate.

That is one assumption, told once; nothing else treats an unknown CPU time as none, which would be a stall.
"""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.columns import wide
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.calls.located import Located
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.folder.records import Samples


def without_cpu(data: Gathered) -> BoolArray:
    """Which processes have a sample or a call of which the CPU time is not known ``[processes]``; calls that were under
    way when the record stopped don't count, as of these it never is."""
    result = np.zeros(len(data.rank), np.bool_)
    closed = slice(0, int(data.rows["events"].sum()))
    result[data.threads.process[data.samples.thread[data.samples.cpu_ns < 0]]] = True
    result[data.events.process[closed][data.events.cpu_enter_ns[closed] < 0]] = True
    return result


def assume_running(samples: Samples) -> None:
    """Let every sample without a CPU time have run since the one before of its thread. ``samples`` are sorted by thread
    and time, and changed."""
    rows = np.flatnonzero(samples.cpu_ns < 0)
    if not len(rows):
        return
    before = np.maximum(rows - 1, 0)
    follows = (rows > 0) & (samples.thread[before] == samples.thread[rows])
    cpu, wait = wide(samples.cpu_ns), wide(samples.core_wait_ns)
    cpu[rows] = np.where(follows, samples.time_ns[rows] - samples.time_ns[before], 0)
    wait[rows] = np.maximum(wait[rows], 0)
    samples.cpu_ns, samples.core_wait_ns = cpu, wait


def assume_work(bursts: Bursts, located: Located, unknown: BoolArray) -> None:
    """Let the bursts of some processes be all work; ``unknown`` says which ``[processes]``."""
    threads = located.threads
    known = np.flatnonzero(threads.location >= 0)
    process: IntArray = np.zeros(len(located.rank), np.int64)
    process[threads.location[known]] = threads.process[known]
    bursts.cpu_ns = np.where(unknown[process[bursts.location]], bursts.end_ns - bursts.start_ns, bursts.cpu_ns)


def told(unknown: BoolArray) -> list[str]:
    """What to say of it, if there is anything."""
    if not unknown.any():
        return []
    whose = "of any process" if unknown.all() else f"of {int(unknown.sum())} of {len(unknown)} processes"
    return [f"the CPU time {whose} is unknown: all time outside communication counts as work, none as stalls"]
