"""When one start of a rank did what, as far as it says how far a job came: steps, checkpoints, evaluation.

It is made of a whole record, or piece by piece of one that grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.progress.activities import CHECKPOINT, EVALUATION, of_paths, of_span
from scalana.graphs.readers.folder.record_columns import as_integers
from scalana.graphs.readers.processes.launches import host_of
from scalana.graphs.readers.processes.main_thread import main_thread
from scalana.runtime.record.format import SPAN_TYPE, ProcessRecord

_NS = 1e-9
_SOURCES = ("user", "trainer", "optimizer", "schedule")
"""What marks steps, the most telling first."""
_NAMED = [SPAN_TYPE[name] for name in ("region", "phase")]
_OTHER, _STEP = SPAN_TYPE["other"], SPAN_TYPE["step"]
_KIND, _OF_FILES = "checkpoint", ("save", "load")
"""Kind and names of spans of files of checkpoints."""
_SEEN_FOR_S = 0.5
"""A sample says what a thread does until the next one, and for no longer than this."""


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file, or a folder, that was written or read whole."""

    is_load: bool
    file: str
    inode: int
    """0 where it is not known."""
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class RankTimes:
    """What one process with a rank did when. Times are seconds since 1970, by the first clock of its host."""

    rank: int
    host: str
    start_s: float
    end_s: float
    """The latest moment of its record."""
    has_end: bool
    """Whether its record has an end: it was not killed, and does not run any more."""
    status: int
    """Exit status, -1 unknown."""
    step_source: str
    """What marked its steps; "" for none."""
    step_start_s: FloatArray
    """``[steps]``"""
    step_end_s: FloatArray
    """``[steps]``"""
    step_number: IntArray
    """Since the start of the process, from 0 on ``[steps]``."""
    first_call_s: float
    """When its first call of communication ended; NaN where it made none."""
    last_call_s: float
    checkpoints: FloatArray
    """Begin and end of writing, apart ``[checkpoints, 2]``."""
    evaluations: FloatArray
    """Likewise."""
    files: tuple[CheckpointFile, ...]

    def and_then(self, later: RankTimes) -> RankTimes:
        """With what was recorded later by the same process."""
        steps = self if later.step_source == "" else later if self.step_source != later.step_source else None
        if steps is None:
            new = later.step_number > (self.step_number[-1] if len(self.step_number) else -1)
            columns = {
                name: np.concatenate((getattr(self, name), getattr(later, name)[new]))
                for name in ("step_start_s", "step_end_s", "step_number")
            }
        else:
            columns = {name: getattr(steps, name) for name in ("step_start_s", "step_end_s", "step_number")}
        known = set(self.files)
        return RankTimes(
            rank=self.rank,
            host=self.host,
            start_s=self.start_s,
            end_s=max(self.end_s, later.end_s),
            has_end=later.has_end,
            status=later.status,
            step_source=later.step_source or self.step_source,
            **columns,
            first_call_s=float(np.fmin(self.first_call_s, later.first_call_s)),
            last_call_s=float(np.fmax(self.last_call_s, later.last_call_s)),
            checkpoints=joined(np.concatenate((self.checkpoints, later.checkpoints))),
            evaluations=joined(np.concatenate((self.evaluations, later.evaluations))),
            files=(*self.files, *(file for file in later.files if file not in known)),
        )


class HostClocks:
    """The time of day by the clock of each host, which its processes share: that may be set anew while a job runs."""

    def __init__(self) -> None:
        self._offset_ns: dict[str, int] = {}

    def offset_ns(self, record: ProcessRecord) -> int:
        """What added to a moment of a record gives ns since 1970: the same for all records of one boot of a host."""
        own = record.number("unix_ns", 0) - record.number("clock_ns", record.number("start_ns", 0))
        return self._offset_ns.setdefault(host_of(record), own)


