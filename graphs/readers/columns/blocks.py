"""Records that are read and put together in blocks, wherever that is done, and the blocks then as one.

A block is some record files of a run. :func:`read_block` and :func:`collect_block` need nothing of the other blocks,
so that they can run in other processes and on other machines; :func:`merge` makes of all blocks what
:func:`~scalana.graphs.readers.columns.gather.collect` makes of all records, to the last bit: numbers of call paths and
communicators are given in the order of the processes, whichever block they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from scalana.graphs.arrays.columns import narrow, narrowed
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.columns.call_tree import CallTree
from scalana.graphs.readers.columns.gather import Collected, collect
from scalana.graphs.readers.columns.span_reading import Moved, merged
from scalana.graphs.readers.folder.decoding import read_record
from scalana.graphs.readers.folder.native_frames import Frames, Module, native_offsets, with_sources
from scalana.graphs.readers.folder.record_columns import SpanTotals, Totals, UnwrittenTime
from scalana.graphs.readers.folder.records import Events, Samples, Threads
from scalana.graphs.readers.processes.askers import REQUESTS, ROLE
from scalana.graphs.readers.processes.rank_selection import RankRecords
from scalana.runtime.record.format import ProcessRecord, RecordError, Shared

TABLES = (
    "paths", "communicators", "threads", "samples", "events", "unwritten", "totals",
    "names", "lanes", "spans", "attributes", "span_totals",
)  # fmt: skip
"""What every process has a number of rows of."""


_Key = TypeVar("_Key")


@dataclass(slots=True)
class Held:
    """The records of one block, where they were read."""

    records: list[ProcessRecord]
    troubles: list[str]
    """Files that could not be used, with the reason."""

    def __sizeof__(self) -> int:
        return sum(_nbytes(record) for record in self.records)

    def __getstate__(self) -> tuple[Any, ...]:
        return [_without_views(record) for record in self.records], self.troubles

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        records, self.troubles = state
        self.records = [_with_views(record) for record in records]


@dataclass(slots=True)
class Outline:
    """What has to be known of a block to say which of its records stand for which rank."""

    records: list[ProcessRecord]
    """Without columns, but for a first event and open call of those that have any."""
    offsets: dict[Module, set[int]]
    """Of native frames."""
    troubles: list[str]


@dataclass(slots=True)
class Share:
    """What a block contributes to a run."""

    record: list[int]
    """Rows among the block's records ``[processes]``."""
    process: list[int]
    """The number of each in the run, ascending ``[processes]``."""
    rank: list[int]
    """Number of the process in the run, or of that whose child it is ``[processes]``."""
    is_own: list[bool]
    """``[processes]``"""
    first: list[int] = field(default_factory=list)
    """By how much the ranks in a record are to be raised ``[processes]``; empty where there is one world."""
    parts: list[dict[str, str]] = field(default_factory=list)
    """What is told of the role of each ``[processes]``; empty where it is what their records tell."""


@dataclass(slots=True)
class Block:
    """The columns of one block, on their way."""

    process: list[int]
    columns: Collected

    def __getstate__(self) -> tuple[Any, ...]:
        return self.process, _narrowed(self.columns)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.process, self.columns = state


def read_block(files: Sequence[str]) -> Held:
    """Read record files.

    Raises:
        FileNotFoundError: one of them is not there at all.
    """
    records, troubles, shared = [], [], Shared()
    for file in files:
        if not Path(file).exists():
            raise FileNotFoundError(file)
        try:
            records.append(read_record(file, shared))
        except RecordError as error:
            troubles.append(str(error))
    return Held(records, troubles)


def outline(held: Held) -> Outline:
    """What has to be told of a block before its share in the run is known."""
    records = [_emptied(record, _telling(record)) for record in held.records]
    return Outline(records, native_offsets(held.records), held.troubles)


def shares(chosen: RankRecords, outlines: Sequence[Outline]) -> list[Share]:
    """Which records of every block stand for which process of the run; ``chosen`` are records of the outlines."""
    where = {id(record): (block, row) for block, one in enumerate(outlines) for row, record in enumerate(one.records)}
    result = [Share([], [], [], []) for _ in outlines]
    processes = ((entry, record) for entry in chosen.ranks for record in (entry.record, *entry.children))
    for number, (entry, record) in enumerate(processes):
        block, row = where[id(record)]
        share = result[block]
        share.record.append(row)
        share.process.append(number)
        share.rank.append(entry.rank)
        share.is_own.append(record is entry.record)
        share.parts.append({key: record.meta[key] for key in ROLE if key in record.meta})
        share.first += [entry.first] * (len(chosen.worlds) > 1)
    return result


def collect_block(held: Held, share: Share, frames: Frames) -> Block:
    """Put the records of a block together; ``frames`` are the sources of the native ones."""
    records = [with_sources(held.records[row], frames) for row in share.record]
    for record, part in zip(records, share.parts, strict=False):
        record.meta.update(part)
    columns = collect(records, share.rank, share.is_own, share.first or None)
    columns.records = [_emptied(record) for record in records]
    return Block(share.process, columns)


