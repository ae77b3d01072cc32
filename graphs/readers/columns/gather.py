"""The records of a run's ranks as one set of columns: run-wide numbers, one time axis.

Numbers in a record (threads, call paths, communicators, events) count from the start in every process. Here they
become rows of run-wide tables, and every clock reading becomes nanoseconds on the aligned axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import append, concatenate, narrowed, take, wide
from scalana.graphs.arrays.hashing import distinct, packed
from scalana.graphs.arrays.shards import Shard, chunks, each, shards
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.clocks import Clocks, estimate_clocks
from scalana.graphs.readers.columns.handed_over import handed_between, messages_between, rooted_between
from scalana.graphs.readers.columns.joining import find_joined, join
from scalana.graphs.readers.columns.span_reading import SpanTable, linked, stacked_spans
from scalana.graphs.readers.columns.stacked import stacked_events, stacked_samples
from scalana.graphs.readers.folder.record_columns import Communicators, Part, SpanTotals, Totals, UnwrittenTime
from scalana.graphs.readers.folder.records import Events, Samples, Threads
from scalana.graphs.readers.processes.main_thread import main_thread
from scalana.graphs.readers.processes.rank_selection import RankRecords, start_ns
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import (
    EVENT_BLOCKING,
    AttributeColumns,
    DoneColumns,
    EventColumns,
    PathColumns,
    ProcessRecord,
    SampleColumns,
    SpanColumns,
)

_TICKS = [BY_NAME[name].code for name in ("barrier", "allreduce", "allgather", "reduce_scatter", "alltoall")]
"""Operations that release all members together, and at once."""


@dataclass(frozen=True, slots=True)
class Communicator:
    """A group of ranks; its name and ranks together are its identity."""

    name: str
    ranks: tuple[int, ...]
    """World ranks, by rank in the communicator; empty where unknown."""


@dataclass(slots=True)
class Gathered:
    """Everything that was recorded of the analysed processes. Times are aligned, ns since :attr:`origin_ns`.

    The integers of ``samples`` and ``events`` may be narrow, which saves half of the memory of a large run: they are
    widened, portion by portion, where they are calculated with.
    """

    records: list[ProcessRecord]
    rank: IntArray
    """World rank of every process ``[processes]``."""
    is_own: npt.NDArray[np.bool_]
    """Whether a process is the rank itself, not a child of it ``[processes]``."""
    start_ns: IntArray
    """``[processes]``"""
    end_ns: IntArray
    """``[processes]``"""
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
    unwritten: UnwrittenTime
    spans: SpanTable
    span_totals: SpanTotals
    totals: Totals
    communicators: list[Communicator]
    hosts: list[str]
    """Names of hosts (boots), the reference clock's first."""
    clocks: Clocks
    origin_ns: int
    """Monotonic clock of the first host at time 0."""
    rows: dict[str, IntArray]
    """How many rows of each table a process has ``[processes]``; see :class:`Collected`."""
    unanswered: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Events that wait for what no process of the run gives, and so are none of its calls; empty for none
    ``[events]``."""


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
    unwritten: UnwrittenTime
    spans: SpanTable
    span_totals: SpanTotals
    totals: Totals
    rows: dict[str, IntArray]
    """How many rows of each table a process has ``[processes]``; ``paths`` and ``communicators`` are those that it
    was the first to have."""
    first: IntArray
    """Number in the run of the process that is rank 0 in the world of each ``[processes]``."""
    claims: IntArray
    """Where there are several worlds: communicator, place in it, and the process that says so ``[3, claims]``."""


def gather(chosen: RankRecords) -> Gathered:
    """Put the records of all ranks and their children together."""
    records: list[ProcessRecord] = []
    rank: list[int] = []
    own: list[bool] = []
    first: list[int] = []
    for entry in chosen.ranks:
        for record in (entry.record, *entry.children):
            records.append(record)
            rank.append(entry.rank)
            own.append(record is entry.record)
            first.append(entry.first)
    collected = collect(records, rank, own, first if len(chosen.worlds) > 1 else None)
    _let_go(chosen, records)
    return on_one_axis(collected)


def collect(
    records: list[ProcessRecord], rank: list[int], own: list[bool], first: list[int] | None = None
) -> Collected:
    """Put records together, in their order. ``rank`` and ``own`` say whose they are, and whether of the rank itself;
    ``first``, where there are several worlds, by how much ranks in a record are to be raised to be numbers of processes
    of the run."""
    parts = [Part(record, number, first[number] if first else 0) for number, record in enumerate(records)]
    ranks, is_own = np.array(rank, np.int64), np.array(own, np.bool_)
    thread_first = _offsets([part.threads for part in parts])
    tree = CallTree()
    rows = {name: np.zeros(len(parts), np.int64) for name in ("paths", "communicators")}
    # Ranks first: what they add to the graph comes before what only their children do.
    for part in sorted(parts, key=lambda part: not own[part.number]):
        known = len(tree)
        part.paths = tree.add(part.record).astype(np.int32)
        rows["paths"][part.number] = len(tree) - known
    own_paths = 1 + int(rows["paths"][is_own].sum())
    threads = _threads(parts, thread_first, ranks, is_own)
    speaking = [part for part in parts if own[part.number]]
    communicators = Communicators()
    for part in speaking:
        known = len(communicators)
        part.communicators = communicators.of(part.record, part.first)
        rows["communicators"][part.number] = len(communicators) - known
    opens = concatenate([part.open(thread_first) for part in speaking if len(part.record.open)], Events)

    def stacked(table: str) -> Any:
        return stacked_samples(parts, thread_first) if table == "samples" else stacked_events(speaking, thread_first)

    samples, events = each(stacked, ("samples", "events"))
    if len(opens):
        append(events, narrowed(opens))
    spans, span_rows = stacked_spans(parts, thread_first, ranks)
    linked(spans, events.process, events.identity)
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
        unwritten=concatenate(
            [part.unwritten(thread_first) for part in parts if len(part.record.unwritten)], UnwrittenTime
        ),
        spans=spans,
        span_totals=concatenate([part.span_totals() for part in parts if len(part.record.span_totals)], SpanTotals),
        totals=concatenate([part.totals() for part in speaking if len(part.record.totals)], Totals),
        rows=rows | span_rows | _rows(parts, own),
        first=np.array([part.first for part in parts], np.int64),
        claims=_claims(speaking if first else []),
    )


def _rows(parts: list[Part], own: list[bool]) -> dict[str, IntArray]:
    """How many rows of tables a process has ``[processes]``."""
    counts = {
        "threads": [part.threads for part in parts],
        "samples": [len(part.record.samples) for part in parts],
        "events": [len(part.record.events) if own[part.number] else 0 for part in parts],
        "unwritten": [len(part.record.unwritten) for part in parts],
        "span_totals": [len(part.record.span_totals) for part in parts],
        "totals": [len(part.record.totals) if own[part.number] else 0 for part in parts],
    }
    return {name: np.array(column, np.int64) for name, column in counts.items()}


def on_one_axis(collected: Collected) -> Gathered:
    """Bring the times of all processes onto one axis. The columns of ``collected`` are used, and changed."""
    is_own, samples, events = collected.is_own, collected.samples, collected.events
    named = collected.communicators
    if collected.claims.size:
        joined = find_joined(named, collected.claims, collected.rank)
        named = join(named, events, joined, collected.first) if joined.row else named
    hosts, host = _hosts(collected.records)
    clocks = _clocks(collected, host, len(hosts))
    start, end = clocks.align(host, collected.start_ns), clocks.align(host, collected.end_ns)
    origin = int(start[is_own].min()) if is_own.any() else 0
    _align(collected, clocks, host, origin)
    if not _in_order(samples):
        samples = take(samples, np.lexsort((samples.time_ns, samples.thread)))
    return Gathered(
        records=collected.records,
        rank=collected.rank,
        is_own=is_own,
        start_ns=start - origin,
        end_ns=end - origin,
        thinned=collected.thinned,
        tree=collected.tree,
        own_paths=collected.own_paths,
        threads=collected.threads,
        samples=samples,
        events=events,
        open_events=np.arange(int(collected.rows["events"].sum()), len(events)),
        unwritten=collected.unwritten,
        spans=collected.spans,
        span_totals=collected.span_totals,
        totals=collected.totals,
        communicators=[Communicator(name, tuple(np.frombuffer(members, np.int32).tolist())) for name, members in named],
        hosts=hosts,
        clocks=clocks,
        origin_ns=origin,
        rows=collected.rows,
    )


def _clocks(collected: Collected, host: IntArray, hosts: int) -> Clocks:
    """How the clocks of all hosts go: by what their processes did together, and handed to each other."""
    tick, of_host, complete_ns = _ticks(collected, host) if hosts > 1 else np.zeros((3, 0), np.int64)
    messages = None
    if hosts > 1:
        events = collected.events
        of_ranks = [between(events, collected.rank, host) for between in (messages_between, rooted_between)]
        messages = np.concatenate((handed_between(events, host), *of_ranks), axis=1)
    return estimate_clocks(_guess(collected.records, host, hosts), tick, of_host, complete_ns, messages)


def _align(collected: Collected, clocks: Clocks, host: IntArray, origin: int) -> None:
    """Bring the times of samples, events and spans onto the axis, in place."""
    samples, events, unwritten, spans = collected.samples, collected.events, collected.unwritten, collected.spans
    host_of_thread, host_of_lane = host[collected.threads.process], host[spans.lanes.process]
    events.done_ns = events.done_ns.astype(np.int64) if (events.done_ns >= 0).any() else events.done_ns

    def align_samples(rows: slice) -> None:
        of_sample = host_of_thread[samples.thread[rows]]
        samples.time_ns[rows] = clocks.align(of_sample, samples.time_ns[rows]) - origin

    def align_events(rows: slice) -> None:
        of_event = host[events.process[rows]]
        events.enter_ns[rows] = clocks.align(of_event, events.enter_ns[rows]) - origin
        events.exit_ns[rows] = clocks.align(of_event, events.exit_ns[rows]) - origin
        done = events.done_ns[rows]
        if (done >= 0).any():
            events.done_ns[rows] = np.where(done >= 0, clocks.align(of_event, done) - origin, -1)

    def align_spans(rows: slice) -> None:
        of_span = host_of_lane[spans.lane[rows]]
        spans.start_ns[rows] = clocks.align(of_span, spans.start_ns[rows]) - origin
        spans.end_ns[rows] = clocks.align(of_span, spans.end_ns[rows]) - origin

    each(align_samples, chunks(len(samples)))
    each(align_events, chunks(len(events)))
    each(align_spans, chunks(len(spans)))
    of_unwritten = host_of_thread[unwritten.thread]
    unwritten.start_ns = clocks.align(of_unwritten, unwritten.start_ns) - origin
    unwritten.end_ns = clocks.align(of_unwritten, unwritten.end_ns) - origin


def _in_order(samples: Samples) -> bool:
    """Whether samples are sorted by (thread, time)."""

    def ascend(rows: slice) -> bool:
        rows = slice(max(rows.start - 1, 0), rows.stop)
        thread, time = samples.thread[rows], samples.time_ns[rows]
        return bool(((thread[1:] > thread[:-1]) | ((thread[1:] == thread[:-1]) & (time[1:] >= time[:-1]))).all())

    return all(each(ascend, chunks(len(samples))))


def _let_go(chosen: RankRecords, records: list[ProcessRecord]) -> None:
    """Free the columns of all records, which have been copied: they are most of what a large run takes. Of worlds only
    their numbers are asked for from here on."""
    for world in chosen.worlds:
        world.records = {}
    nothing = memoryview(b"")
    none: dict[str, Any] = {
        "paths": PathColumns(*[nothing] * 3),
        "samples": SampleColumns(*[nothing] * 6),
        "events": EventColumns(*[nothing] * 15),
        "done": DoneColumns(*[nothing] * 4),
        "spans": SpanColumns(*[nothing] * 10),
        "attributes": AttributeColumns(*[nothing] * 3),
    }
    number = 0
    for entry in chosen.ranks:
        for place in range(1 + len(entry.children)):
            record = records[number]
            small = replace(record, codes={}, groups={}, names=[], **none)
            records[number] = small
            if place == 0:
                entry.record = small
            else:
                entry.children[place - 1] = small
            number += 1


def _claims(parts: list[Part]) -> IntArray:
    """Which places processes say they have in which communicator ``[3, claims]``."""
    found = [
        (int(part.communicators[number]), group.my_rank, part.number)
        for part in parts
        for number, group in part.record.groups.items()
    ]
    return np.array(sorted(set(found)), np.int64).reshape(-1, 3).T


def _linked(events: Events) -> Events:
    """Replace the event ids in ``completes`` by rows, -1 where there is none."""
    waits = np.flatnonzero(events.completes > 0)
    rows: npt.NDArray[Any] = np.full(len(events), -1, np.int32)
    if len(waits):
        width = int(max(events.identity.max(), events.completes.max())) + 1
        process = events.process.astype(np.int64)
        key = process * width + events.identity
        order = np.argsort(key, kind="stable")
        wanted = process[waits] * width + events.completes[waits]
        row = order[np.minimum(np.searchsorted(key[order], wanted), len(order) - 1)]
        found = key[row] == wanted
        rows[waits[found]] = row[found]
    events.completes = rows
    return events


def _threads(parts: list[Part], first: IntArray, rank: IntArray, is_own: npt.NDArray[np.bool_]) -> Threads:
    process = np.repeat(np.arange(len(parts), dtype=np.int64), np.diff(first))
    main = np.zeros(len(process), np.bool_)
    for part in parts:
        main[first[part.number] + main_thread(part.record)] = True
    return Threads(
        process=process,
        rank=rank[process],
        is_main=main & is_own[process],
        is_own=is_own[process],
        location=np.full(len(process), -1, np.int64),
    )


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
    differences: list[list[int]] = [[] for _ in range(hosts)]
    for record, number in zip(records, host.tolist(), strict=True):
        if record.meta.get("unix_ns", "").isdigit():
            differences[number].append(int(record.meta["unix_ns"]) - start_ns(record))
    return np.array([sorted(known)[len(known) // 2] if known else 0 for known in differences], np.int64)


def _ticks(collected: Collected, host: IntArray) -> IntArray:
    """When operations that release all members together were complete: tick, host, own clock ``[3, ticks]``."""
    closed = int(collected.rows["events"].sum())
    opens = collected.events.process[closed:]
    counted = np.isin(collected.events.operation, _TICKS)
    width = int(collected.events.seq[counted].max(initial=0)) + 1

    def of(shard: Shard) -> IntArray:
        rows = shard.event_rows
        events = take(collected.events, rows if len(shard.open_events) else shard.events)
        return _ticks_of(events, rows, host, width, closed)

    return np.concatenate(each(of, shards(collected.is_own, collected.rows, opens)), axis=1)


def _ticks_of(events: Events, run_rows: IntArray, host: IntArray, width: int, closed: int) -> IntArray:
    """The same of the events of some processes, of each tick and host the earliest. ``run_rows`` are their rows in the
    table that ``completes`` is about, of which from ``closed`` on are still under way; a tick is a communicator times
    ``width`` and the number in it."""
    rows = np.flatnonzero(np.isin(events.operation, _TICKS) & (events.communicator >= 0) & (run_rows < closed))
    blocking = (events.flags[rows] & EVENT_BLOCKING) > 0
    complete = np.where(blocking, events.exit_ns[rows], events.done_ns[rows])
    # Without a callback, the wait tells; if it was late itself, the other ranks' waits are the earlier ones.
    waits = np.flatnonzero(events.completes >= 0)
    waited = np.full(len(events), -1, np.int64)
    waited[np.searchsorted(run_rows, events.completes[waits])] = events.exit_ns[waits]
    complete = np.where(complete >= 0, complete, waited[rows])
    rows, complete = rows[complete >= 0], complete[complete >= 0]
    tick = wide(events.communicator[rows]) * width + events.seq[rows]
    # A number that a process used twice (a communicator set up anew) is no tick.
    _, _, use = distinct(packed(events.process[rows], tick))
    once = np.bincount(use)[use] == 1 if len(use) else np.zeros(0, np.bool_)
    tick, complete, of_host = tick[once], complete[once], host[events.process[rows[once]]]
    _, first, number = distinct(packed(of_host, tick))
    earliest = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(earliest, number, complete)
    return np.stack((tick[first], of_host[first], earliest))


def _offsets(sizes: list[int]) -> IntArray:
    return np.concatenate(([0], np.cumsum(np.array(sizes, np.int64)))).astype(np.int64)
