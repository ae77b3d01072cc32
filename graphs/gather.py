"""The records of a run's ranks as one set of columns: run-wide numbers, one time axis.

Numbers in a record (threads, call paths, communicators, events) count from the start in every process. Here they
become rows of run-wide tables, and every clock reading becomes nanoseconds on the aligned axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scalana.graphs.call_tree import CallTree
from scalana.graphs.clocks import Clocks, estimate_clocks
from scalana.graphs.load import RankRecords, start_ns
from scalana.graphs.tables import Events, Samples, Threads, concatenate, filled, put, take, trim
from scalana.graphs.timeline import IntArray
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record_format import (
    EVENT_BLOCKING,
    EVENT_LEVEL_SHIFT,
    DoneColumns,
    EventColumns,
    OpenColumns,
    ProcessRecord,
    SampleColumns,
)

WAIT = BY_NAME["wait"].code
_TICKS = [BY_NAME[name].code for name in ("barrier", "allreduce", "allgather", "reduce_scatter", "alltoall")]
"""Operations that release all members together, and at once."""
_OPEN_NS = 3_000_000_000
"""A record is flushed every second: calls open in none of the last flushes had ended by then."""
_FAR_NS = 1 << 55
"""More than any two moments of a run are apart."""
_INTERRUPTED_NS = 1_000_000_000
"""A call without an event in a record with an end must have lasted this long: shorter ones may just not be kept."""


@dataclass(slots=True)
class Intervals:
    """Named stretches of time: regions, steps, phases, modules, pipeline actions."""

    type: IntArray
    """1 region, 2 step, 3 phase, 4 module, 5 device, 6 pipeline action ``[intervals]``."""
    name: list[str]
    """``[intervals]``"""
    thread: IntArray
    """``[intervals]``"""
    rank: IntArray
    """``[intervals]``"""
    start_ns: IntArray
    """``[intervals]``"""
    end_ns: IntArray
    """``[intervals]``"""
    cpu_ns: IntArray
    """CPU time of the thread inside ``[intervals]``."""
    path: IntArray
    """``[intervals]``"""


@dataclass(slots=True)
class Totals:
    """Exact sums per call path, also of calls whose events were thinned out."""

    process: IntArray
    """``[totals]``"""
    path: IntArray
    """``[totals]``"""
    operation: IntArray
    """``[totals]``"""
    calls: IntArray
    """``[totals]``"""
    nbytes: IntArray
    """``[totals]``"""
    wall_ns: IntArray
    """``[totals]``"""


@dataclass(frozen=True, slots=True)
class Communicator:
    """A group of ranks; its name and ranks together are its identity."""

    name: str
    ranks: tuple[int, ...]
    """World ranks, by rank in the communicator; empty where unknown."""


_Communicators = dict[tuple[str, bytes], int]
"""Row of each communicator, by its name and the bytes of its ranks: a large job names thousands of ranks in each."""


@dataclass(slots=True)
class Gathered:
    """Everything that was recorded of the analysed processes. Times are aligned, ns since :attr:`origin_ns`."""

    records: list[ProcessRecord]
    rank: IntArray
    """World rank of every process ``[processes]``."""
    is_own: npt.NDArray[np.bool_]
    """Whether a process is the rank itself, not a child of it ``[processes]``."""
    start_ns: IntArray
    """``[processes]``"""
    end_ns: IntArray
    """``[processes]``"""
    killed: npt.NDArray[np.bool_]
    """Whether the record of a process stops without an end ``[processes]``."""
    thinned: npt.NDArray[np.bool_]
    """Whether events of a process were thinned out ``[processes]``."""
    tree: CallTree
    """The call paths of all processes; those of the ranks themselves come first."""
    own_paths: int
    """How many they are."""
    threads: Threads
    samples: Samples
    events: Events
    open_events: IntArray
    """Rows of ``events`` that were under way when the record stopped."""
    intervals: Intervals
    totals: Totals
    communicators: list[Communicator]
    hosts: list[str]
    """Names of hosts (boots), the reference clock's first."""
    clocks: Clocks
    origin_ns: int
    """Monotonic clock of the first host at time 0."""


