"""The efficiencies of a run: in its steady state, in each step, in its regions and phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.detectors.efficiency.courses import Courses, Windows
from scalana.detectors.efficiency.over_steps import OverSteps, over_steps
from scalana.detectors.efficiency.pop_factors import Efficiencies, Totals
from scalana.detectors.section_name import SectionName
from scalana.detectors.when.region_times import RegionTime
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME, SETUP

_END = BY_NAME["finalize"].code
"""The call with which it ends."""


@dataclass(frozen=True, slots=True)
class RunEfficiency:
    """The efficiencies of a run."""

    whole: Efficiencies
    """Of the steady state; where there are no steps, of the run."""
    of_steps: bool
    """Whether that is the steady state."""
    elapsed_s: float
    """What that took, on the rank that was in it longest."""
    run: Efficiencies
    """From when communication is set up to when it ends."""
    outside_s: float
    """Rank-seconds outside communication in the run."""
    number: IntArray
    """Of steps ``[steps]``."""
    steps: tuple[Efficiencies | None, ...]
    """Of each; None where it is not known ``[steps]``."""
    warm_up: int
    """So many of the first steps are start-up."""
    over_steps: OverSteps
    """Where it falls in the steady state."""
    regions: tuple[tuple[tuple[str, ...], Efficiencies], ...]
    """Of regions that the user named, by their nested names."""
    phases: tuple[tuple[tuple[str, ...], Efficiencies], ...]
    """Of phases, likewise."""


def run_efficiency(
    courses: Courses,
    timeline: Timeline,
    steps: Steps | None,
    regions: Sequence[RegionTime] = (),
    phases: Sequence[RegionTime] = (),
) -> RunEfficiency | None:
    """Divide the time of all ranks; None where nothing was recorded outside communication."""
    of_run, *rest = courses.totals(
        Windows(between_setup_and_end(timeline)),
        *([Windows(steps.steady_periods()), Windows(steps.periods(), each_row=True)] if steps is not None else []),
        *(Windows(region.periods) for region in (*regions, *phases)),
    )
    of_whole, by_step = (rest.pop(0), rest.pop(0)) if steps is not None else (of_run, None)
    (whole,), (run,) = of_whole.efficiencies(), of_run.efficiencies()
    if whole is None or run is None:
        return None
    each_step: list[Efficiencies | None] = []
    number, warm_up = np.zeros(0, np.int64), 0
    if steps is not None and by_step is not None and not steps.ahead:  # of hosts that launch ahead a step says little
        each_step, number, warm_up = by_step.efficiencies(), steps.number, steps.warm_up
    return RunEfficiency(
        whole,
        steps is not None,
        float(of_whole.longest_s[0]),
        run,
        float(of_run.outside_s[0]),
        number,
        tuple(each_step),
        warm_up,
        over_steps(number[warm_up:], each_step[warm_up:]),
        _by_path(regions, rest[: len(regions)]),
        _by_path(phases, rest[len(regions) :]),
    )


def _by_path(
    regions: Sequence[RegionTime], totals: Sequence[Totals]
) -> tuple[tuple[tuple[str, ...], Efficiencies], ...]:
    """Those of some regions, by their nested names."""
    found = ((region.path, one.efficiencies()[0]) for region, one in zip(regions, totals, strict=True))
    return tuple((path, one) for path, one in found if one is not None)


def between_setup_and_end(timeline: Timeline) -> Periods:
    """Of every rank its record, from where the calls end with which its main thread sets up communication, to where it
    ends communication."""
    calls, locations = timeline.calls, timeline.locations
    main = np.flatnonzero(locations.is_main)
    start_s, end_s = locations.start_s.copy(), locations.end_s.copy()
    works = ~np.isin(calls.operation, SETUP)
    for location in main.tolist():
        first, last = int(calls.first[location]), int(calls.first[location + 1])
        if not works[first:last].any():
            continue
        setup = first + int(np.argmax(works[first:last]))
        if setup > first:
            start_s[location] = calls.exit_s[setup - 1]
        if calls.operation[last - 1] == _END:
            end_s[location] = calls.enter_s[last - 1]
    return Periods.joined(locations.rank[main], start_s[main], end_s[main], timeline.ranks)


EFFICIENCY: SectionName[RunEfficiency] = SectionName("efficiency")
"""Where anything was recorded outside communication."""
