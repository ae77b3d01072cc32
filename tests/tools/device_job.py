"""A training job on emulated devices, written as the traces that torch.profiler would have made of it.

Every rank has a host thread, a stream that computes and one that communicates. Each step loads data, launches the
kernels of a forward and a backward pass with two collectives in the latter, lets the computing stream wait for these,
updates, and waits for the device. What a fault does to a rank is known to the nanosecond; so is what it costs.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

US = 1_000
MS = 1_000_000
LATENCY = 5 * US
"""From the end of a launch to the begin of its kernel at the earliest."""
COMPUTE, COMMUNICATE = 7, 20
START = 1_000 * MS


@dataclass
class Fault:
    """What is wrong with one rank."""

    rank: int = -1
    load_ns: int = 0
    """More in the data loader, on the host."""
    kernel_ns: int = 0
    """One kernel more in the backward pass, before the first collective, so long."""
    growth_ns: int = 0
    """That kernel, in every step longer by so much."""
    less_ns: int = 0
    """The last kernel of the backward pass is so much shorter."""
    slowdown: float = 1.0
    """Of every kernel."""
    launch_ns: int = 0
    """More for every operator, on the host."""
    lengths: float = 1.0
    """Of what it is given, and of the time of every kernel."""
    sync: bool = False
    """It waits for the device after every layer."""
    starts_late_ns: int = 0
    copy_ns: int = 0
    """Its batch is copied to the device before the forward pass, for so long, and the host waits for that."""

    def beside(self, other: Fault) -> Fault:
        """Both at once."""
        added = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("load_ns", "kernel_ns", "growth_ns", "less_ns", "launch_ns", "starts_late_ns", "copy_ns")
        }
        return Fault(
            max(self.rank, other.rank),
            slowdown=self.slowdown * other.slowdown,
            lengths=self.lengths * other.lengths,
            sync=self.sync or other.sync,
            **added,
        )


@dataclass
class Job:
    """A job; times in ns."""

    ranks: int = 4
    steps: int = 6
    layers: int = 8
    forward_ns: int = 300 * US
    backward_ns: int = 500 * US
    operator_ns: int = 40 * US
    load_ns: int = 200 * US
    collective_ns: int = 200 * US
    noise: float = 0.0
    """Standard deviation of the time of kernels, as a part of it."""
    fault: Fault = field(default_factory=Fault)
    shared: Fault = field(default_factory=Fault)
    """What is wrong with every rank."""
    kernel: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    shapes: bool = False
    """Whether operators say the shapes of their inputs."""
    old: bool = False
    """Neither process groups nor numbers, as traces had until 2023."""
    waits: str = "end"
    """Where hosts wait for their devices in every step: ``end``, ``begin``, or ``nowhere``."""
    seed: int = 1

    def traces(self) -> list[dict[str, Any]]:
        """The trace of every rank, as the JSON that it is."""
        ranks = [_Rank(self, number) for number in range(self.ranks)]
        programs = [rank.program() for rank in ranks]
        needs = [next(program) for program in programs]
        posted: list[dict[int, int]] = []
        ends: list[int] = []
        live = set(range(self.ranks))
        while live:
            for number in sorted(live):
                ready = ranks[number].ready
                for operation, time in enumerate(ready):
                    while len(posted) <= operation:
                        posted.append({})
                    posted[operation][number] = time
            while len(ends) < len(posted) and len(posted[len(ends)]) == self.ranks:
                before = ends[-1] if ends else 0
                starts = [max(time, before) for time in posted[len(ends)].values()]
                ends.append(max(starts) + self.collective_ns)
            moved = False
            for number in sorted(live):
                while number in live and needs[number] < len(ends):
                    moved = True
                    try:
                        needs[number] = programs[number].send(ends[needs[number]])
                    except StopIteration:
                        live.discard(number)
            assert moved, "the ranks wait for each other"
        for rank in ranks:
            rank.write_collectives(ends)
        return [rank.trace() for rank in ranks]

    def write(self, folder: Path, name: str = "rank{}.json") -> Path:
        """Write the traces, one file a rank."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, trace in enumerate(self.traces()):
            (folder / name.format(number)).write_text(json.dumps(trace))
        return folder


