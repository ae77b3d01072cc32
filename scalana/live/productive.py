"""Where the wall time of a run went that goes on, kept from look to look.

A record is read whole once. After that each look adds what the last part of the record says, so that what it costs does
not grow with the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

from scalana.graphs.progress.activities import of_paths
from scalana.graphs.progress.attempt_times import attempt_of, ranks_to_look_at
from scalana.graphs.progress.course import Course, course
from scalana.graphs.progress.rank_times import HostClocks, RankTimes, rank_times
from scalana.graphs.readers.folder.decoding import read_record
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.attempts import Attempt, starts_in_order
from scalana.graphs.readers.processes.chains import starts_of_chain
from scalana.graphs.readers.processes.launches import launch_to_analyse, launches_of, without_wrappers
from scalana.runtime.record import layout
from scalana.runtime.record.format import ProcessRecord, RecordError, Shared

_Table = TypeVar("_Table")
_SLACK_S = 0.5
"""What is kept may begin so much later than what was seen ends: between two samples."""


@dataclass(slots=True)
class _Known:
    """What is known of one process with a rank."""

    record: ProcessRecord
    """As it was when it was read whole, without its tables: which process it is of, and when it began."""
    size: int
    """Bytes of its file that were taken."""
    offset_ns: int
    times: RankTimes
    paths: list[int]


class LiveCourse:
    """Follows the course of one run.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: str) -> None:
        self._run = RunFolder(folder)
        self._clocks = HostClocks()
        self._known: dict[str, _Known] = {}
        self._others: set[str] = set()

    def look(self, records: Sequence[ProcessRecord], going_on: bool) -> Course | None:
        """The course so far.

        Args:
            records: the last parts of the records that may have grown.
            going_on: whether a process of the run is left.
        """
        parts = {os.path.basename(record.file): record for record in records}
        for file in layout.record_files(self._run.path):
            name = os.path.basename(file)
            if name in self._others:
                continue
            if name not in self._known or not self._add(file, self._known[name], parts.get(name)):
                self._read(file, name, parts.get(name))
        info = self._run.info
        return self._course(info, going_on)

    def _read(self, file: str, name: str, part: ProcessRecord | None = None) -> None:
        """Take a whole record, if it is one of a rank that is looked at."""
        if part is not None and _is_left_out(part):
            return
        try:
            size = os.stat(file).st_size
            record = read_record(file, Shared())
        except (OSError, RecordError):  # which has no beginning yet
            return
        if _is_left_out(record):
            if record.ended or record.role != "process":
                self._others.add(name)
            return
        offset_ns, paths = self._clocks.offset_ns(record), of_paths(record)
        self._known[name] = _Known(_bare(record), size, offset_ns, rank_times(record, offset_ns, paths), paths)

    def _add(self, file: str, known: _Known, part: ProcessRecord | None) -> bool:
        """Take what is new in the last part of a record. Whether nothing is missing before that."""
        try:
            size = os.stat(file).st_size
        except OSError:  # it was removed
            return True
        if size == known.size:
            return True
        if part is None or not part.first_ns or part.first_ns * 1e-9 > known.record.last_ns * 1e-9 + _SLACK_S:
            return False
        known.size = size
        known.record = replace(known.record, last_ns=part.last_ns, ended=part.ended)
        known.paths = of_paths(part, known.paths)
        known.times = known.times.and_then(rank_times(part, known.offset_ns, known.paths))
        return True

    def _course(self, info: Mapping[str, object], going_on: bool) -> Course | None:
        if not self._known:
            return None
        by_record = {id(known.record): known for known in self._known.values()}
        ranks, _ = without_wrappers([known.record for known in self._known.values()])
        chain = self._run.chain
        attempts = [
            attempt_of([by_record[id(record)].times for record in start.records])
            for start in starts_of_chain(ranks, chain, _starts)
        ]
        return course(attempts, _job_s(info, chain.start_s), self._run.hangs(), going_on) if attempts else None


def _starts(records: Sequence[ProcessRecord]) -> list[Attempt]:
    """The starts of the ranks of a job."""
    launches = launches_of(records)
    return starts_in_order(launches[launch_to_analyse(launches, None)].records) if launches else []


def _job_s(info: Mapping[str, object], first_s: float | None) -> tuple[float | None, float | None]:
    """When a job was started and ended, as far as its launcher says; ``first_s`` is when the first of its chain was."""
    start_s, seconds = info.get("start_unix_s"), info.get("seconds")
    if not isinstance(start_s, (int, float)):
        return None, None
    return first_s, float(start_s) + float(seconds) if isinstance(seconds, (int, float)) else None


def _is_left_out(record: ProcessRecord) -> bool:
    """Whether a process has no rank, or one of those that are not looked at."""
    if record.rank < 0 or record.role == "child":
        return True
    return record.rank not in ranks_to_look_at(max(record.number("world_size", 1), record.rank + 1))


def _bare(record: ProcessRecord) -> ProcessRecord:
    """A record without its tables, but for the first call if it has any."""
    return replace(
        record,
        codes={},
        paths=_first(record.paths, 0),
        groups={},
        names=[],
        samples=_first(record.samples, 0),
        events=_first(record.events, 1),
        spans=_first(record.spans, 0),
        attributes=_first(record.attributes, 0),
        totals=_first(record.totals, 0),
        open=_first(record.open, 1),
    )


def _first(table: _Table, rows: int) -> _Table:
    """The first rows of a table, copied: nothing of the rest is kept."""
    columns = {one.name: getattr(table, one.name)[:rows] for one in fields(cast(Any, table))}
    return type(table)(**{name: memoryview(bytes(one)).cast(one.format) for name, one in columns.items()})
