"""All detectors, those that know more of what they speak of first, and all annotators."""

from __future__ import annotations

from scalana.detectors.annotate.compiled import InCompiledCode
from scalana.detectors.annotate.compiling import InCompiling
from scalana.detectors.annotate.efficiencies import PopFactors
from scalana.detectors.annotate.exchanging_heads import ExchangingHeads
from scalana.detectors.annotate.loading import LoadingData
from scalana.detectors.annotate.modules import InModels
from scalana.detectors.annotate.operators import CallingOperators
from scalana.detectors.annotate.regions import Regions
from scalana.detectors.annotate.replayed import ReplayError
from scalana.detectors.annotate.serialising import SerialisingObjects
from scalana.detectors.annotate.servers import WaitingForServers
from scalana.detectors.annotate.steps import InWhichSteps
from scalana.detectors.annotate.trend import TrendOfSeries
from scalana.detectors.annotator import Annotator
from scalana.detectors.detector import Detector
from scalana.detectors.device.detector import DeviceWaits
from scalana.detectors.experts.detector import ExpertLoads
from scalana.detectors.hang.detector import Hangs
from scalana.detectors.late_ranks.detector import LateRanks
from scalana.detectors.limits.detector import Limits
from scalana.detectors.limits.limits_on_devices import LimitsOnDevices
from scalana.detectors.pipeline.detector import Pipelines
from scalana.detectors.rl.detector import RLStragglers
from scalana.detectors.serving.detector import ServingThreads
from scalana.detectors.slow_workers.detector import SlowWorkers

DETECTORS: tuple[Detector, ...] = (
    Hangs(),
    Pipelines(),
    LimitsOnDevices(),
    DeviceWaits(),
    RLStragglers(),
    SlowWorkers(),
    ServingThreads(),
    ExpertLoads(),
    Limits(),
    LateRanks(),
)
"""Where two speak of the same seconds, the earlier one has the word (:mod:`scalana.detectors.reconcile`)."""

ANNOTATORS: tuple[Annotator, ...] = (
    Regions(),
    LoadingData(),
    SerialisingObjects(),
    TrendOfSeries(),
    InModels(),
    InWhichSteps(),
    InCompiling(),
    WaitingForServers(),
    InCompiledCode(),
    CallingOperators(),
    ExchangingHeads(),
    PopFactors(),
    ReplayError(),
)
"""In the order in which they look at findings: a later one sees what earlier ones know."""
