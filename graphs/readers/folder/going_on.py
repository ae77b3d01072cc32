"""Whether processes of a run still record: a report of a run that goes on is of what there is so far."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from scalana.graphs.readers.processes.rank_selection import start_ns
from scalana.runtime.record.format import ProcessRecord

_FRESH_S = 10.0
"""A record of another host was written to this recently if its process still runs: records grow every second."""
_SLACK_S = 1.0


def records_going_on(info: Mapping[str, Any], records: Iterable[ProcessRecord]) -> list[ProcessRecord]:
    """The records of processes that still run; none if the job has ended, whatever it left behind."""
    if info.get("exit_code") is not None:
        return []
    started = "command" in info
    return [record for record in records if not record.ended and _runs(record, started)]


def _runs(record: ProcessRecord, started: bool) -> bool:
    """Whether the process of a record still runs, as far as can be seen from here; of another host's only where a start
    of the job is known, which says so when it ends."""
    if record.meta.get("host") != socket.gethostname():
        if not started:
            return False
        try:
            return time.time() - os.stat(record.file).st_mtime < _FRESH_S
        except OSError:
            return False
    age_s = _age_s(record.number("pid"))
    recorded_s = time.monotonic() - start_ns(record) * 1e-9
    return age_s is not None and age_s > recorded_s - _SLACK_S  # a younger one has the number of one that is gone


def _age_s(pid: int) -> float | None:
    """Since when a process of this host runs; None if it does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
