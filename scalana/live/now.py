"""What each rank of a run that goes on is in at the moment, as its record says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.going_on import records_going_on
from scalana.graphs.readers.folder.record_columns import as_integers
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.chains import choose_of_chain
from scalana.graphs.readers.processes.main_thread import main_thread
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.readers.processes.rank_selection import RankRecords, start_ns
from scalana.live.step_times import step_times
from scalana.runtime.operations import BY_CODE
from scalana.runtime.record.format import STATE_RUNNING, Frame, ProcessRecord
from scalana.runtime.record.tail import PROGRESS

_NS = 1e-9
_OPEN_NS = 3_000_000_000
"""A call is under way if one of the last flushes, of one a second, says so."""
_LATELY_NS = 5_000_000_000
_SILENT_S = 5.0
"""A record that is this far behind the others is not written to."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a thread is."""

    frames: tuple[tuple[str, int, str], ...]
    """File, line and function of each frame, outermost first."""
    own: int
    """The innermost frame of the user's own code, -1 for none."""

    @property
    def place(self) -> tuple[str, int, str]:
        """File, line and function of the user's own code that it is in; of any code where there is none of that."""
        return self.frames[self.own] if self.frames else ("", 0, "")


@dataclass(frozen=True, slots=True)
class RankNow:
    """What the main thread of a rank is in."""

    rank: int
    name: str
    """"rank 3", or "rollout 3" where there are several worlds."""
    state: str
    """``ended``, ``silent`` (its record does not grow), ``waiting`` (in a call of communication), ``running`` (on a
    CPU) or ``asleep``."""
    operation: str
    """Of the call that it is in, "" for none."""
    seconds: float
    """Since it entered that call, or left the last one; NaN where that is not known."""
    stack: Stack
    functions: int
    """Different functions that it was seen in during the last seconds, innermost: one that repeats itself is in few."""
    host: str
    pid: int
    tid: int
    changed_ns: int = 0
    """When it was seen last in another function than at the end, on CLOCK_MONOTONIC of its host; 0 for never."""


@dataclass(frozen=True, slots=True)
class Moment:
    """All ranks at the latest moment that was recorded."""

    ranks: tuple[RankNow, ...]
    helpers: tuple[RankNow, ...]
    """The other processes of the ranks, such as the workers of their loaders, each by the number of its rank."""
    names: ProcessNames
    world_size: int
    step_s: dict[int, float]
    """How long each of the last steps took, by its number; empty where no steps are marked."""
    latest_ns: int
    """The latest moment that was recorded, on the clock of the first rank's host."""
    hosts: frozenset[str]
    going_on: bool
    """Whether any process of the job still runs."""
    records: tuple[ProcessRecord, ...] = ()
    """What all of it was read from."""


def moment_of(folder: str) -> Moment:
    """All ranks of a run folder as they are now.

    Raises:
        RecordError: it has no record that can be read.
    """
    run = RunFolder(folder)
    records = run.processes()
    chosen = choose_of_chain(records, run.chain)
    latest_ns = max(rank.record.last_ns for rank in chosen.ranks)
    own = [rank.record for rank in chosen.ranks]
    return Moment(
        ranks=tuple(_ranks(chosen, latest_ns)),
        helpers=tuple(_helpers(chosen, latest_ns)),
        names=chosen.names,
        world_size=chosen.world_size,
        step_s=step_times(own),
        latest_ns=latest_ns,
        hosts=frozenset(record.meta.get("host", "") for record in own),
        going_on=bool(records_going_on(run.info, records)),
        records=tuple(records),
    )


def _ranks(chosen: RankRecords, latest_ns: int) -> Iterator[RankNow]:
    for rank in chosen.ranks:
        yield _now(rank.record, rank.rank, chosen.names.one(rank.rank), _clock(chosen, rank.record, latest_ns))


def _helpers(chosen: RankRecords, latest_ns: int) -> Iterator[RankNow]:
    for rank in chosen.ranks:
        for record in rank.children:
            if not record.ended:
                name = f"process {record.meta.get('pid', '?')} of {chosen.names.one(rank.rank)}"
                yield _now(record, rank.rank, name, _clock(chosen, record, latest_ns))


def _clock(chosen: RankRecords, record: ProcessRecord, latest_ns: int) -> int:
    """Now, on the clock of a record: those of several hosts have nothing in common."""
    alone = len({rank.record.meta.get("host") for rank in chosen.ranks}) > 1
    return record.last_ns if alone else latest_ns


