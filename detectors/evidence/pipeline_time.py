"""Evidence about pipelines."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class PipelineTime(Flat):
    """What is behind lost time of a pipeline; each cause has some of these. Seconds are those of a step."""

    load: float | None = None
    """Of the heaviest stage, times what it has without imbalance."""
    mean_s: float | None = None
    """Of a stage."""
    stage_s: float | None = None
    """Of the heaviest one."""
    at_most: bool = False
    """Whether the saving is an upper bound."""
    wall: str | None = None
    """What no cut of the layers makes smaller."""
    split: str | None = None
    """Of the layers, which is better."""
    microbatches: list[int] | None = None
    """Those that usually take longer."""
    which: str | None = None
    """The same in words."""
    times: float | None = None
    """Times as long as usual."""
    long_s: float | None = None
    usual_s: float | None = None
    worker_s: float | None = None
    """Of a slow worker for a microbatch."""
    peers_s: float | None = None
    """Of those of its stage in other replicas."""
    correlation: float | None = None
    """Of what forwards and backwards of the same microbatch take."""
    here_s: float | None = None
    """Of a replica."""
    latency_s: float | None = None
    others_s: float | None = None
    """Latency of other links, or seconds of other replicas."""
    links: list[list[int]] | None = None
    """Sender and receiver of each."""
    host_s: float | None = None
    data_s: float | None = None
    idle_s: float | None = None
    """That the schedule leaves."""
    step_s: float | None = None
    other: str | None = None
    """Another schedule, in words."""
    other_s: float | None = None
    stage: int | None = None
    link: str | None = None
    """The links, in words."""
