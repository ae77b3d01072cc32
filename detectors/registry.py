"""All detectors, those that know more of what they speak of first, and all annotators."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

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
from scalana.detectors.facts import Need


@dataclass(frozen=True, slots=True)
class Registered:
    """A detector by its name: it is imported where a run has what it needs."""

    module: str
    name: str
    needs: frozenset[Need] = frozenset()
    """The detector is left out where the run has not all of these."""

    def load(self) -> Detector:
        """The detector."""
        detector: Detector = getattr(import_module(self.module), self.name)()
        return detector


DETECTORS = (
    Registered("scalana.detectors.hang.detector", "Hangs", frozenset({Need.OPEN_CALLS})),
    Registered("scalana.detectors.pipeline.detector", "Pipelines", frozenset({Need.STAGES})),
    Registered("scalana.detectors.limits.limits_on_devices", "LimitsOnDevices", frozenset({Need.DEVICE})),
    Registered("scalana.detectors.device.detector", "DeviceWaits", frozenset({Need.DEVICE})),
    Registered("scalana.detectors.rl.detector", "RLStragglers", frozenset({Need.CALLS, Need.ROLES})),
    Registered("scalana.detectors.slow_workers.detector", "SlowWorkers", frozenset({Need.CALLS})),
    Registered("scalana.detectors.serving.detector", "ServingThreads"),
    Registered("scalana.detectors.experts.detector", "ExpertLoads"),
    Registered("scalana.detectors.limits.detector", "Limits"),
    Registered("scalana.detectors.late_ranks.detector", "LateRanks", frozenset({Need.CALLS})),
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