def rank_times(record: ProcessRecord, offset_ns: int, paths: Sequence[int] | None = None) -> RankTimes:
    """What a record says.

    Args:
        record: of a process with a rank.
        offset_ns: what added to its moments gives ns since 1970.
        paths: what its call paths do (:func:`~scalana.graphs.progress.activities.of_paths`), where that is known.
    """

    def day_s(time_ns: IntArray) -> FloatArray:
        return np.asarray((time_ns + offset_ns) * _NS, np.float64)

    start_ns = record.number("start_ns", 0) or record.first_ns
    source, rows = _steps(record)
    begin, lasted = as_integers(record.spans.start_ns), as_integers(record.spans.duration_ns)
    ends = as_integers(record.events.enter_ns) + as_integers(record.events.duration_ns)
    doing = _named_spans(record)
    seen = _seen(record, np.asarray(of_paths(record) if paths is None else paths))
    files = _files(record, offset_ns)
    written = [[file.start_s, file.end_s] for file in files if not file.is_load]

    def stretches(activity: int, more: FloatArray) -> FloatArray:
        spans = np.flatnonzero(doing == activity)
        marked = np.stack((day_s(begin[spans]), day_s(begin[spans] + lasted[spans])), axis=1)
        return joined(np.concatenate((marked, day_s(seen[activity]), more)))

    return RankTimes(
        rank=record.rank,
        host=host_of(record),
        start_s=(start_ns + offset_ns) * _NS,
        end_s=(max(record.last_ns, start_ns) + offset_ns) * _NS,
        has_end=record.ended,
        status=record.status,
        step_source=source,
        step_start_s=day_s(begin[rows]),
        step_end_s=day_s(begin[rows] + lasted[rows]),
        step_number=as_integers(record.spans.step)[rows],
        first_call_s=float(day_s(ends).min()) if len(ends) else float("nan"),
        last_call_s=float(day_s(ends).max()) if len(ends) else float("nan"),
        checkpoints=stretches(CHECKPOINT, np.array(written).reshape(-1, 2)),
        evaluations=stretches(EVALUATION, np.zeros((0, 2))),
        files=files,
    )


def marks_steps(record: ProcessRecord) -> bool:
    """Whether anything marked steps in a process."""
    return len(_steps(record)[1]) > 0


def _steps(record: ProcessRecord) -> tuple[str, IntArray]:
    """What marked steps, and the rows of these spans in order."""
    rows = np.flatnonzero(as_integers(record.spans.type) == _STEP)
    if not len(rows):
        return "", rows
    source = _attribute(record, "source")[rows]
    texts = [record.names[value] if value >= 0 else "" for value in source.tolist()]
    best = next((name for name in _SOURCES if name in texts), "")
    rows = rows[[text == best for text in texts]]
    return best or "unknown", rows[np.argsort(as_integers(record.spans.step)[rows], kind="stable")]


def _attribute(record: ProcessRecord, key: str) -> IntArray:
    """The value of an attribute of every span, -1 where it has none ``[spans]``."""
    found = np.full(len(record.spans), -1, np.int64)
    if key in record.names:
        at = np.flatnonzero(as_integers(record.attributes.key) == record.names.index(key))
        owner = np.searchsorted(as_integers(record.spans.last), at, side="right")
        found[owner] = as_integers(record.attributes.value)[at]
    return found


def _named_spans(record: ProcessRecord) -> IntArray:
    """What every span does that the program named ``[spans]``."""
    of_name = np.array([of_span(name) for name in record.names] or [0])
    is_named: BoolArray = np.isin(as_integers(record.spans.type), _NAMED)
    return np.where(is_named, of_name[as_integers(record.spans.name)], 0)


def _files(record: ProcessRecord, offset_ns: int) -> tuple[CheckpointFile, ...]:
    """The files of checkpoints that were written or read without failing."""
    spans, names = record.spans, record.names
    rows = np.flatnonzero(as_integers(spans.type) == _OTHER)
    if not len(rows) or _KIND not in names:
        return ()
    kind, file, inode, failed = (_attribute(record, key) for key in ("kind", "file", "inode", "failed"))
    found = []
    for row in rows[kind[rows] == names.index(_KIND)].tolist():
        name = names[spans.name[row]]
        if name in _OF_FILES and file[row] >= 0 and failed[row] <= 0:
            start_ns = int(spans.start_ns[row]) + offset_ns
            end_s = (start_ns + int(spans.duration_ns[row])) * _NS
            is_load, inode_of = name == _OF_FILES[1], max(int(inode[row]), 0)
            found.append(CheckpointFile(is_load, names[int(file[row])], inode_of, start_ns * _NS, end_s))
    return tuple(found)


def _seen(record: ProcessRecord, paths: IntArray) -> dict[int, IntArray]:
    """When samples of the main thread show each activity, in ns ``[stretches, 2]``."""
    rows = np.flatnonzero(as_integers(record.samples.thread) == main_thread(record))
    time_ns = as_integers(record.samples.time_ns)[rows]
    path = as_integers(record.samples.path)[rows]
    doing = np.where(path < len(paths), paths[np.minimum(path, len(paths) - 1)], 0)
    until = np.minimum(np.append(time_ns[1:], time_ns[-1:]), time_ns + int(_SEEN_FOR_S / _NS))
    return {activity: np.stack((time_ns, until), axis=1)[doing == activity] for activity in (CHECKPOINT, EVALUATION)}
