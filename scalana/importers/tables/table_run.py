"""Tables of operations -> a run folder: what every rank did, as if it had been recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalana.importers.frames import Frame, PathTable
from scalana.importers.tables.matching import Collectives, Message, collectives_of, messages_of
from scalana.importers.tables.operation_kinds import Role
from scalana.importers.tables.operations import UNKNOWN, Operations, Table, together
from scalana.importers.tables.rank_timeline import Busy, Call, as_seen, busy_of, in_turn, one_after_the_other
from scalana.importers.tables.table_steps import Steps, numbered, steps_of
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import layout
from scalana.runtime.record.format import EVENT_BLOCKING, EVENT_COMPLETION, EVENT_POST, SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from scalana.runtime.record.writer import RecordWriter

FILE = "operations"
"""In place of a file: a table does not say what of the program an operation is."""
BETWEEN = "(between operations)"
ENGINE = "table"
"""In place of the name of an engine."""
_START_NS = 1_000_000_000
"""Where the earliest operation lies on the axis of the records."""
_TICK_NS = 1_000
"""How far inside of an operation the samples lie that say when it began and ended."""
_WAIT, _SEND, _RECEIVE = (BY_NAME[name].code for name in ("wait", "send", "recv"))
_WORLD = 1
"""The group of all ranks, by which messages go."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A table, ready to be written."""

    table: Table
    operations: Operations
    steps: Steps
    messages: list[Message]
    collectives: Collectives
    ranks: tuple[int, ...]
    """All that the table has."""
    shift_ns: int
    """From the axis of the operations to that of the records."""
    source: str


def write(tables: Sequence[Table], folder: str, source: str, command: Sequence[str], notes: Sequence[str]) -> None:
    """Write the run folder of some tables, which are parts of one job.

    Args:
        tables: of any ranks and steps.
        folder: to be made.
        source: folder of the program's source.
        command: what the run says it was.
        notes: what to say of the tables.

    Raises:
        TraceError: what they say cannot be.
        FileExistsError: the folder holds something already.
        OSError: it cannot be written.
    """
    job = _job(together(tables), source)
    operations = job.operations
    busy = {rank: busy_of(operations, job.table, rank) for rank in job.ranks}
    calls = _calls(job, busy)
    first, last = int(operations.begin_ns.min()), int(operations.end_ns.max())
    run = RunWriter(folder, {"command": list(command), "cwd": source, "seconds": (last - first) * 1e-9})
    for rank in job.ranks:
        writer = run.process(
            "imported", rank=rank, boot_id="imported", world_size=max(job.ranks) + 1, start_ns=_START_NS,
            unix_ns=first, cwd=source, rate_hz=0,
        )  # fmt: skip
        with writer:
            _Record(writer, job, rank, busy[rank]).write(in_turn(calls[rank]))
    told = [*notes, *job.steps.notes]
    if told:
        with open(layout.note_file(folder, "import", 0), "w", encoding="utf-8") as file:
            file.writelines(f"{note}\n" for note in told)


def _job(table: Table, source: str) -> _Job:
    operations, steps = steps_of(table.operations)
    operations = numbered(one_after_the_other(operations, table), table.kinds, table.file)
    return _Job(
        table,
        operations,
        steps,
        messages_of(operations, table.kinds),
        collectives_of(table, operations),
        tuple(np.unique(operations.rank).tolist()),
        _START_NS - int(operations.begin_ns.min()),
        source,
    )


def _calls(job: _Job, busy: dict[int, Busy]) -> dict[int, list[Call]]:
    """The calls of every rank, as it sees them."""
    operations, names = job.operations, [kind.name for kind in job.table.kinds]
    calls: dict[int, list[Call]] = {rank: [] for rank in job.ranks}
    first = int(operations.begin_ns.min())
    columns = (job.collectives.row, job.collectives.group, job.collectives.number)
    for row, group, number in zip(*(column.tolist() for column in columns), strict=True):
        kind = job.table.kinds[operations.kind[row]]
        begin, end, rank = int(operations.begin_ns[row]), int(operations.end_ns[row]), int(operations.rank[row])
        code, step = BY_NAME[kind.operation].code, int(operations.step[row])
        call = Call(kind.name, code, _WORLD + 1 + group, number, step, begin, begin, end)
        calls[rank].append(as_seen(call, busy[rank]))
    for message in job.messages:
        source, target = int(operations.rank[message.maker]), int(operations.rank[message.user])
        made, used = int(operations.end_ns[message.maker]), int(operations.begin_ns[message.user])
        tag, name = int(message.is_backward), names[operations.kind[message.maker]]
        step, number = int(operations.step[message.user]), message.number
        calls[source].append(
            Call(f"{name}, send", _SEND, _WORLD, number, step, made, made, made, target, tag, waits=False)
        )
        idle = busy[target].idle_since(used)
        free = made if idle is None else max(idle, first)
        asked, came = free, made
        if message.receive != UNKNOWN:
            name = names[operations.kind[message.receive]]
            asked, came = int(operations.begin_ns[message.receive]), int(operations.end_ns[message.receive])
        else:
            name = f"{name}, receive"
        came = min(max(came, free), used)
        asked = min(max(asked, free), came)
        calls[target].append(
            Call(name, _RECEIVE, _WORLD, number, step, asked, asked, came, source, tag, user=message.user)
        )
    return calls


