"""Where the time of every rank went; of many ranks, of neighbours together and of those that matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.time_split import split_by_rank
from scalana.detectors.when.steady import STEADY
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.document.pictures import BarRow, Bars
from scalana.report.document.sections import Section
from scalana.report.topics import time

MOST_ROWS = 48
"""Ranks that are shown one by one; of more, neighbours are put together."""
_MOST_NAMED = 12
"""Ranks of findings that are shown by themselves among bins."""


def sections(analysis: Analysis) -> Sequence[Section]:
    """A bar for every host, where there are several, and one for every rank, or bin of ranks."""
    run = analysis.ppg.run
    if run.ranks < 2 or not len(analysis.ppg.timeline.locations):
        return []
    split = _in_steps(analysis)
    of = "Seconds in the steps" if split is not None else "Seconds of the whole run"
    if split is None:
        split = split_by_rank(analysis.ppg.timeline, analysis.waits, run.ranks, run.seconds)
    # What drifts from rank to rank is of no rank in particular.
    few = [finding.ranks for finding in analysis.findings if len(finding.ranks) <= _MOST_NAMED]
    named = list(dict.fromkeys(rank for some in few for rank in sorted(some)))
    bins = binned(run.ranks, named[:_MOST_NAMED])
    rows = []
    for group in bins:
        label = run.names.one(group[0]) if len(group) == 1 else run.names.many(group)
        mean = split[:, group].mean(axis=1).tolist()
        is_marked = len(group) == 1 and group[0] in named
        rows.append(BarRow(label, tuple(mean), f"waiting {names.seconds(mean[2])}", is_marked))
    text = f"{of}, by activity of the main thread of each rank."
    if named:
        text += " ▸ marks ranks that a finding names."
    if len(bins) < run.ranks:
        text += f" Of {run.ranks} ranks, neighbours share a bar (their mean), apart from ranks that findings name."
    most = float(split.sum(axis=0).max())
    drawn = [Bars(text, tuple(time.PARTS.values()), most, tuple(rows))]
    if by_host := host_rows(run, split):
        words = f"{of}, of the mean rank of each host."
        drawn.insert(0, Bars(words, tuple(time.PARTS.values()), most, by_host))
    return [Section(time.NAME, time.HEADING, tuple((bars,) for bars in drawn), is_head=True)]


def host_rows(run: RunInfo, split: FloatArray) -> tuple[BarRow, ...]:
    """A bar for each host, the mean of its ranks; none where there are not several.

    Args:
        run: Has the hosts of its ranks.
        split: Seconds by activity and rank ``[activities, ranks]``.
    """
    hosts = list(dict.fromkeys(filter(None, run.host_of_rank)))
    plain = ProcessNames(run.names.role, run.names.number, run.names.of)
    rows = []
    for host in hosts if 1 < len(hosts) <= MOST_ROWS else ():
        ranks = [rank for rank, own in enumerate(run.host_of_rank) if own == host]
        mean = split[:, ranks].mean(axis=1).tolist()
        rows.append(BarRow(f"{host} ({plain.many(ranks)})", tuple(mean), f"waiting {names.seconds(mean[2])}", False))
    return tuple(rows)


def _in_steps(analysis: Analysis) -> FloatArray | None:
    """The same of the steady state alone; None without one, and where other threads than the main ones communicate,
    as only the sum over threads is known then."""
    steady, metrics = analysis.section(STEADY), analysis.ppg.metrics
    if steady is None or not analysis.ppg.timeline.locations.is_main.all():
        return None
    time_s, stall, core, comm, wait = (
        np.maximum((metrics[name] - steady.outside[name]).sum(axis=0), 0.0)
        for name in ("time_s", "stall_s", "core_wait_s", "comm_s", "wait_s")
    )
    wait = np.minimum(wait, comm)
    work = np.maximum(time_s - comm - stall - core, 0.0)
    return np.stack((work, stall + core, wait, comm - wait, np.zeros_like(time_s)))


def binned(ranks: int, apart: Collection[int]) -> list[list[int]]:
    """All ranks, each in one group: alone where there are few, else neighbours together but for those ``apart``.

    >>> binned(3, [])
    [[0], [1], [2]]
    >>> [group[0] for group in binned(96, [5])]
    [0, 4, 5, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92]
    """
    if ranks <= MOST_ROWS:
        return [[rank] for rank in range(ranks)]
    groups: list[list[int]] = []
    size = -(-ranks // (MOST_ROWS // 2))
    for rank in range(ranks):
        begins = rank % size == 0 or rank in apart or rank - 1 in apart
        if begins:
            groups.append([])
        groups[-1].append(rank)
    return groups