def _now(record: ProcessRecord, rank: int, name: str, latest_ns: int) -> RankNow:
    thread = main_thread(record)
    call = _open_call(record, thread)
    path, is_running = _latest_sample(record, thread)
    if call is not None:
        operation, since_ns, path = call
        state = "waiting"
    else:
        operation, since_ns = "", _last_exit_ns(record, thread)
        state = "running" if is_running else "asleep"
    if record.ended:
        state, since_ns = "ended", record.last_ns
    elif (latest_ns - record.last_ns) * _NS > _SILENT_S:
        state, since_ns = "silent", record.last_ns
    functions, changed_ns = _functions(record, thread, max(since_ns, record.last_ns - _LATELY_NS))
    return RankNow(
        rank=rank,
        name=name,
        state=state,
        operation=operation,
        seconds=max(latest_ns - since_ns, 0) * _NS,
        stack=stack_of(record, path),
        functions=functions,
        host=record.meta.get("host", ""),
        pid=record.number("pid", 0),
        tid=record.threads[thread].tid if thread in record.threads else 0,
        changed_ns=changed_ns,
    )


def _functions(record: ProcessRecord, thread: int, since_ns: int) -> tuple[int, int]:
    """Different functions that a thread was seen in since a moment, the innermost frame of each sample; and when it was
    seen last in another one than at the end, 0 for never."""
    samples = record.samples
    time_ns = as_integers(samples.time_ns)
    rows = np.flatnonzero((as_integers(samples.thread) == thread) & (time_ns >= since_ns))
    codes = np.append(as_integers(record.paths.code), -1)
    seen = codes[np.minimum(as_integers(samples.path)[rows], len(codes) - 1)]
    others = rows[seen != seen[-1]] if len(seen) else rows
    return len(np.unique(seen[seen >= 0])), int(time_ns[others[-1]]) if len(others) else 0


def _latest_sample(record: ProcessRecord, thread: int) -> tuple[int, bool]:
    """The path that a thread was seen on last, and whether it was on a CPU."""
    rows = np.flatnonzero(as_integers(record.samples.thread) == thread)
    if not len(rows):
        return 0, False
    return int(record.samples.path[rows[-1]]), int(record.samples.state[rows[-1]]) == STATE_RUNNING


def _open_call(record: ProcessRecord, thread: int) -> tuple[str, int, int] | None:
    """The innermost call that a thread is in: operation, when it entered it, and path; None if it is in none."""
    table = record.open
    as_of, of, enter, event = map(as_integers, (table.as_of_ns, table.thread, table.enter_ns, table.event))
    rows = np.flatnonzero((of == thread) & (as_of + _OPEN_NS >= record.last_ns))
    rows = rows[~np.isin(event[rows], as_integers(record.events.id))]
    if not len(rows):
        return None
    latest = int(rows[np.lexsort((as_of[rows], enter[rows]))[-1]])
    if enter[latest] < _exits(record, thread).max(initial=0):
        return None
    return BY_CODE[int(table.operation[latest])].name, int(enter[latest]), int(table.path[latest])


def _last_exit_ns(record: ProcessRecord, thread: int) -> int:
    """When a thread left its last call; if that was before what is kept, when its process came further last."""
    exits = _exits(record, thread)
    return int(exits.max()) if len(exits) else record.number(PROGRESS, 0) or start_ns(record)


def _exits(record: ProcessRecord, thread: int) -> IntArray:
    """When a thread left its calls ``[calls]``."""
    events = record.events
    rows = np.flatnonzero(as_integers(events.thread) == thread)
    return as_integers(events.enter_ns)[rows] + as_integers(events.duration_ns)[rows]


def stack_of(record: ProcessRecord, path: int) -> Stack:
    """Where a path of a record leads."""
    frames = [frame for frame in record.frames(path) if frame.code.filename]
    libraries = tuple(folder for folder in record.meta.get("lib_dirs", "").split(":") if folder)
    shown = tuple((_shown(frame.code.filename, record), frame.line, frame.code.name) for frame in frames)
    return Stack(shown, _own(frames, libraries))


def _own(frames: Iterable[Frame], libraries: tuple[str, ...]) -> int:
    """The innermost frame of the user's own code."""
    found = -1
    for row, frame in enumerate(frames):
        if not frame.code.filename.startswith(("<", *libraries)):
            found = row
    return found


def _shown(file: str, record: ProcessRecord) -> str:
    """A file, relative to the folder that the process was started in where it lies below that."""
    below = os.path.join(record.meta.get("cwd", ""), "")
    return file[len(below) :] if len(below) > 1 and file.startswith(below) else file
