"""Libraries that communicate by ways of their own, which no recorder sees: which of them a run uses, and how long its
processes are in them.

What a process waits for there is unknown, and so is who makes it wait. That comes before anything else that a report
says of waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.processes.main_thread import main_thread
from scalana.graphs.samples.library_code import library_codes

_NS = 1e-9


@dataclass(frozen=True, slots=True)
class OwnWay:
    """A library that communicates without a recorder."""

    name: str
    """What a report calls it."""
    used: str
    """Part of the names of its files. A call path through one shows that it is used, unless it imports that."""
    waits: tuple[str, ...] = ()
    """The same of the files in which the program waits for it, where these are others as well."""


OWN_WAYS = (
    OwnWay("Horovod", "/horovod/"),
    OwnWay("Ray's collectives", "/ray/util/collective/"),
    OwnWay("NCCL of its own (pynccl)", "/device_communicators/pynccl"),
    OwnWay("DeepEP", "/deep_ep/"),
    OwnWay("Dask's workers", "/distributed/nanny.py", ("/distributed/", "/dask/")),
    OwnWay("billiard", "/billiard/"),
    OwnWay("mpire", "/mpire/"),
)
"""One row a library."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A library that communicates without a recorder, and that a run uses."""

    name: str
    seconds: float
    """That the main threads of the run's processes are in it, and not in code of the program that it calls."""


def unseen_ways(data: Gathered) -> list[Unseen]:
    """Those that a run uses, in the order of :data:`OWN_WAYS`."""
    tree = data.tree
    files = [file.replace("\\", "/") for _, file in tree.codes]
    imports = np.array([file.startswith("<frozen importlib") for file in files], np.bool_)
    found = []
    for way in OWN_WAYS:
        used = np.array([way.used in file for file in files], np.bool_)
        if used.any() and any(not _lies_in(tree, path, imports) for path in np.flatnonzero(used[tree.code]).tolist()):
            parts = (way.used, *way.waits)
            found.append((way, np.array([any(part in file for part in parts) for file in files], np.bool_)))
    if not found:
        return []
    path_s = _seconds_by_path(data)
    library = library_codes(data)
    return [Unseen(way.name, _seconds_in(tree, path_s, inside, library)) for way, inside in found]


def notes_of(ways: list[Unseen]) -> list[str]:
    """What is said of each: that it is not recorded, and how long processes are in it."""
    return [
        f"communication by {way.name} is not recorded, nor is waiting for it"
        + (f": processes are in it for {way.seconds:.1f} s" if way.seconds > 0.0 else "")
        for way in ways
    ]


def _lies_in(tree: CallTree, path: int, codes: BoolArray) -> bool:
    """Whether one of some codes is on a call path."""
    while path > 0 and not codes[int(tree.code[path])]:
        path = int(tree.parent[path])
    return path > 0


def _seconds_by_path(data: Gathered) -> dict[int, float]:
    """How long the main threads of processes were on each call path, by samples: each holds until the next one."""
    samples, first = data.samples, np.searchsorted(data.threads.process, np.arange(len(data.records)))
    total: dict[int, float] = {}
    for process in np.flatnonzero(data.is_own).tolist():
        thread = int(first[process]) + main_thread(data.records[process])
        begin, end = np.searchsorted(samples.thread, (thread, thread + 1)).tolist()
        times = samples.time_ns[begin:end].astype(np.int64)
        paths, of = np.unique(samples.path[begin:end], return_inverse=True)
        lasted_ns = np.diff(times, append=max(int(data.end_ns[process]), int(times[-1]))) if len(times) else times
        for path, ns in zip(paths.tolist(), np.bincount(of, lasted_ns, len(paths)).tolist(), strict=True):
            total[path] = total.get(path, 0.0) + ns * _NS
    return total


def _seconds_in(tree: CallTree, path_s: dict[int, float], inside: BoolArray, library: BoolArray) -> float:
    """Seconds on paths that end in a library, from one of its codes down, without any code of the program below."""
    total_s = 0.0
    for path, seconds in path_s.items():
        at = path
        while at > 0 and library[int(tree.code[at])] and not inside[int(tree.code[at])]:
            at = int(tree.parent[at])
        if at > 0 and inside[int(tree.code[at])]:
            total_s += seconds
    return total_s