def merge(blocks: Sequence[Block]) -> Collected:
    """Blocks that hold every process of a run once, as one."""
    count = sum(len(block.process) for block in blocks)
    block_of, place_of = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number, block in enumerate(blocks):
        block_of[block.process], place_of[block.process] = number, np.arange(len(block.process))

    def by_process(values: Callable[[Collected], npt.NDArray[Any]]) -> IntArray:
        result = np.zeros(count, np.int64)
        for block in blocks:
            result[block.process] = values(block.columns)
        return result

    rows = {name: by_process(lambda columns, name=name: columns.rows[name]) for name in TABLES}  # type: ignore[misc]
    is_own = by_process(lambda columns: columns.is_own).astype(np.bool_)
    tree, paths, own_paths = _merged_trees(blocks, block_of, place_of, is_own)
    communicators, numbers = _merged_numbers(
        blocks, block_of, place_of, "communicators", lambda columns: columns.communicators
    )
    first = {name: np.concatenate(([0], np.cumsum(column))) for name, column in rows.items()}

    samples, threads, totals, unwritten, span_totals = (
        _room(kind, int(rows[name].sum()))
        for kind, name in (
            (Samples, "samples"), (Threads, "threads"), (Totals, "totals"), (UnwrittenTime, "unwritten"),
            (SpanTotals, "span_totals"),
        )
    )  # fmt: skip
    events = _room(Events, sum(len(block.columns.events) for block in blocks))
    names, name_rows = _merged_numbers(blocks, block_of, place_of, "names", lambda columns: columns.spans.names)
    moved: list[Moved] = []
    claims: list[IntArray] = []
    for number, block in enumerate(blocks):
        columns = block.columns
        process = np.array(block.process, np.int64)
        at = {name: _destinations(process, columns.rows[name], first[name]) for name in rows}
        event_at = np.concatenate((at["events"], _open_destinations(blocks, number, int(rows["events"].sum()))))
        to_path = paths[number]
        to_communicator = np.append(numbers[number], -1)
        to_event = np.append(event_at, -1)
        to_process = np.append(process, -1)
        communicator, place, claiming = columns.claims
        claims.append(np.stack((to_communicator[communicator], place, process[claiming])))
        _put(threads, at["threads"], columns.threads, process=to_process)
        _put(samples, at["samples"], columns.samples, thread=at["threads"], path=to_path)
        _put(
            events, event_at, columns.events, process=to_process, thread=at["threads"], path=to_path,
            communicator=to_communicator, completes=to_event,
        )  # fmt: skip
        _put(totals, at["totals"], columns.totals, process=to_process, path=to_path)
        _put(unwritten, at["unwritten"], columns.unwritten, thread=at["threads"])
        _put(span_totals, at["span_totals"], columns.span_totals, process=to_process, path=to_path)
        moved.append(
            Moved(
                columns.spans,
                at["spans"],
                at["attributes"],
                at["lanes"],
                name_rows[number],
                to_path,
                to_event,
                to_process,
                np.append(at["threads"], -1),
            )
        )
    return Collected(
        records=[
            blocks[block].columns.records[place]
            for block, place in zip(block_of.tolist(), place_of.tolist(), strict=True)
        ],
        rank=by_process(lambda columns: columns.rank),
        is_own=is_own,
        start_ns=by_process(lambda columns: columns.start_ns),
        end_ns=by_process(lambda columns: columns.end_ns),
        thinned=by_process(lambda columns: columns.thinned).astype(np.bool_),
        tree=tree,
        own_paths=own_paths,
        communicators=communicators,
        threads=replace(threads, is_main=threads.is_main.astype(np.bool_), is_own=threads.is_own.astype(np.bool_)),
        samples=narrowed(samples),
        events=narrowed(events),
        unwritten=unwritten,
        span_totals=span_totals,
        spans=merged(moved, rows, names),
        totals=totals,
        rows=rows,
        first=by_process(lambda columns: columns.first),
        claims=np.unique(np.concatenate(claims, axis=1), axis=1),
    )


def _merged_trees(
    blocks: Sequence[Block], block_of: IntArray, place_of: IntArray, is_own: npt.NDArray[np.bool_]
) -> tuple[CallTree, list[IntArray], int]:
    """The call paths of all blocks, in the order in which all processes, ranks first, would have added them."""
    tree = CallTree()
    merges = [tree.add_tree(block.columns.tree) for block in blocks]
    own_paths = 1
    for own in (True, False):
        for process in np.flatnonzero(is_own == own).tolist():
            block = int(block_of[process])
            merges[block].add(int(blocks[block].columns.rows["paths"][place_of[process]]))
        own_paths = len(tree) if own else own_paths
    return tree, [merging.paths for merging in merges], own_paths


