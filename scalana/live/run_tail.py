"""The last part of a run that goes on, as a run folder of its own that any analysis can read.

What an update costs depends on what was written since the last one, and on how much is kept.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections import defaultdict

from scalana.runtime.record import layout
from scalana.runtime.record.tail import RecordTail

_FRESH_S = 60.0
_AFTER_NS = 1_000_000_000
"""A record is written about once a second: what ends with the last progress may stand in the next block."""
_IN_MEMORY = "/dev/shm"


class RunTail:
    """The last part of a run, in a folder that lasts as long as this object is open.

    Args:
        folder: the folder of the run.
        keep_s: seconds before the latest moment of each host that are kept.
        keeps_progress: whether as much is kept from before the moment at which the run came further last. Which calls
            were under way then says who is waited for in a job that hangs.
    """

    def __init__(self, folder: str, keep_s: float, keeps_progress: bool = False) -> None:
        self.folder = folder
        self.keep_s = keep_s
        self._keeps_progress = keeps_progress
        self._tails: dict[str, RecordTail] = {}
        self._over: set[str] = set()
        self._has_begun = False
        """Whether any process ever came further: what has ended may be a program that another one started."""
        self._own = tempfile.mkdtemp(prefix="scalana-live-", dir=_IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None)
        atexit.register(self._remove)

    def __enter__(self) -> RunTail:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()
        atexit.unregister(self._remove)

    def _remove(self) -> None:
        shutil.rmtree(self._own, ignore_errors=True)

    def update(self) -> bool:
        """Read what was recorded since the last time; whether there was anything."""
        keep_ns = int(self.keep_s * 1e9)
        grown = False
        for file in layout.record_files(self.folder):
            if file not in self._over:
                if file not in self._tails:
                    self._tails[file] = RecordTail(file, self._keeps_progress)
                grown |= self._tails[file].update(keep_ns)
        self._has_begun |= any(tail.progress_ns for tail in self._tails.values())
        latest, progress = self.latest_ns(), self.progress_ns()
        for file, tail in list(self._tails.items()):
            host = _host(file)
            before = latest[host] - keep_ns
            tail.trim(before, (progress[host] - keep_ns, progress[host] + _AFTER_NS))
            if tail.ended and tail.last_ns < before:
                del self._tails[file]
                self._over.add(file)
        return grown

    def latest_ns(self) -> dict[str, int]:
        """The latest moment that any record of a host speaks of; by host."""
        latest: dict[str, int] = defaultdict(int)
        for file, tail in self._tails.items():
            latest[_host(file)] = max(latest[_host(file)], tail.last_ns)
        return latest

    def progress_ns(self) -> dict[str, int]:
        """When anything on a host came further last; by host."""
        progress: dict[str, int] = defaultdict(int)
        for file, tail in self._tails.items():
            progress[_host(file)] = max(progress[_host(file)], tail.progress_ns or tail.begin_ns)
        return progress

    def quiet(self) -> tuple[float, bool]:
        """Seconds since anything of the run came further, and whether anything ever did."""
        latest, progress = self.latest_ns(), self.progress_ns()
        here = socket.gethostname().replace("/", "_")
        if here in latest:  # also where nothing is written to the records any more
            latest[here] = time.monotonic_ns()
        return min(((latest[host] - progress[host]) * 1e-9 for host in latest), default=0.0), self._has_begun

    def is_over(self) -> bool:
        """Whether nothing more will come: the launcher says so, or nothing is written and no process is left here."""
        try:
            with open(layout.info_file(self.folder), encoding="utf-8") as file:
                if json.load(file).get("exit_code") is not None:
                    return True
        except (OSError, ValueError, AttributeError):
            pass  # a program that records itself has none
        here = f"{socket.gethostname().replace('/', '_')}-"
        files = [file for file in self._tails if not self._tails[file].ended]
        return bool(self._tails) and not any(
            _is_fresh(file) or (os.path.basename(file).startswith(here) and os.path.exists(f"/proc/{_pid(file)}"))
            for file in files
        )

    def write(self) -> str:
        """Write what is kept, as a run folder; returns that."""
        layout.make_records(self._own)
        shutil.rmtree(os.path.dirname(layout.new_record(self._own, "", 0)))
        layout.make_records(self._own)
        _link(layout.info_file(self.folder), layout.info_file(self._own))
        for file, tail in self._tails.items():
            content = tail.content(tail.first_ns or tail.last_ns)
            if not content:
                continue
            own = os.path.join(self._own, os.path.relpath(file, self.folder))
            with open(own, "wb") as target:
                target.write(content)
            with contextlib.suppress(OSError):
                os.utime(own, ns=(0, os.stat(file).st_mtime_ns))  # which may be all that says that it is written to
            for beside in (layout.models_file, layout.operators_file):
                _link(beside(file), beside(own))
        return self._own


def _link(file: str, own: str) -> None:
    """Make what lies in the run's folder lie in ours too, if it does."""
    if os.path.exists(file) and not os.path.lexists(own):
        os.symlink(os.path.abspath(file), own)


def _is_fresh(file: str) -> bool:
    try:
        return time.time() - os.stat(file).st_mtime < _FRESH_S
    except OSError:
        return False


def _pid(file: str) -> str:
    """The process of a record, as its name says."""
    return os.path.basename(file).rsplit("-", 2)[1]


def _host(file: str) -> str:
    """The host of a record, as its name says."""
    return os.path.basename(file).rsplit("-", 2)[0]
