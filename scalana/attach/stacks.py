"""The stacks of attached processes, as those of a recorded run are shown."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping, Sequence

from scalana.attach.processes import Job, Process
from scalana.attach.spy import Look, Path
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.live.now import Moment, RankNow, Stack
from scalana.report import names

_LIBRARY = re.compile(r"^<|/(site|dist)-packages/|/lib(64)?/python\d")
"""Files of code that is not the user's own."""


def own_frame(path: Path) -> int:
    """The innermost frame of the user's own code, -1 where there is none."""
    return max((row for row, (file, _, _) in enumerate(path) if not _LIBRARY.search(file)), default=-1)


def names_of(ranks: Sequence[Process]) -> tuple[dict[int, int], ProcessNames]:
    """The number of each process, by its pid, and what they are called: by rank, or by pid where they have no ranks of
    one job."""
    numbers = [process.rank for process in ranks]
    if None not in numbers and len(set(numbers)) == len(numbers):
        return {process.pid: process.rank or 0 for process in ranks}, ProcessNames()
    pids = tuple(process.pid for process in ranks)
    return {pid: row for row, pid in enumerate(pids)}, ProcessNames(("process",) * len(pids), pids)


def moment_of(job: Job, looks: Mapping[int, Look]) -> Moment:
    """All processes that could be read, as they are now."""
    number, called = names_of(job.ranks)
    ranks = [
        _now(process, looks[process.pid], number[process.pid], called.one(number[process.pid]))
        for process in job.ranks
        if process.pid in looks
    ]
    helpers = [
        _now(
            process, looks[process.pid], number[owner.pid], f"process {process.pid} of {called.one(number[owner.pid])}"
        )
        for owner, process in job.helpers
        if process.pid in looks and owner.pid in number
    ]
    size = len(job.ranks) if called.several else max([0, *(one.world_size for one in job.ranks)])
    host = socket.gethostname()
    return Moment(tuple(ranks), tuple(helpers), called, size, {}, 0, frozenset({host}), True)


def _now(process: Process, look: Look, number: int, name: str) -> RankNow:
    frames = tuple((names.relative(file, process.cwd), line, function) for file, line, function in look.path)
    return RankNow(
        rank=number,
        name=name,
        state="running" if look.is_active else "asleep",
        operation="",
        seconds=math.nan,
        stack=Stack(frames, own_frame(look.path)),
        functions=0,
        host=socket.gethostname(),
        pid=process.pid,
        tid=look.tid,
    )