@dataclass(slots=True)
class Collected:
    """The records of some processes as one set of columns: numbers count among them, times are those of their clocks.

    The events that were under way when a record stopped come after all others; ``completes`` is a row of ``events``.
    """

    records: list[ProcessRecord]
    rank: IntArray
    """World rank ``[processes]``."""
    is_own: npt.NDArray[np.bool_]
    """``[processes]``"""
    start_ns: IntArray
    """``[processes]``"""
    end_ns: IntArray
    """``[processes]``"""
    thinned: npt.NDArray[np.bool_]
    """``[processes]``"""
    tree: CallTree
    own_paths: int
    communicators: list[tuple[str, bytes]]
    """By name, and by their ranks as 32-bit numbers."""
    threads: Threads
    samples: Samples
    events: Events
    intervals: Intervals
    totals: Totals
    rows: dict[str, IntArray]
    """How many rows of each table a process has ``[processes]``; ``paths`` and ``communicators`` are those that it
    was the first to have."""


def gather(chosen: RankRecords) -> Gathered:
    """Put the records of all ranks and their children together."""
    records: list[ProcessRecord] = []
    rank: list[int] = []
    own: list[bool] = []
    for entry in chosen.ranks:
        for record in (entry.record, *entry.children):
            records.append(record)
            rank.append(entry.rank)
            own.append(record is entry.record)
    collected = collect(records, rank, own)
    _let_go(chosen, records)
    return on_one_axis(collected)


def collect(records: list[ProcessRecord], rank: list[int], own: list[bool]) -> Collected:
    """Put records together, in their order. ``rank`` and ``own`` say whose they are, and whether of the rank itself."""
    parts = [_Part(record, number) for number, record in enumerate(records)]
    ranks, is_own = np.array(rank, np.int64), np.array(own, np.bool_)
    thread_first = _offsets([part.threads for part in parts])
    tree = CallTree()
    rows = {name: np.zeros(len(parts), np.int64) for name in ("paths", "communicators")}
    # Ranks first: what they add to the graph comes before what only their children do.
    for part in sorted(parts, key=lambda part: not own[part.number]):
        known = len(tree)
        part.paths = tree.add(part.record)
        rows["paths"][part.number] = len(tree) - known
    own_paths = 1 + int(rows["paths"][is_own].sum())
    threads = _threads(parts, thread_first, ranks, is_own)
    communicators: _Communicators = {}
    speaking = [part for part in parts if own[part.number]]
    open_events = []
    for part in speaking:
        known = len(communicators)
        open_events.append(part.open(thread_first, communicators))
        rows["communicators"][part.number] = len(communicators) - known
    opens = concatenate(open_events, Events)
    samples = filled(
        (part.samples(thread_first) for part in parts), sum(len(part.record.samples) for part in parts), Samples
    )
    events = filled(
        (part.events(thread_first, communicators) for part in speaking),
        sum(len(part.record.events) for part in speaking),
        Events,
        room=len(opens),
    )
    put(events, len(events) - len(opens), opens)
    counts = {
        "threads": [part.threads for part in parts],
        "samples": [len(part.record.samples) for part in parts],
        "events": [len(part.record.events) if own[part.number] else 0 for part in parts],
        "intervals": [len(part.record.intervals) for part in parts],
        "totals": [len(part.record.totals) if own[part.number] else 0 for part in parts],
    }
    return Collected(
        records=records,
        rank=ranks,
        is_own=is_own,
        start_ns=np.array([part.start_ns for part in parts], np.int64),
        end_ns=np.array([part.end_ns for part in parts], np.int64),
        thinned=np.array([part.thinned for part in parts], np.bool_),
        tree=tree,
        own_paths=own_paths,
        communicators=list(communicators),
        threads=threads,
        samples=samples,
        events=_linked(events),
        intervals=_intervals(parts, thread_first, ranks),
        totals=concatenate([part.totals() for part in speaking], Totals),
        rows=rows | {name: np.array(column, np.int64) for name, column in counts.items()},
    )


