"""Evidence about what is no work of the program itself: loading data, compiling, collecting garbage, pickling, starting
processes."""

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
class OneAtATime(Flat):
    """Calls that a process makes each when it has the result of the one before."""

    calls_in_turn: int
    could_take: int
    """Processes that could work on them at the same time."""


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
    longest_pickle_s: float
    """Of one of them."""
    unpickled: bool
    """Whether the ranks only unpickle here what others pickle."""


@dataclass(frozen=True, slots=True)
class StartedBy(Flat):
    """How ranks come to be that another one starts."""

    started_by: list[int]
    started_after_s: float
    """After the start of that one, on average."""
