"""All detectors, those that know more of what they speak of first."""

from __future__ import annotations

from scalana.detectors.detector import Detector
from scalana.detectors.device.detector import DeviceWaits
from scalana.detectors.hang.detector import Hangs
from scalana.detectors.late_ranks.detector import LateRanks
from scalana.detectors.limits.detector import Limits
from scalana.detectors.pipeline.detector import Pipelines
from scalana.detectors.rl.detector import RLStragglers
from scalana.detectors.slow_workers.detector import SlowWorkers

DETECTORS: tuple[Detector, ...] = (
    Hangs(),
    Pipelines(),
    DeviceWaits(),
    RLStragglers(),
    SlowWorkers(),
    Limits(),
    LateRanks(),
)
"""Where two speak of the same seconds, the earlier one has the word (:mod:`scalana.detectors.reconcile`)."""
