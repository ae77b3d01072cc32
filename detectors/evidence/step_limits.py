"""What speaks for causes that all ranks share: how much of a step, and what it would be otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat
from scalana.detectors.thresholds.factors import AS_MUCH


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
    calls_in_one: float
    """How many of the calls of a step could be one: all of a collective, or the messages from one rank to another."""
    calls_s: float = 0.0
    """What all calls of a step take but for waiting for other ranks. ``limit_s`` is what of this is the network's:
    without what threads wait for a core."""


@dataclass(frozen=True, slots=True)
class SparedCalls(Flat):
    """Calls that a program could do without, in a step of an average rank."""

    spared: str
    """What calls they are."""
    spared_calls: float
    """How many go."""
    spared_of: float
    """Of how many of their kind."""
    spared_bytes: float
    """That all of these move."""
    reduced_times: int | None
    """How often the same gradients are reduced; None where they are something else."""
    spared_lines: int
    """On how many lines they are."""


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


THREADS, PYTHON_THREADS, CHILDREN, THREADS_OF_CHILDREN = "threads", "python-threads", "children", "child-threads"
"""What computes next to the main threads of ranks: threads that libraries made, threads of Python, child processes, and
threads that libraries made in these."""


@dataclass(frozen=True, slots=True)
class BusyCores(Flat):
    """The host whose cores a job keeps busiest."""

    host_cores: int
    busy_cores: float
    """That the job's own processes and threads keep busy, on average."""
    host_ranks: int
    computing: str | None = None
    """What computes most next to the main threads of ranks, by its name above; None for nothing."""
    computing_count: int | None = None
    """How many of these compute in the rank that has most, or in its child process that has most."""
    unused_cores: int | None = None
    """Cores of the host that no rank may use."""
    computing_threads: int | None = None
    """Threads that compute, the main threads of ranks included."""

    @property
    def is_full(self) -> bool:
        """Whether the job itself keeps all of these cores busy."""
        return self.busy_cores >= AS_MUCH * self.host_cores

    @property
    def has_one_each(self) -> bool:
        """Whether there are as many cores as threads that compute: who waits for one nevertheless waits for others."""
        return self.computing_threads is not None and self.computing_threads <= self.host_cores
