"""Writes records of processes that call each other, with exact times and without samples."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path

from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_BLOCKING
from scalana.runtime.record.run_writer import RunWriter
from scalana.runtime.record.writer import RecordWriter

START_NS = 5_000_000_000
NS = 1_000_000_000
_POST = 2


class Process:
    """Writes the record of one."""

    def __init__(self, run: RunWriter, part: str, number: int, host: str = "host", ahead_s: float = 0.0) -> None:
        """``ahead_s``: its clocks are ahead of others by so much, that of the calendar, too."""
        ahead_ns = round(ahead_s * NS)
        self.start_ns = START_NS + ahead_ns
        meta = {
            "start_ns": self.start_ns,
            "unix_ns": 10**18 + number + ahead_ns,
            "rate_hz": 200,
            "part_source": "framework",
        }
        self.record: RecordWriter = run.process(host, role="member", part=part, **meta)
        self.record.thread(0, 1)
        self.events = 0
        self.since_s = 0.0

    def call(self, operation: str, call: int, begin_s: float, end_s: float, thread: int = 0) -> None:
        """Something that is handed over (at one time), or waited for."""
        self.events += 1
        flags = _POST if begin_s == end_s else EVENT_BLOCKING
        begin, end = (self.start_ns + round(each * NS) for each in (begin_s, end_s))
        self.record.event(
            self.events, BY_NAME[operation].code, begin, end - begin, thread=thread, seq=call, flags=flags
        )

    def do(self, call: int, begin_s: float, end_s: float) -> None:
        """Idle until it is called, then work for it."""
        self.call("take", call, self.since_s, begin_s)
        self.call("reply", call, end_s, end_s)
        self.since_s = end_s

    def end(self, at_s: float) -> None:
        """It ends."""
        self.record.end(self.start_ns + round(at_s * NS), 0)
        self.record.close()


def write_pool(
    folder: Path,
    rounds: Sequence[Sequence[float]],
    pace: Sequence[float],
    to: Sequence[int] = (),
    own_s: float = 0.0,
) -> float:
    """A pool whose main process hands over tasks of some seconds, and waits for them, in rounds; returns when it ends.

    ``pace``: how many times as long each worker takes. ``to``: the worker that each task of a round is for, if it is
    not whichever is free. ``own_s``: what the main process does by itself after each round.
    """
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0})
    main, workers = Process(run, "main process", 0), [Process(run, "worker", 1 + number) for number in range(len(pace))]
    now, call = 0.0, 0
    for lengths in rounds:
        free = [(now, number) for number in range(len(pace))]
        ends = []
        for number, length_s in enumerate(lengths):
            at, worker = heapq.heappop(free) if not to else (max(now, workers[to[number]].since_s), to[number])
            call += 1
            main.call("submit", call, now, now)
            workers[worker].do(call, at, at + length_s * pace[worker])
            ends.append((call, workers[worker].since_s))
            heapq.heappush(free, (workers[worker].since_s, worker))
        for one, end_s in ends:
            if end_s > now:
                main.call("result", one, now, end_s)
                now = end_s
        now += own_s
    for process in (main, *workers):
        process.end(now)
    return now