def on_one_axis(collected: Collected) -> Gathered:
    """Bring the times of all processes onto one axis. The columns of ``collected`` are used, and changed."""
    records, is_own, threads = collected.records, collected.is_own, collected.threads
    samples, events, intervals = collected.samples, collected.events, collected.intervals
    hosts, host = _hosts(records)
    nothing = np.zeros(0, np.int64)
    ticks = _ticks(events, host) if len(hosts) > 1 else (nothing, nothing, nothing)
    clocks = estimate_clocks(_guess(records, host, len(hosts)), *ticks)
    start, end = clocks.align(host, collected.start_ns), clocks.align(host, collected.end_ns)
    origin = int(start[is_own].min()) if is_own.any() else 0
    of_sample = host[threads.process[samples.thread]]
    samples.time_ns = clocks.align(of_sample, samples.time_ns) - origin
    of_event = host[events.process]
    events.enter_ns = clocks.align(of_event, events.enter_ns) - origin
    events.exit_ns = clocks.align(of_event, events.exit_ns) - origin
    done = events.done_ns >= 0
    events.done_ns = np.where(done, clocks.align(of_event, events.done_ns) - origin, -1)
    of_interval = host[threads.process[intervals.thread]]
    intervals.start_ns = clocks.align(of_interval, intervals.start_ns) - origin
    intervals.end_ns = clocks.align(of_interval, intervals.end_ns) - origin
    later = np.diff(samples.thread) * _FAR_NS + np.diff(samples.time_ns) >= 0
    if not later.all():
        samples = take(samples, np.lexsort((samples.time_ns, samples.thread)))
    return Gathered(
        records=records,
        rank=collected.rank,
        is_own=is_own,
        start_ns=start - origin,
        end_ns=end - origin,
        killed=np.array([not record.ended for record in records], np.bool_),
        thinned=collected.thinned,
        tree=collected.tree,
        own_paths=collected.own_paths,
        threads=threads,
        samples=samples,
        events=events,
        open_events=np.arange(int(collected.rows["events"].sum()), len(events)),
        intervals=intervals,
        totals=collected.totals,
        communicators=[
            Communicator(name, tuple(np.frombuffer(members, np.int32).tolist()))
            for name, members in collected.communicators
        ],
        hosts=hosts,
        clocks=clocks,
        origin_ns=origin,
    )


def _let_go(chosen: RankRecords, records: list[ProcessRecord]) -> None:
    """Free the columns of all records, which have been copied: they are most of what a large run takes."""
    nothing = EventColumns(*[memoryview(b"")] * 15)
    number = 0
    for entry in chosen.ranks:
        for place in range(1 + len(entry.children)):
            record = records[number]
            small = replace(
                record,
                samples=SampleColumns(*[memoryview(b"")] * 6),
                events=nothing,
                done=DoneColumns(*[memoryview(b"")] * 4),
                codes={},
                groups={},
            )
            records[number] = small
            if place == 0:
                entry.record = small
            else:
                entry.children[place - 1] = small
            number += 1
    trim()


