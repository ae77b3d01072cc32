"""What speaks for a finding: a module a topic, and :class:`Evidence`, which has them all."""

from scalana.detectors.evidence.at_place import (
    Alternative,
    CodePlace,
    CpuSplit,
    HiddenDelay,
    Leaf,
    LibraryPlace,
    OtherPass,
    PlaceTime,
    SlowedLine,
    Turn,
)
from scalana.detectors.evidence.data_sources import OtherLoading, SlowSource
from scalana.detectors.evidence.device_time import DeviceStep, DeviceTime
from scalana.detectors.evidence.evidence import Evidence
from scalana.detectors.evidence.expert_loads import ExpertWaits, OtherLoads
from scalana.detectors.evidence.flat import Flat
from scalana.detectors.evidence.lengths import Redistribution, UnevenLengths
from scalana.detectors.evidence.loop_wait import AtLine, LoopWait
from scalana.detectors.evidence.masks import UnevenMask
from scalana.detectors.evidence.module_code import (
    CompiledCode,
    FusedOperator,
    InnerModule,
    ModuleTime,
    ModuleWorkCompared,
    OwnOperator,
)
from scalana.detectors.evidence.open_calls import Deadlock, OpenOperation
from scalana.detectors.evidence.pipeline_time import PipelineTime
from scalana.detectors.evidence.pool_tasks import LargeTasks, PoolOrder, TaskTail, TaskTimes
from scalana.detectors.evidence.preparation import (
    Collecting,
    Compiling,
    InputBound,
    Loading,
    OneAtATime,
    Serialising,
    StartedBy,
    WorkerBound,
    WorkerStarts,
)
from scalana.detectors.evidence.run_parts import InSteps, LostByPhase, OverSteps
from scalana.detectors.evidence.size_costs import ScalingForecast, SizeCosts
from scalana.detectors.evidence.sizes import UnevenSizes
from scalana.detectors.evidence.slow_rank import SlowRank
from scalana.detectors.evidence.step_limits import (
    CHILDREN,
    PYTHON_THREADS,
    THREADS,
    THREADS_OF_CHILDREN,
    BusyCores,
    LinkTime,
    SparedCalls,
    StepLimit,
    Transfers,
)
from scalana.detectors.evidence.thread_plan import ThreadPlan

__all__ = [
    "CHILDREN",
    "PYTHON_THREADS",
    "THREADS",
    "THREADS_OF_CHILDREN",
    "BusyCores",
    "StepLimit",
    "Transfers",
    "Alternative",
    "AtLine",
    "CodePlace",
    "Collecting",
    "CompiledCode",
    "Compiling",
    "CpuSplit",
    "Deadlock",
    "DeviceStep",
    "DeviceStep",
    "DeviceTime",
    "Evidence",
    "ExpertWaits",
    "Flat",
    "FusedOperator",
    "HiddenDelay",
    "InSteps",
    "InnerModule",
    "InputBound",
    "LargeTasks",
    "Leaf",
    "LibraryPlace",
    "Loading",
    "LinkTime",
    "LoopWait",
    "LostByPhase",
    "ModuleTime",
    "ModuleWorkCompared",
    "OpenOperation",
    "OtherPass",
    "OverSteps",
    "OtherLoading",
    "OtherLoads",
    "OwnOperator",
    "OneAtATime",
    "PipelineTime",
    "PlaceTime",
    "PoolOrder",
    "Redistribution",
    "ScalingForecast",
    "Serialising",
    "SizeCosts",
    "SlowSource",
    "SlowedLine",
    "SlowRank",
    "SparedCalls",
    "StartedBy",
    "TaskTail",
    "TaskTimes",
    "ThreadPlan",
    "Turn",
    "UnevenLengths",
    "UnevenMask",
    "UnevenSizes",
    "WorkerBound",
    "WorkerStarts",
]