def _merged_numbers(
    blocks: Sequence[Block],
    block_of: IntArray,
    place_of: IntArray,
    table: str,
    keys: Callable[[Collected], Sequence[_Key]],
) -> tuple[list[_Key], list[IntArray]]:
    """What all blocks number as they meet it (communicators, names), in the order of the run's processes, and the
    numbers there for those of every block. ``table`` counts what each process was the first to have."""
    known: dict[_Key, int] = {}
    done = [0] * len(blocks)
    for block, place in zip(block_of.tolist(), place_of.tolist(), strict=True):
        columns = blocks[block].columns
        count = int(columns.rows[table][place])
        for key in keys(columns)[done[block] : done[block] + count]:
            known.setdefault(key, len(known))
        done[block] += count
    numbers = [np.array([known[key] for key in keys(block.columns)], np.int64) for block in blocks]
    return list(known), numbers


def _destinations(process: IntArray, rows: IntArray, first: IntArray) -> IntArray:
    """Where in the run's table the rows of a block's one go, those of a process one after the other."""
    rows = rows.astype(np.int64)
    begin = np.cumsum(rows) - rows
    return np.asarray(np.repeat(first[process] - begin, rows) + np.arange(int(rows.sum())))


def _open_destinations(blocks: Sequence[Block], number: int, events: int) -> IntArray:
    """The same for the open calls at the end of the events, which come after the events of all blocks."""
    process = [np.asarray(block.process, np.int64)[_open_processes(block)] for block in blocks]
    order = np.argsort(np.concatenate(process), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    before = sum(len(one) for one in process[:number])
    return events + place[before : before + len(process[number])]


def _open_processes(block: Block) -> IntArray:
    """Rows among a block's processes of its open calls."""
    return np.asarray(block.columns.events.process[int(block.columns.rows["events"].sum()) :], np.int64)


def _room(kind: type[Any], rows: int) -> Any:
    return kind(*(np.empty(rows, np.int64) for _ in fields(kind)))


def _put(table: object, at: IntArray, part: object, **numbers: IntArray) -> None:
    """Write the rows of a part to places of a table; ``numbers`` translate some of its columns."""
    for column in fields(part):  # type: ignore[arg-type]
        values = getattr(part, column.name)
        translated = numbers[column.name][values] if column.name in numbers else values
        getattr(table, column.name)[at] = translated


def _narrowed(table: Any) -> Any:
    """A copy of dataclasses of columns with numbers no wider than need be."""
    changes: dict[str, Any] = {}
    for column in fields(table):
        value = getattr(table, column.name)
        if isinstance(value, np.ndarray) and value.dtype == np.int64:
            changes[column.name] = narrow(value)
        elif is_dataclass(value):
            changes[column.name] = _narrowed(value)
    return replace(table, **changes)


def _telling(record: ProcessRecord) -> IntArray:
    """The events by which it is told whether a process takes part in the run, and how far it came: the first and the
    last, and of one that sends requests all of these; some rows."""
    first = np.unique([0, len(record.events) - 1]) if len(record.events) else np.zeros(0, np.int64)
    if not record.meta.get("asks"):
        return first
    return np.union1d(first, np.flatnonzero(np.isin(np.asarray(record.events.operation), REQUESTS)))


def _emptied(record: ProcessRecord, rows: IntArray | None = None) -> ProcessRecord:
    """A record with some events and the first of its open calls, and nothing else of its columns; without ``rows`` none
    of them."""
    kept: dict[str, IntArray | slice] = {} if rows is None else {"events": rows, "open": slice(1)}
    changes: dict[str, Any] = {"codes": {}, "groups": {}, "names": [], "lanes": []}
    for part in fields(record):
        value = getattr(record, part.name)
        if is_dataclass(value) and not isinstance(value, type):
            some = kept.get(part.name, slice(0))
            columns = (np.asarray(getattr(value, column.name)) for column in fields(value))
            changes[part.name] = type(value)(*(np.array(column[some]) for column in columns))
    return replace(record, **changes)


def _nbytes(record: ProcessRecord) -> int:
    columns = (getattr(record, part.name) for part in fields(record))
    return sum(getattr(value, c.name).nbytes for value in columns if is_dataclass(value) for c in fields(value))


def _without_views(record: ProcessRecord) -> ProcessRecord:
    return _converted(record, lambda view: (bytes(view), view.format) if isinstance(view, memoryview) else view)


def _with_views(record: ProcessRecord) -> ProcessRecord:
    return _converted(record, lambda pair: memoryview(pair[0]).cast(pair[1]) if isinstance(pair, tuple) else pair)


def _converted(record: ProcessRecord, change: Any) -> ProcessRecord:
    """A record with all its columns changed."""
    changes: dict[str, Any] = {
        part.name: type(value)(*(change(getattr(value, c.name)) for c in fields(value)))
        for part in fields(record)
        if is_dataclass(value := getattr(record, part.name)) and not isinstance(value, type)
    }
    groups = {number: group._replace(ranks=change(group.ranks)) for number, group in record.groups.items()}
    return replace(record, groups=groups, **changes)