class _Record:
    """Writes the record of one rank."""

    def __init__(self, writer: RecordWriter, job: _Job, rank: int, busy: Busy) -> None:
        self.writer, self.job, self.rank, self.busy = writer, job, rank, busy
        self.paths = PathTable(writer)
        self.names = [kind.name for kind in job.table.kinds]
        self.events = 0

    def write(self, calls: Sequence[Call]) -> None:
        """Write it all."""
        operations, writer = self.job.operations, self.writer
        first, end = np.searchsorted(operations.rank, [self.rank, self.rank + 1])
        begin_ns, end_ns = int(operations.begin_ns.min()), int(operations.end_ns[first:end].max())
        writer.thread(0, 0, "operations")
        writer.time(self._moment(begin_ns))
        self._groups()
        self._write_calls(calls)
        self._samples(calls, begin_ns, end_ns)
        self._spans(calls)
        writer.end(self._moment(end_ns))

    def _moment(self, time_ns: int) -> int:
        return time_ns + self.job.shift_ns

    def _path(self, name: str) -> int:
        return self.paths.below(0, Frame(FILE, name))

    def _groups(self) -> None:
        groups = [("all ranks, messages", self.job.ranks)]
        groups += [(group.name, group.ranks) for group in self.job.collectives.groups]
        for number, (name, ranks) in enumerate(groups, _WORLD):
            if self.rank in ranks:
                self.writer.group(number, name, ranks.index(self.rank), ranks)

    def _write_calls(self, calls: Sequence[Call]) -> None:
        """Every call as its post and its completion, or as one, by begin and one after the other."""
        parts: list[tuple[int, int, int, Call]] = []
        for number, call in enumerate(calls):
            event = 2 * (number + 1)
            if not call.waits or call.posted_ns < call.enter_ns:
                parts.append((call.posted_ns, call.posted_ns, event, call))
            if call.waits:
                parts.append((call.enter_ns, call.exit_ns, event, call))
        now = int(self.job.operations.begin_ns.min())
        posted: set[int] = set()
        others = 2 * (len(calls) + 1)
        for begin, end, event, call in sorted(parts, key=lambda part: part[:3]):
            enter = max(begin, now)
            now = max(end, enter)
            whole = call.waits and call.posted_ns == call.enter_ns
            if event in posted:
                self._event(others, call, enter, now, EVENT_COMPLETION, event)
                others += 2
                continue
            posted.add(event)
            self._event(event, call, enter, now, EVENT_BLOCKING if whole else EVENT_POST)
            if not call.waits:
                self.writer.done(event, self._moment(now))

    def _event(self, event: int, call: Call, enter_ns: int, exit_ns: int, flags: int, completes: int = 0) -> None:
        completion = flags == EVENT_COMPLETION
        self.writer.event(
            event,
            _WAIT if completion else call.operation,
            self._moment(enter_ns),
            exit_ns - enter_ns,
            group=0 if completion else call.group,
            seq=0 if completion else call.number,
            peer=-1 if completion else call.peer,
            tag=0 if completion else call.tag,
            flags=flags,
            cpu_ns=-1,
            path=self._path(call.name),
            completes=completes,
        )

    def _samples(self, calls: Sequence[Call], begin_ns: int, end_ns: int) -> None:
        """Where the rank was, just after each stretch of it begins and just before it ends."""
        busy, names, kind = self.busy, self.names, self.job.operations.kind
        stretches = [
            (begin, end, names[kind[row]])
            for row, begin, end in zip(busy.row.tolist(), busy.begin_ns.tolist(), busy.end_ns.tolist(), strict=True)
        ]
        stretches += [(call.enter_ns, call.exit_ns, "") for call in calls if call.waits]
        now, found = begin_ns, []
        for begin, end, name in [*sorted(stretches), (end_ns, end_ns, "")]:
            if begin - now > 4 * _TICK_NS:
                found.append((now, begin, BETWEEN))
            if name and end - begin > 4 * _TICK_NS:
                found.append((begin, end, name))
            now = max(now, end)
        for begin, end, name in found:
            path = self._path(name)
            self.writer.sample(0, self._moment(begin + _TICK_NS), path, -1)
            self.writer.sample(0, self._moment(end - _TICK_NS), path, -1)

    def _spans(self, calls: Sequence[Call]) -> None:
        """Steps; what a stage does, with its waits for input, in runs of the pipeline; other work by its name."""
        operations, steps, kinds = self.job.operations, self.job.steps, self.job.table.kinds
        extent: dict[int, tuple[int, int]] = {}
        for call in calls:
            if call.user != UNKNOWN:
                name = f"RECV_{'B' if call.tag else 'F'}"
                when = call.step, call.enter_ns, call.exit_ns
                self._span("wait", name, when, self._path(call.name), **self._place(call.user))
                _widen(extent, call.step, call.enter_ns, call.exit_ns)
        for row in self.busy.row.tolist():
            kind, step = kinds[operations.kind[row]], int(operations.step[row])
            begin, end, path = int(operations.begin_ns[row]), int(operations.end_ns[row]), self._path(kind.name)
            if kind.role is Role.ACTION:
                self._span("action", kind.action, (step, begin, end), path, **self._place(row))
                _widen(extent, step, begin, end)
            else:
                self._span(kind.span, kind.name, (step, begin, end), path)
        for call in calls:  # such as reducing gradients, behind the last action
            if call.waits and call.step in extent and call.enter_ns >= extent[call.step][1]:
                _widen(extent, call.step, call.enter_ns, call.exit_ns)
        pipeline = self._pipeline() if extent else {}
        place = {number: at for at, number in enumerate(steps.number.tolist(), 1)}  # 0 is the first of a process
        for step, (begin, end) in extent.items():
            # An optimizer's step that begins right then is behind it.
            self._span("action", "RUN", (step, begin, end - 1), 0, number=place.get(step, 1), **pipeline)
        moments = steps.number.tolist(), steps.begin_ns.tolist(), steps.end_ns.tolist()
        for number, begin, end in zip(*moments, strict=True):
            self._span("step", "step", (number, begin, end), 0, source="trainer")

    def _place(self, row: int) -> dict[str, int]:
        operations = self.job.operations
        return {"stage": int(operations.stage[row]), "microbatch": int(operations.microbatch[row])}

    def _pipeline(self) -> dict[str, int | str]:
        """What does not change from one run of the rank's pipeline to the next."""
        operations, job = self.job.operations, self.job
        acts = np.array([kind.role is Role.ACTION for kind in job.table.kinds], bool)[operations.kind]
        mine = operations.replica[acts & (operations.rank == self.rank)][0]
        rows = np.flatnonzero(acts & (operations.replica == mine))
        order = rows[np.argsort(operations.stage[rows], kind="stable")]
        ranks = dict.fromkeys(operations.rank[order].tolist())
        return {
            "engine": ENGINE,
            "schedule": "",
            "stages": int(operations.stage[rows].max()) + 1,
            "microbatches": int(operations.microbatch[rows].max()) + 1,
            "ranks": ",".join(map(str, ranks)),
            "pipeline": 0,
            "trains": 1,
        }

    def _span(self, kind: str, name: str, when: tuple[int, int, int], path: int, /, **attributes: int | str) -> None:
        """Write a span; ``when`` is its step, begin and end."""
        step, begin_ns, end_ns = when
        moment, length_ns = self._moment(begin_ns), end_ns - begin_ns
        self.writer.span(SPAN_TYPE[kind], name, moment, length_ns, step=step, path=path, attributes=dict(attributes))


def _widen(extent: dict[int, tuple[int, int]], step: int, begin_ns: int, end_ns: int) -> None:
    """Make what a step lasts on a rank hold a stretch, too."""
    since, until = extent.get(step, (begin_ns, end_ns))
    extent[step] = min(since, begin_ns), max(until, end_ns)
