"""What is no work of the program itself, and what all ranks share of a step, with what it would be otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class Loading:
    """Waiting for data from a loader."""

    workers: int | None = None
    dataset: str | None = None


@dataclass(frozen=True, slots=True)
class InputBound(Flat):
    """Waiting for data on all ranks, in a step of the steady state: the median of the ranks."""

    step_s: float
    data_s: float
    """Of these, waiting for data."""
    predicted_workers: list[int]
    """Workers of each rank's loader that would make a step shorter."""
    predicted_step_s: list[float]
    """What a step takes with them."""


@dataclass(frozen=True, slots=True)
class WorkerStarts(Flat):
    """Workers of a loader that are started anew in each epoch: the median of the ranks, in the steady state."""

    worker_starts: int
    """Epochs that begin with a start of workers."""
    worker_start_s: float
    """What a rank waits for one, and for the end of the workers before."""


@dataclass(frozen=True, slots=True)
class WorkerBound(Flat):
    """Waiting for processes that work for one, in a step."""

    worker_wait_s: float
    """Of the process that hands out the work, waiting for them."""
    step_s: float
    workers: int
    worker_names: str
    predicted_workers: list[int]
    """Numbers of them that would make a step shorter."""
    predicted_step_s: list[float]
    """What a step takes with them."""


@dataclass(frozen=True, slots=True)
class Compiling:
    """What a rank of the finding compiles, on average; of the others the median."""

    seconds: float
    compilations: float
    again: float
    """Of what was compiled before."""
    compilations_others: float | None = None


@dataclass(frozen=True, slots=True)
class Collecting(Flat):
    """Collections of garbage by a rank of the finding, on average."""

    collections: float
    """After start-up, of at least 1 ms."""
    collection_s: float
    longest_collection_s: float
    aligned_saving_s: float
    """Seconds by which the run is shorter with as many collections in the same steps on all ranks."""
    frozen_saving_s: float
    """The same without collections of the old generation: a bound for what ``gc.freeze`` saves."""


@dataclass(frozen=True, slots=True)
class Serialising(Flat):
    """Objects that the ranks of the finding pickle or unpickle at its line."""

    pickled: str
    """What they are: the arguments or results of calls, messages, or requests to a Manager."""
    pickles: int
    """Of which each takes long enough to be recorded; of requests, all."""
    pickle_bytes: int
    pickle_s: float
    """Process-seconds."""


@dataclass(frozen=True, slots=True)
class StartedBy(Flat):
    """How ranks come to be that another one starts."""

    started_by: list[int]
    started_after_s: float
    """After the start of that one, on average."""


@dataclass(frozen=True, slots=True)
class StepLimit(Flat):
    """What all ranks spend in a step of the steady state on something, and what a step would take otherwise."""

    limit_s: float
    """The mean of the ranks."""
    step_s: float | None = None
    """None where the run has no steps; :attr:`run_s` is known then."""
    run_s: float | None = None
    half_step_s: float = 0.0
    """What a step, or the run, would take if this took half as long on all ranks."""
    without_step_s: float = 0.0
    """If it took no time."""


@dataclass(frozen=True, slots=True)
class Transfers(Flat):
    """What the calls at a place move, in a step of an average rank."""

    transfer_operation: str
    step_calls: float
    step_bytes: float
    bytes_per_s: float
    """On average."""
    best_bytes_per_s: float
    """Of the fastest twentieth."""
    in_one_call_step_s: float
    """What a step, or the run, would take if one call moved all their bytes."""
    half_bytes_step_s: float
    """If they moved half the bytes."""
    calls_s: float = 0.0
    """What all calls of a step take but for waiting for other ranks. ``limit_s`` is what of this is the network's: as
    much as if every call went like the fastest quarter of those at its place."""


@dataclass(frozen=True, slots=True)
class LinkTime(Flat):
    """What moves over a slow link between hosts, in a step, or in the run where it has no steps."""

    slow_link: str
    """Its name."""
    link_hosts: list[str]
    link_operation: str
    link_calls: float
    """Transfers over it."""
    link_bytes: float
    """That they move."""
    link_bytes_per_s: float
    """Of the fastest quarter of its transfers."""
    others_bytes_per_s: float
    """Of other links, for the same sizes."""
    link_call_s: float
    """What a transfer takes at the line that is named, the median."""
    link_usual_call_s: float
    """What it would take at the speed of the others."""
    link_extra_s: float
    """What all its transfers take longer than at the speed of the others."""
    link_step_s: float | None
    """What an average step takes; None where there are no steps."""
    link_mended_step_s: float | None
    """What it would take if the link were as fast as the others."""


@dataclass(frozen=True, slots=True)
class BusyCores(Flat):
    """The host whose cores a job keeps busiest."""

    host_cores: int
    busy_cores: float
    """That the job's own processes and threads keep busy, on average."""
    host_ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPlan(Flat):
    """A phase of requests that was faster with another number of threads in the same run; seconds are medians."""

    serving_phase: str
    """``prefill`` or ``decode``."""
    plan_unit: str
    """What the seconds are of: a prompt, or a token."""
    plan_threads: int
    plan_s: float
    plan_requests: int
    faster_threads: int
    faster_s: float
    faster_requests: int
    other_phase_threads: int
    """With which the other phase is fastest."""