class _Part:
    """One process' record as columns that count run-wide."""

    def __init__(self, record: ProcessRecord, number: int) -> None:
        self.record = record
        self.number = number
        used = (record.samples.thread, record.events.thread, record.intervals.thread, record.open.thread)
        self.threads = 1 + max(*(_top(column) for column in used), max(record.threads, default=0))
        self.paths = np.zeros(1, np.int64)
        self.start_ns = start_ns(record) or record.first_ns
        self.end_ns = max(record.last_ns, self.start_ns)
        self.thinned = bool((_array(record.events.flags) >> EVENT_LEVEL_SHIFT).any())

    def samples(self, thread_first: IntArray) -> Samples:
        columns = self.record.samples
        return Samples(
            thread=_array(columns.thread) + thread_first[self.number],
            time_ns=_array(columns.time_ns),
            path=self._paths(columns.path),
            cpu_ns=_array(columns.cpu_us) * 1000,
            core_wait_ns=_array(columns.core_wait_us) * 1000,
            state=_array(columns.state),
        )

    def events(self, thread_first: IntArray, communicators: _Communicators) -> Events:
        columns = self.record.events
        identity = _array(columns.id)
        enter, cpu_enter = _array(columns.enter_ns), _array(columns.cpu_enter_ns)
        done_ns, done_cpu, source = self._done(identity)
        peer = _array(columns.peer)
        return Events(
            process=np.full(len(identity), self.number, np.int64),
            identity=identity,
            thread=_array(columns.thread) + thread_first[self.number],
            operation=_array(columns.operation),
            communicator=self._communicators(communicators)[_array(columns.group)],
            seq=_array(columns.seq),
            # A receive from anybody has its sender from its completion.
            peer=np.where((peer < 0) & (source >= 0), source, peer),
            tag=_array(columns.tag),
            nbytes=_array(columns.nbytes),
            flags=_array(columns.flags),
            enter_ns=enter,
            exit_ns=enter + _array(columns.duration_ns),
            cpu_enter_ns=cpu_enter,
            cpu_exit_ns=cpu_enter + _array(columns.cpu_ns),
            path=self._paths(columns.path),
            completes=_array(columns.completes),
            done_ns=done_ns,
            done_cpu_ns=done_cpu,
        )

    def open(self, thread_first: IntArray, communicators: _Communicators) -> Events:
        """Calls under way when a record stops, as events that last until then.

        A record with an end holds such a call where the program was interrupted in the midst of it: that one lasts as
        long as it is known to have.
        """
        record, columns = self.record, self.record.open
        identity = _array(columns.event)
        thread, enter, as_of = _array(columns.thread), _array(columns.enter_ns), _array(columns.as_of_ns)
        ended_threads, ended = _array(record.events.thread), _array(record.events.enter_ns)
        latest = np.zeros(self.threads, np.int64)
        np.maximum.at(latest, ended_threads, ended)
        under_way = ~np.isin(identity, _array(record.events.id)) & (enter >= latest[thread])
        under_way &= (as_of - enter >= _INTERRUPTED_NS) if record.ended else (as_of + _OPEN_NS >= record.last_ns)
        rows = np.flatnonzero(under_way)
        # The innermost call of each thread, from the last time that it was written.
        rows = rows[np.lexsort((as_of[rows], enter[rows], thread[rows]))]
        rows = rows[np.r_[np.flatnonzero(np.diff(thread[rows])), len(rows) - 1]] if len(rows) else rows
        n, operation = len(rows), _array(columns.operation)[rows]
        none = np.full(n, -1, np.int64)
        return Events(
            process=np.full(n, self.number, np.int64),
            identity=identity[rows],
            thread=thread[rows] + thread_first[self.number],
            operation=operation,
            communicator=self._communicators(communicators)[_array(columns.group)[rows]],
            seq=_array(columns.seq)[rows],
            peer=_array(columns.peer)[rows],
            tag=np.zeros(n, np.int64),
            nbytes=np.zeros(n, np.int64),
            flags=np.full(n, EVENT_BLOCKING, np.int64),
            enter_ns=enter[rows],
            exit_ns=as_of[rows] if record.ended else np.full(n, self.end_ns, np.int64),
            cpu_enter_ns=none,
            cpu_exit_ns=none,
            path=self._paths(_array(columns.path)[rows]),
            completes=np.where(operation == WAIT, self._waited_for(columns, rows), 0),
            done_ns=none,
            done_cpu_ns=none,
        )

    def totals(self) -> Totals:
        columns = self.record.totals
        return Totals(
            process=np.full(len(columns), self.number, np.int64),
            path=self._paths(columns.path),
            operation=_array(columns.operation),
            calls=_array(columns.calls),
            nbytes=_array(columns.nbytes),
            wall_ns=_array(columns.wall_ns),
        )

    def _paths(self, local: object) -> IntArray:
        """Paths of the run's tree; what a lost block defined is path 0."""
        path = _array(local)
        return self.paths[np.where(path < len(self.paths), path, 0)]

    def _communicators(self, known: _Communicators) -> IntArray:
        """Run-wide communicator of each of the process' ids, -1 for unknown ones."""
        groups = self.record.groups
        used = max(_top(self.record.events.group), _top(self.record.open.group), max(groups, default=0))
        result = np.full(1 + used, -1, np.int64)
        for number, group in groups.items():
            result[number] = known.setdefault((group.name, group.ranks.tobytes()), len(known))
        return result

    def _done(self, identity: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Completion time, CPU clock and source of every event, -1 where none was seen."""
        columns = self.record.done
        event = _array(columns.event)
        results = tuple(np.full(len(identity), -1, np.int64) for _ in range(3))
        if len(event) == 0 or len(identity) == 0:
            return results  # type: ignore[return-value]
        order = np.argsort(identity, kind="stable")
        at = np.minimum(np.searchsorted(identity[order], event), len(order) - 1)
        row = order[at]
        known = identity[row] == event
        for result, column in zip(results, (columns.time_ns, columns.cpu_ns, columns.source), strict=True):
            value = _array(column)[known]
            # Two completions of one event (its future, its wait) complement each other.
            told = value >= 0 if column is columns.source else value > 0
            result[row[known][told]] = value[told]
        return results  # type: ignore[return-value]

    def _waited_for(self, columns: OpenColumns, rows: IntArray) -> IntArray:
        """Event ids of the posts that open waits are for: the last post with their key."""
        events = self.record.events
        post = _array(events.operation) != WAIT
        post_key = np.stack((_array(events.group), _array(events.seq), _array(events.peer)))[:, post]
        identity = _array(events.id)[post]
        result = np.zeros(len(rows), np.int64)
        for place, row in enumerate(rows.tolist()):
            key = np.array([[_array(getattr(columns, name))[row]] for name in ("group", "seq", "peer")])
            same = np.flatnonzero((post_key == key).all(axis=0))
            if len(same):
                result[place] = identity[same[-1]]
        return result


def _linked(events: Events) -> Events:
    """Replace the event ids in ``completes`` by rows, -1 where there is none."""
    if len(events) == 0:
        return events
    width = int(max(events.identity.max(), events.completes.max())) + 1
    key = events.process * width + events.identity
    order = np.argsort(key, kind="stable")
    wanted = events.process * width + events.completes
    row = order[np.minimum(np.searchsorted(key[order], wanted), len(order) - 1)]
    events.completes = np.where((events.completes > 0) & (key[row] == wanted), row, -1)
    return events


def _threads(parts: list[_Part], first: IntArray, rank: IntArray, is_own: npt.NDArray[np.bool_]) -> Threads:
    process = np.repeat(np.arange(len(parts), dtype=np.int64), np.diff(first))
    main = np.zeros(len(process), np.bool_)
    for part in parts:
        marked = [index for index, thread in part.record.threads.items() if thread.is_main]
        main[first[part.number] + min(marked, default=0)] = True
    return Threads(
        process=process,
        rank=rank[process],
        is_main=main & is_own[process],
        is_own=is_own[process],
        location=np.full(len(process), -1, np.int64),
    )


def _intervals(parts: list[_Part], thread_first: IntArray, rank: IntArray) -> Intervals:
    names: list[str] = []
    columns: list[list[IntArray]] = [[] for _ in range(7)]
    for part in parts:
        table = part.record.intervals
        names += [part.record.names[number] for number in _array(table.name).tolist()]
        start = _array(table.start_ns)
        values = (
            _array(table.type),
            _array(table.thread) + thread_first[part.number],
            np.full(len(start), rank[part.number], np.int64),
            start,
            start + _array(table.duration_ns),
            _array(table.cpu_ns),
            part._paths(table.path),
        )
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    kind, thread, ranks, begin, end, cpu, path = (np.concatenate(c) if c else np.zeros(0, np.int64) for c in columns)
    return Intervals(kind, names, thread, ranks, begin, end, cpu, path)


def _hosts(records: list[ProcessRecord]) -> tuple[list[str], IntArray]:
    """Hosts in order of rank, by boot, and that of every process."""
    numbers: dict[str, int] = {}
    names: list[str] = []
    host = np.zeros(len(records), np.int64)
    for process, record in enumerate(records):
        key = record.meta.get("boot_id") or record.meta.get("host") or ""
        if key not in numbers:
            numbers[key] = len(names)
            names.append(record.meta.get("host", ""))
        host[process] = numbers[key]
    return names, host


def _guess(records: list[ProcessRecord], host: IntArray, hosts: int) -> IntArray:
    """Real time less monotonic time of every host, by its own clock."""
    result = np.zeros(hosts, np.int64)
    for number in range(hosts):
        differences = [
            int(record.meta["unix_ns"]) - start_ns(record)
            for record, at in zip(records, host.tolist(), strict=True)
            if at == number and record.meta.get("unix_ns", "").isdigit()
        ]
        result[number] = sorted(differences)[len(differences) // 2] if differences else 0
    return result


def _ticks(events: Events, host: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """When operations that release all members together were complete: tick, host, own clock."""
    rows = np.flatnonzero(np.isin(events.operation, _TICKS) & (events.communicator >= 0) & (events.cpu_enter_ns >= 0))
    blocking = (events.flags[rows] & EVENT_BLOCKING) > 0
    complete = np.where(blocking, events.exit_ns[rows], events.done_ns[rows])
    # Without a callback, the wait tells; if it was late itself, the other ranks' waits are the earlier ones.
    waits = np.flatnonzero(events.completes >= 0)
    waited = np.full(len(events), -1, np.int64)
    waited[events.completes[waits]] = events.exit_ns[waits]
    complete = np.where(complete >= 0, complete, waited[rows])
    rows, complete = rows[complete >= 0], complete[complete >= 0]
    seq = events.seq[rows]
    tick = events.communicator[rows] * (int(seq.max(initial=0)) + 1) + seq
    # A number that a process used twice (a communicator set up anew) is no tick.
    _, use, count = np.unique(
        events.process[rows] * (int(tick.max(initial=0)) + 1) + tick, return_inverse=True, return_counts=True
    )
    once = count[use.reshape(-1)] == 1
    return tick[once], host[events.process[rows[once]]], complete[once]


def _offsets(sizes: list[int]) -> IntArray:
    return np.concatenate(([0], np.cumsum(np.array(sizes, np.int64)))).astype(np.int64)


def _array(column: object) -> IntArray:
    """A column of a record as int64."""
    if isinstance(column, np.ndarray):
        return column.astype(np.int64, copy=False)
    view = memoryview(column)  # type: ignore[arg-type]
    return np.frombuffer(view, dtype=view.format).astype(np.int64) if view.nbytes else np.zeros(0, np.int64)


def _top(column: object) -> int:
    return int(_array(column).max(initial=0))
