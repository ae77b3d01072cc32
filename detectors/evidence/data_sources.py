"""Evidence about a source of a mixture of data that is expensive to load."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class OtherLoading:
    """A step with another way to load."""

    change: str
    """``dealt-evenly``, ``in-every-batch``, ``more-workers``, ``own-workers`` or ``further-ahead``."""
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSource(Flat):
    """What a source of a mixture costs, in an average step of the steady state."""

    source: str
    sources: int
    """Of the mixture."""
    source_samples: float
    """Part of all samples that are of this source."""
    source_share: float
    """Part of the seconds of loading."""
    sample_s: float
    other_sample_s: float
    """A sample of the others, on average."""
    source_workers: int
    """Of each rank's loader, 0 where ranks load themselves."""
    steps_with_s: float | None = None
    """What a step takes in which some rank has samples of it."""
    steps_without_s: float | None = None
    source_times: float | None = None
    """What the finding's ranks load of it, as a multiple of the median rank; None where all load about as much, or
    the median rank nothing."""
    source_alone: bool = False
    """Whether the median rank loads none."""
    source_worker: int | None = None
    """Number of the worker that loads most of it on the rank that waits longest; None where workers share it."""
    source_worker_rank: int | None = None
    source_worker_share: float | None = None
    source_step_s: float
    other_loading: list[OtherLoading]
    """The best one first; empty where a model of the loaders does not take as long as the run did."""