class _Rank:
    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number = job, number
        self.fault = job.shared.beside(job.fault) if job.fault.rank == number else job.shared
        self.now = START + self.fault.starts_late_ns
        self.free = 0  # of the computing stream
        self.ready: list[int] = []
        self.launches: list[tuple[int, int]] = []
        self.events: list[dict[str, Any]] = []
        self.correlation = 0
        self.random = np.random.default_rng((job.seed, number))

    def event(self, category: str, name: str, thread: int, start: int, duration: int, **arguments: Any) -> None:
        """Note an event."""
        device = category in ("kernel", "gpu_memcpy")
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": 0 if device else 100 + self.number,
                "tid": thread if device else 100 + self.number,
                "ts": start / 1000,
                "dur": duration / 1000,
                "args": arguments,
            }
        )

    def operator(self, name: str, kernel: str, length: int) -> None:
        """Run an operator on the host that launches a kernel."""
        begin = self.now
        self.correlation += 1
        cost = self.job.operator_ns + self.fault.launch_ns
        launch = begin + cost // 2
        shape = [[8, round(128 * self.fault.lengths), 64], [64, 64]]
        self.event("cpu_op", name, 0, begin, cost, **({"Input Dims": shape} if self.job.shapes else {}))
        self.event("cuda_runtime", "cudaLaunchKernel", 0, launch, 6 * US, correlation=self.correlation)
        self.now += cost + 2 * US
        length = max(
            round(
                length * self.fault.slowdown * self.fault.lengths * (1 + self.job.noise * self.random.standard_normal())
            ),
            US,
        )
        start = max(launch + 6 * US + LATENCY, self.free)
        self.free = start + length
        self.event("kernel", kernel, COMPUTE, start, length, correlation=self.correlation, stream=COMPUTE)

    def collective(self) -> None:
        """Launch an allreduce that waits for what the computing stream has to do."""
        begin = self.now
        self.correlation += 1
        self.event("cpu_op", "c10d::allreduce_", 0, begin, 60 * US)
        arguments = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": len(self.ready)}
        self.event("cpu_op", "record_param_comms", 0, begin + 5 * US, 50 * US, **({} if self.job.old else arguments))
        self.event("cuda_runtime", "cudaLaunchKernel", 0, begin + 30 * US, 6 * US, correlation=self.correlation)
        self.launches.append((begin, self.correlation))
        self.now += 62 * US
        self.ready.append(max(begin + 36 * US + LATENCY, self.free))

    def copy(self, length: int) -> None:
        """Copy a batch to the device, from memory that is not pinned: the host waits."""
        begin = self.now
        self.correlation += 1
        launch, start = begin + 20 * US, max(begin + 26 * US + LATENCY, self.free)
        self.free = start + length
        self.event(
            "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", COMPUTE, start, length, correlation=self.correlation
        )
        self.event("cpu_op", "aten::copy_", 0, begin, self.free - begin + 8 * US)
        self.event("cuda_runtime", "cudaMemcpyAsync", 0, launch, self.free - launch, correlation=self.correlation)
        self.now = self.free + 10 * US

    def synchronize(self, name: str, until: int) -> None:
        """Wait on the host for the device."""
        begin = self.now
        end = max(begin + 10 * US, until + 3 * US)
        self.event("cpu_op", name, 0, begin, end - begin + 4 * US)
        self.event("cuda_runtime", "cudaStreamSynchronize", 0, begin + 2 * US, end - begin - 2 * US)
        self.now = end + 6 * US

    def program(self) -> Generator[int, int, None]:
        """All steps; yields the number of the collective whose end it needs, and is sent that."""
        job, fault = self.job, self.fault
        for step in range(job.steps):
            begin = self.now
            if job.waits == "begin" and step:
                self.synchronize("aten::nonzero", self.free)
            load = job.load_ns + fault.load_ns
            self.event(
                "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, self.now, load
            )
            self.now += load + 2 * US
            if fault.copy_ns:
                self.copy(fault.copy_ns)
            for layer in range(job.layers):
                self.operator(f"aten::linear{layer}", f"gemm_forward_{layer}", job.forward_ns)
                if fault.sync:
                    self.synchronize("aten::item", self.free)
            for layer in reversed(range(job.layers)):
                less = fault.less_ns if layer == 0 else 0
                self.operator(f"LinearBackward{layer}", f"gemm_backward_{layer}", job.backward_ns - less)
                if layer == job.layers // 2:
                    if fault.kernel_ns:
                        self.operator("aten::sort", "radix_sort", fault.kernel_ns + step * fault.growth_ns)
                    self.collective()
                if layer == 0:
                    self.collective()
            end = yield len(self.ready) - 1
            self.free = max(self.free, end)
            self.operator("Optimizer.step", "adam", 200 * US)
            if job.waits == "end":
                self.synchronize("aten::_local_scalar_dense", self.free)
            self.event("user_annotation", f"ProfilerStep#{step}", 0, begin, self.now - begin)

    def write_collectives(self, ends: list[int]) -> None:
        """Note the kernels of the collectives."""
        before = 0
        for number, (ready, end) in enumerate(zip(self.ready, ends)):
            start = max(ready, before)
            before = end
            arguments: dict[str, Any] = {"correlation": self.launches[number][1], "stream": COMMUNICATE}
            self.event("kernel", self.job.kernel, COMMUNICATE, start, end - start, **arguments)

    def trace(self) -> dict[str, Any]:
        """The file."""
        told: dict[str, Any] = {"rank": self.number, "world_size": self.job.ranks, "backend": "nccl"}
        if not self.job.old:
            told["pg_config"] = [{"pg_name": "0", "ranks": list(range(self.job.ranks))}]
        return {"schemaVersion": 1, "distributedInfo": told, "traceEvents": sorted(self.events, key=lambda e: e["ts"])}
