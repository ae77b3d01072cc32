"""What several detectors need to know of a run, worked out once, and only if one asks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scalana.detectors.delays.blame import BlameTable, blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.choices import find_choices
from scalana.detectors.delays.contexts import same_work
from scalana.detectors.delays.wait_states import (
    Dependencies,
    WaitStates,
    find_dependencies,
    find_waits,
    unwritten_waits,
)
from scalana.detectors.efficiency.courses import Courses
from scalana.detectors.efficiency.ideal_network import ideal_network
from scalana.detectors.efficiency.run_efficiency import RunEfficiency, run_efficiency
from scalana.detectors.efficiency.stretch import Stretch
from scalana.detectors.finding import Finding
from scalana.detectors.noise.task_farms import TaskFarm, find_task_farms
from scalana.detectors.sources.data_waits import DataWaits, data_waits
from scalana.detectors.sources.mixture import Mixture, mixture_of
from scalana.detectors.streams.lanes import Devices, devices_of
from scalana.detectors.whatif.call_pools import CallPool, find_call_pools
from scalana.detectors.whatif.replay import Replay, prepare
from scalana.detectors.whatif.slow_links import SlowLink, find_slow_link
from scalana.detectors.when.burst_work import BurstWork
from scalana.detectors.when.module_times import ModuleTimes, module_times
from scalana.detectors.when.module_work import ModuleWork, module_work
from scalana.detectors.when.rank_work import RankWork
from scalana.detectors.when.region_times import Named, RegionTime, region_times
from scalana.detectors.when.roofline import Ceilings
from scalana.detectors.when.steady import Steady, steady_state
from scalana.detectors.when.step_marks import steps_of
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.actions import Pipeline, find_pipelines
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import MESSAGES, TAKING


class Need(enum.Enum):
    """What a run must have recorded for a detector to make sense of it."""

    CALLS = "communication calls"
    OPEN_CALLS = "calls that never returned"
    STEPS = "steps"
    ACTIONS = "pipeline actions"
    STAGES = "pipeline stages"
    """Pipeline actions, or messages that may be those of a pipeline."""
    PHASES = "reinforcement learning phases"
    ROLES = "roles"
    """Reinforcement learning phases, or calls that processes take from others."""
    DEVICE = "work on a device"


def _no_models(ppg: PPG) -> PPG | None:
    del ppg
    return None


def _no_ceilings(ppg: PPG) -> Mapping[int, Ceilings]:
    del ppg
    return {}


def _no_findings(ppg: PPG) -> list[Finding]:
    del ppg
    return []


@dataclass(frozen=True, slots=True)
class Outside:
    """Where facts are from that do not follow from the record alone."""

    models: Callable[[PPG], PPG | None] = _no_models
    """Gives a graph with the models of its run in it; None where there are none."""
    ceilings: Callable[[PPG], Mapping[int, Ceilings]] = _no_ceilings
    """Gives what the machines of a run can do, by rank."""
    findings_of: Callable[[PPG], list[Finding]] = _no_findings
    """Gives what is found in a part of a run, analysed by itself."""
    earlier_work: RankWork | None = None
    """What ranks worked in steps before those that are analysed, where these are the last of a run that goes on."""
    strict: bool = True
    """Whether the analysis ends where a part of it fails; else the rest of it is given, with a warning."""


class Facts:
    """One run, and what follows from its record alone."""

    def __init__(
        self, ppg: PPG, steps: Steps | None = None, outside: Outside | None = None, causes_only: bool = False
    ) -> None:
        """``steps`` are those of the run, if they are known already; ``outside`` gives what this room cannot know."""
        self.ppg = ppg
        self.causes_only = causes_only
        """Whether only the causes are wanted: nothing that is hidden behind them, no slow steps, no efficiencies."""
        self._steps = steps
        self._outside = outside if outside is not None else Outside()

    @property
    def strict(self) -> bool:
        """Whether the analysis ends where a part of it fails."""
        return self._outside.strict

    @property
    def earlier_work(self) -> RankWork | None:
        """What ranks worked in steps before those of this run, where it is the last part of one that goes on."""
        return self._outside.earlier_work

    @property
    def timeline(self) -> Timeline:
        """What every rank did."""
        return self.ppg.timeline

    @property
    def psg(self) -> PSG:
        """The structure of the program."""
        return self.ppg.psg

    @property
    def run(self) -> RunInfo:
        """What the run was."""
        return self.ppg.run

    def has(self, need: Need) -> bool:
        """Whether the run recorded something."""
        if need is Need.CALLS:
            return len(self.timeline.calls) > 0
        if need is Need.OPEN_CALLS:
            return bool(self.run.open_calls)
        if need is Need.STEPS:
            return len(self.timeline.steps) > 0
        if need is Need.ACTIONS:
            return bool(self.pipelines)
        if need is Need.STAGES:
            run = self.timeline.whole or self.timeline
            return bool(self.pipelines) or bool(np.isin(run.instances.operation, MESSAGES).any())
        if need is Need.DEVICE:
            return bool(self.ppg.spans.device_lanes().any())
        if need is Need.PHASES:
            return len(self.ppg.spans.rows("phase")) > 0
        if need is Need.ROLES:
            return self.has(Need.PHASES) or bool(np.isin(self.timeline.calls.operation, TAKING).any())
        return False

    @property
    def is_part(self) -> bool:
        """Whether this is a part of a run that is analysed by itself, such as a slow step."""
        return self._steps is None and self.timeline.whole is not None

    @cached_property
    def steps(self) -> Steps | None:
        """The steps of the run; None where it has none."""
        return self._steps if self._steps is not None else steps_of(self.ppg)

    @cached_property
    def first_steady(self) -> int:
        """Number of the first step of the steady state, 0 where none is known."""
        steps = self.steps
        return int(steps.number[steps.warm_up]) if steps is not None and steps.warm_up < len(steps) else 0

    @cached_property
    def steady_periods(self) -> Periods | None:
        """When ranks were in steps of the steady state; None where the run has none."""
        return self.steps.steady_periods() if self.steps is not None else None

    @cached_property
    def stretch(self) -> Stretch | None:
        """The stretch of the run whose limits are asked for; None where nothing was recorded."""
        return Stretch.of(self.timeline, self.steps)

    @cached_property
    def modelled(self) -> PPG:
        """The graph with the models of its run in it; the same one where there are none."""
        grown = self._outside.models(self.ppg)
        return grown if grown is not None else self.ppg

    @cached_property
    def steady(self) -> Steady | None:
        """The steady state, by the vertices of :attr:`modelled`; None where the run has no steps."""
        if self.steady_periods is None:
            return None
        ppg = self.modelled
        return steady_state(ppg.timeline, self.waits, self.steady_periods, len(ppg.psg))

    @cached_property
    def regions(self) -> list[RegionTime]:
        """The regions that the user named, longest first, those inside each behind it."""
        return region_times(Named.of(self.ppg.spans), self.timeline, self.waits)

    @cached_property
    def phases(self) -> list[RegionTime]:
        """The phases of ranks, likewise."""
        return region_times(Named.of(self.ppg.spans, "phase"), self.timeline, self.waits)

    @cached_property
    def module_work(self) -> ModuleWork | None:
        """What its modules computed; None where no operators were counted."""
        return module_work(self.ppg, self.waits, self.first_steady)

    @cached_property
    def ceilings(self) -> Mapping[int, Ceilings]:
        """What the machines of the run can do, by rank, where that was measured."""
        return self._outside.ceilings(self.ppg)

    def findings_of(self, part: PPG) -> list[Finding]:
        """What is found in a part of a run, analysed by itself."""
        return self._outside.findings_of(part)

    @cached_property
    def _edges(self) -> tuple[FloatArray, FloatArray]:
        """Begin and end of all bursts."""
        return gap_edges(self.timeline)

    def work_of(self, finding: Finding) -> BurstWork:
        """What is worked at the place of a finding of waiting between two calls."""
        return BurstWork.of(finding, self.blame, self.timeline, self._edges)

    def lasting_work_of(self, finding: Finding) -> BurstWork:
        """The same in the steady state alone, where most of the finding is lost in it."""
        return self.work_of(finding).where_lost(finding, self.steady_periods)

    @cached_property
    def modules(self) -> ModuleTimes | None:
        """What the modules of its models took; None where none were timed."""
        return module_times(self.ppg, self.waits, self.first_steady)

    @cached_property
    def data_waits(self) -> DataWaits | None:
        """What its ranks wait for data in the steady state; None where nobody does."""
        return data_waits(self.ppg.spans, self.steps, self.timeline.ranks) if self.steps is not None else None

    @cached_property
    def mixture(self) -> Mixture | None:
        """The batches of a mixture of data that its ranks got; None where they got none."""
        return mixture_of(self.ppg, self.steps, self.waits) if self.steps is not None else None

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """What the pipelines of the run did."""
        return find_pipelines(self.ppg.spans)

    @cached_property
    def dependencies(self) -> Dependencies:
        """What every call waits for."""
        return find_dependencies(self.timeline)

    @cached_property
    def waits(self) -> WaitStates:
        """The wait states of all calls."""
        return find_waits(self.timeline, self.dependencies)

    @cached_property
    def wait_s(self) -> float:
        """All waiting, in rank-seconds."""
        return float(self.waits.all_s(self.timeline).sum())

    @cached_property
    def replay(self) -> Replay:
        """The run, ready to be replayed with changes."""
        return prepare(self.timeline, self.dependencies, unwritten_waits(self.timeline, self.waits))

    @cached_property
    def slow_link(self) -> SlowLink | None:
        """The link between hosts that is slower than others; None where there is none."""
        return find_slow_link(self.timeline, self.waits, self.run.host_of_rank, self.run.traffic)

    @cached_property
    def devices(self) -> Devices:
        """What devices and their hosts did."""
        return devices_of(self.ppg.spans, self.timeline, self.ppg.host, self.psg)

    @cached_property
    def efficiency(self) -> RunEfficiency | None:
        """The factors of the POP model; None where nothing was recorded outside communication."""
        courses = Courses(self.timeline, ideal_network(self.replay))
        return run_efficiency(courses, self.timeline, self.steps, self.regions, self.phases)

    @cached_property
    def blame(self) -> BlameTable:
        """Delay costs: all waiting, split over those whose work made it."""
        choice = find_choices(self.timeline, self.psg)
        return blame(self.timeline, self.waits, same_work(self.timeline, self.psg), choice)

    @property
    def blamed(self) -> BlamedRun:
        """The run with what its waiting is blamed on."""
        return BlamedRun(self.timeline, self.psg, self.blame)

    @cached_property
    def task_farms(self) -> list[TaskFarm]:
        """Ranks that are handed tasks by another one."""
        return find_task_farms(self.timeline, self.call_pools, self.run.names)

    @cached_property
    def task_pools(self) -> list[CallPool]:
        """Processes of which whichever is free takes the next task, be it a call, a message or a number."""
        orders = [farm.order for farm in self.task_farms if farm.pool is None and farm.order is not None]
        return [*self.call_pools, *orders]

    @cached_property
    def call_pools(self) -> list[CallPool]:
        """Processes of which whichever is free takes the next call."""
        return find_call_pools(self.timeline)
