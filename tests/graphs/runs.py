"""Synthetic runs, written as real records: each rank's program is a list of steps with exact times."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from scalana.graphs.ppg import PPG, build_ppg
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_BLOCKING, SPAN_TYPE, STATE_ASLEEP, STATE_IPC, STATE_RUNNING
from scalana.runtime.record.layout import write_info
from scalana.runtime.record.writer import RecordWriter

MS = 1_000_000
FILE = "/job/train.py"
LIBRARY = "/usr/lib/python3.11"
MAIN_LINE = 40
LINES = {"mask": 11, "load": 12, "step": 13, "sum": 41, "gather": 42, "send": 43, "recv": 44, "wait": 45}
FUNCTIONS = {"mask", "load", "step"}


@dataclass
class Rank:
    """Writes the record of one process; ``now`` runs along with what it does. Times in ms of its own clock."""

    folder: Path
    rank: int
    world: int
    meta: dict = field(default_factory=dict)
    start_ms: float = 1000.0
    period_ms: float = 5.0
    name: str = ""
    role: str = "rank"

    def __post_init__(self):
        records = self.folder / "records"
        records.mkdir(exist_ok=True)
        self.file = records / (self.name or f"host-{100 + self.rank}-0.rec")
        self.writer = RecordWriter(self.file)
        self.now = self.start_ms
        self.cpu = self.seen_cpu = 700.0  # of the interpreter's start, before the record begins
        self.next_tick = self.start_ms + self.period_ms / 2
        self.ids = iter(range(2, 1 << 30, 2))
        self.paths: dict = {}
        self.codes: dict = {}
        described = {
            "role": self.role, "world_size": str(self.world), "start_ns": str(round(self.start_ms * MS)),
            "unix_ns": str(round(self.start_ms * MS) + 10**18), "boot_id": "boot-a", "host": "a", "cwd": "/job",
            "rate_hz": str(1000 / self.period_ms), "cores": "4", "lib_dirs": LIBRARY,
        }  # fmt: skip
        if self.role == "rank":
            described["rank"] = str(self.rank)
        for key, value in {**described, **self.meta}.items():
            if value is not None:
                self.writer.meta(key, value)
        self.writer.thread(0, 100 + self.rank)
        self.writer.time(round(self.start_ms * MS))

    def frame(self, parent, file, name, line):
        code = self.codes.get((file, name))
        if code is None:
            code = self.codes[file, name] = len(self.codes) + 1
            self.writer.code(code, file, name, LINES.get(name, 1))
        key = (parent, code, line)
        if key not in self.paths:
            self.paths[key] = len(self.paths) + 1
            self.writer.call_path(self.paths[key], parent, code, line)
        return self.paths[key]

    def path(self, what):
        """Path of work in a function, of a call made by the main module, or of a list of (file, function, line)."""
        if isinstance(what, list):
            path = 0
            for file, name, line in what:
                path = self.frame(path, file, name, line)
            return path
        if what in FUNCTIONS:
            return self.frame(self.frame(0, FILE, "<module>", MAIN_LINE), FILE, what, LINES[what])
        return self.frame(0, FILE, "<module>", LINES[what])

    def ticks(self, until, path, cpu_rate, state):
        """Sample whatever happens from now until a moment."""
        while self.next_tick < until:
            used = self.cpu + (self.next_tick - self.now) * cpu_rate
            self.writer.sample(0, round(self.next_tick * MS), path, round((used - self.seen_cpu) * 1000), 0, state)
            self.seen_cpu = used
            self.next_tick += self.period_ms
        self.cpu += (until - self.now) * cpu_rate
        self.now = until

    def work(self, what, ms, cpu_rate=1.0, state=STATE_RUNNING):
        self.ticks(self.now + ms, self.path(what), cpu_rate, state)

    def sleep(self, what, ms):
        self.work(what, ms, 0.0, STATE_ASLEEP)

    def call(self, operation, until, where="sum", cpu_rate=0.0, **fields):
        """A call from now until a moment; returns its event id."""
        event, path, begin, cpu = next(self.ids), self.path(where), self.now, self.cpu
        self.ticks(until, path, cpu_rate, STATE_IPC)
        self.writer.event(
            event, BY_NAME[operation].code, round(begin * MS), round(until * MS) - round(begin * MS), path=path,
            cpu_enter_ns=round(cpu * MS), cpu_ns=round((self.cpu - cpu) * MS),
            **{"group": 1, "flags": EVENT_BLOCKING, **fields},
        )  # fmt: skip
        return event

    def marked_step(self, number, begin, more_ms=0):
        """A step of an optimizer, from a moment to now, or some time more."""
        length = round((self.now - begin) * MS) + round(more_ms * MS)
        mark = {"step": number, "attributes": {"source": "optimizer"}}
        self.writer.span(SPAN_TYPE["step"], "step", round(begin * MS), length, **mark)

    def end(self, status=0):
        self.writer.end(round(self.now * MS), status)
        self.writer.close()


def make_ranks(folder, count, **options):
    """The ranks of a run in one communicator ``world`` of id 1."""
    ranks = [Rank(folder, rank, count, **options) for rank in range(count)]
    for rank in ranks:
        rank.writer.group(1, "world", rank.rank, range(count))
    return ranks


def allreduce(ranks, seq):
    """All ranks meet, a millisecond after the last one is there."""
    until = max(rank.now for rank in ranks) + 1
    for rank in ranks:
        rank.call("allreduce", until, where="sum", seq=seq)


def build(folder, **info) -> PPG:
    if info:
        write_info(folder, info)
    return build_ppg(RunFolder(os.fspath(folder)))


def by_name(ppg, metric):
    """{name of vertex: [value per rank]} of all vertices with any."""
    result: dict = {}
    for vertex, row in zip(ppg.psg.vertices, ppg.metrics[metric].tolist(), strict=True):
        if any(row):
            name = vertex.place.name if vertex.kind.value != "comm" else f"{vertex.kind.value} {vertex.place.line}"
            old = result.get(name, [0.0] * len(row))
            result[name] = [a + b for a, b in zip(old, row, strict=True)]
    return result
