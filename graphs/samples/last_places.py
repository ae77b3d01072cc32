"""Where the main thread of every rank was last, and the child that it waited for there.

A rank that others wait for is where its main thread is, whatever other threads do meanwhile. Where that waits for a
process of its own (a loader's worker, a pool, a child) or for a thread of a pool, the answer lies at the other end:
what is at work there, not what waits for work itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.columns.gather import Gathered
from scalana.graphs.readers.processes.main_thread import main_thread

_NS = 1e-9
_ENDS = (
    ("/torch/utils/data/dataloader.py", "/torch/utils/data/_utils/worker.py"),
    ("/multiprocessing/pool.py", "/multiprocessing/pool.py"),
    ("/multiprocess/pool.py", "/multiprocess/pool.py"),
    ("/concurrent/futures/", "/concurrent/futures/"),
    ("/loky/", "/loky/process_executor.py"),
    ("/multiprocessing/", "/multiprocessing/process.py"),
    ("/multiprocess/", "/multiprocess/process.py"),
)
"""What is part of the files on a path that waits for a child or a thread, and of those on its own path: the first that
fits."""
_WAITS_FOR_WORK = ("/queues.py", "/connection.py", "/synchronize.py", "/queue.py", "/threading.py", "/selectors.py")
"""Ends of the files that a worker calls to get its next task."""
_RECORDER = "/runtime/remote/"
"""What is part of the files of the recorder, around calls of these."""
_TOGETHER_NS = 2_000_000_000
"""A child that ended earlier than this before its rank is not what the rank waited for in the end."""


@dataclass(frozen=True, slots=True)
class LastPlace:
    """Where a process was in the end."""

    vertex: int
    line: int
    """0 where it is not known."""
    seconds: float
    """How long, since its last call of communication."""
    child: LastPlace | None = None
    """Where the child is that it waits for, None where it waits for none, or none is known."""


def last_places(data: Gathered, places: Places) -> dict[int, LastPlace]:
    """Where the main threads of the ranks were after their last calls; by rank."""
    found: dict[int, LastPlace] = {}
    first = np.searchsorted(data.threads.process, np.arange(len(data.records))).tolist()
    for process in np.flatnonzero(data.is_own).tolist():
        since_ns = _last_call_ns(data, process)
        stay = _longest(data, int(first[process]) + main_thread(data.records[process]), since_ns)
        if stay is None:
            continue
        path, begin_ns, seconds = stay
        child = _child(data, places, process, path, begin_ns, first)
        found[int(data.rank[process])] = LastPlace(int(places.vertex[path]), int(places.line[path]), seconds, child)
    return found


def _last_call_ns(data: Gathered, process: int) -> int:
    """When the main thread of a process left its last call that returned; the begin of the process if there was
    none."""
    threads = np.flatnonzero((data.threads.process == process) & data.threads.is_main)
    returned = np.isin(data.events.thread, threads)
    returned[data.open_events] = False
    exits = data.events.exit_ns[returned]
    return int(exits.max(initial=data.start_ns[process]))


def _longest(data: Gathered, thread: int, since_ns: int) -> tuple[int, int, float] | None:
    """The path that a thread was longest on since a moment: with when it got there first, and its seconds."""
    samples = data.samples
    begin, end = np.searchsorted(samples.thread, (thread, thread + 1)).tolist()
    begin += int(np.searchsorted(samples.time_ns[begin:end], since_ns))
    if begin >= end:
        return None
    times, paths = samples.time_ns[begin:end].astype(np.int64), samples.path[begin:end].astype(np.int64)
    lasted = np.diff(times, prepend=since_ns)  # a sample speaks of the time before it
    known, of = np.unique(paths, return_inverse=True)
    longest = int(np.argmax(np.bincount(of, lasted)))
    rows = np.flatnonzero(of == longest)
    return int(known[longest]), int(times[rows[0]] - lasted[rows[0]]), float(lasted[rows].sum()) * _NS


def _child(
    data: Gathered, places: Places, process: int, path: int, begin_ns: int, first: Sequence[int]
) -> LastPlace | None:
    """Where the child, or the thread of a pool, is that a process waits for on a path."""
    libraries = tuple(folder for folder in data.records[process].meta.get("lib_dirs", "").split(":") if folder)
    files = _files(data, path)
    own_code = [row for row, file in enumerate(files) if not file.startswith(libraries or "<")]
    waits_in = files[own_code[-1] + 1 :] if own_code else files  # what it calls, not what it was itself started by
    own = next((worker for waits, worker in _ENDS if any(waits in file for file in waits_in)), None)
    if own is None:
        return None
    pid = data.records[process].meta.get("pid")
    threads = [(int(row), process) for row in np.flatnonzero(data.threads.process == process)[1:]]
    for child, record in enumerate(data.records):  # workers of a pool are there as ranks of a role of their own
        if record.meta.get("ppid") == pid and data.end_ns[child] >= data.end_ns[process] - _TOGETHER_NS:
            threads.append((int(first[child]) + main_thread(record), child))
    found: list[LastPlace] = []
    for thread, of in threads:
        stay = _longest(data, thread, max(begin_ns, int(data.start_ns[of])))
        if stay is not None and _works(_files(data, stay[0]), own):
            found.append(LastPlace(int(places.vertex[stay[0]]), int(places.line[stay[0]]), stay[2]))
    return max(found, key=lambda place: place.seconds, default=None)


def _files(data: Gathered, path: int) -> list[str]:
    """Files of the frames of a path, outermost first."""
    files: list[str] = []
    while path > 0:
        files.append(data.tree.codes[int(data.tree.code[path])][1])
        path = int(data.tree.parent[path])
    return files[::-1]


def _works(files: Sequence[str], worker: str) -> bool:
    """Whether a path of frames is that of a worker, below what gets its next task."""
    rows = [row for row, file in enumerate(files) if worker in file]
    below = [file for file in files[rows[-1] + 1 :] if _RECORDER not in file] if rows else []
    return bool(below) and not below[0].endswith(_WAITS_FOR_WORK)
