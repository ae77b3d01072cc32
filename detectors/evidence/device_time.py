"""Evidence about devices."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class DeviceStep(Flat):
    """What an average device does in a step, or in a run without steps."""

    device_busy_s: float
    """Work, without communication."""
    device_idle_s: float
    """Nothing: neither work nor communication."""
    device_works: float
    """Kernels and copies, or stretches between marks."""


@dataclass(frozen=True, slots=True)
class DeviceTime(Flat):
    """What devices did, or what their hosts did instead of launching."""

    late_s: float | None = None
    operations: int | None = None
    """Operations in which others waited."""
    marked_steps: int | None = None
    """Steps that were looked at."""
    steps: int | None = None
    """Steps of the run for which they stand."""
    kernels: list[str] | None = None
    kernel: str | None = None
    slowdown: float | None = None
    slower: str | None = None
    """The same in words."""
    different: str | None = None
    work: str | None = None
    """What is different, in words."""
    host: list[str] | None = None
    doing: str | None = None
    cause: str | None = None
