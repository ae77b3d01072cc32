"""Where the time of every rank went: a bar each; of many ranks, bars of neighbours and of those that matter."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from scalana.detectors.delays.time_split import split_by_rank
from scalana.report import names
from scalana.report.html.bars import PALETTE, Part, bar
from scalana.report.html.markup import Markup, element, lines
from scalana.report.overview import PARTS

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.graphs.arrays.types import FloatArray

MOST_ROWS = 48
"""Ranks that are shown one by one; of more, neighbours are put together."""
_MOST_NAMED = 12
"""Ranks of findings that are shown by themselves among bins."""


def parts_of(seconds: list[float]) -> list[Part]:
    """Seconds in the order of :data:`PARTS`, as parts of a bar."""
    return [Part(name, value, style) for name, value, style in zip(PARTS.values(), seconds, PALETTE, strict=False)]


def section(analysis: Analysis) -> Markup | None:
    """A bar for every rank, or bin of ranks."""
    run = analysis.ppg.run
    if run.ranks < 2 or not len(analysis.ppg.timeline.locations):
        return None
    split = _in_steps(analysis)
    of = "Seconds in the steps" if split is not None else "Seconds of the whole run"
    if split is None:
        split = split_by_rank(analysis.ppg.timeline, analysis.waits, run.ranks, run.seconds)
    # What drifts from rank to rank is of no rank in particular.
    few = [finding.ranks for finding in analysis.findings if len(finding.ranks) <= _MOST_NAMED]
    guilty = list(dict.fromkeys(rank for named in few for rank in sorted(named)))
    late, rows = set(guilty), []
    whole = float(split.sum(axis=0).max())
    bins = binned(run.ranks, guilty[:_MOST_NAMED])
    for ranks in bins:
        label = run.names.one(ranks[0]) if len(ranks) == 1 else run.names.many(ranks)
        mean = split[:, ranks].mean(axis=1).tolist()
        marked = not late.isdisjoint(ranks) and len(ranks) == 1
        row = (
            element("span", f"{'▸ ' if marked else ''}{label}", class_="who late" if marked else "who"),
            bar(parts_of(mean), whole, label),
            element("span", f"waiting {names.seconds(mean[2])}", class_="num"),
        )
        rows.append(element("div", *row, class_="rank"))
    text = f"{of}, by what the main thread of a rank did."
    if late:
        text += " ▸ marks ranks that a finding names."
    if len(bins) < run.ranks:
        text += f" Of {run.ranks} ranks, neighbours are put together (their mean); the ranks of findings are apart."
    return lines(element("p", text, class_="soft"), element("div", lines(*rows), class_="ranks"))


def _in_steps(analysis: Analysis) -> FloatArray | None:
    """The same of the steady state alone; None without one, and where other threads than the main ones communicate,
    as only the sum over threads is known then."""
    steady, metrics = analysis.steady, analysis.ppg.metrics
    if steady is None or not analysis.ppg.timeline.locations.is_main.all():
        return None
    time, stall, core, comm, wait = (
        np.maximum((metrics[name] - steady.outside[name]).sum(axis=0), 0.0)
        for name in ("time_s", "stall_s", "core_wait_s", "comm_s", "wait_s")
    )
    wait = np.minimum(wait, comm)
    work = np.maximum(time - comm - stall - core, 0.0)
    return np.stack((work, stall + core, wait, comm - wait, np.zeros_like(time)))


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
