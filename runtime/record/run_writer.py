"""Writes whole run folders in plain Python: for importers of other tools' traces, generators and tests."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import layout
from .writer import RecordWriter

__all__ = ["RunWriter"]


class RunWriter:
    """A run folder that is being written.

    What a trace does not tell is left out: CPU times are then unknown (``cpu_ns=-1``, ``cpu_us=-1`` of
    :class:`~scalana.runtime.record.writer.RecordWriter`), and there need be no samples and no call paths.

    Args:
        folder: where; it must not exist, or be empty.
        info: what ``run.json`` says: ``command``, ``cwd``, ``seconds``, ``exit_code``, as far as they are known.

    Raises:
        FileExistsError: the folder holds something already.
        OSError: it cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], info: Mapping[str, object]) -> None:
        self.folder = os.fspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        if os.listdir(self.folder):
            raise FileExistsError(f"{self.folder} exists and is not empty")
        layout.make_records(self.folder)
        layout.write_info(self.folder, info)
        self._pids: dict[str, int] = {}

    def process(self, host: str, *, rank: int = -1, pid: int = 0, role: str = "", **meta: object) -> RecordWriter:
        """The record of one process, to be closed by whoever asks for it.

        Args:
            host: processes of one host have one clock, unless ``boot_id`` says otherwise.
            rank: world rank, -1 for none.
            pid: its number there; numbered from 1 on where none is told.
            role: ``rank``, ``child``, ``launcher`` or ``process``; by default told by ``rank``.
            meta: what else is known: ``world_size``, ``start_ns`` and ``unix_ns`` (one moment by the clock of all times
                in the record, and by that of the calendar), ``cwd``, ``lib_dirs``, ``rate_hz``, ``cores``,
                ``core_list``.

        Raises:
            OSError: it cannot be written.
        """
        pid = pid or self._pids.get(host, 0) + 1
        self._pids[host] = max(pid, self._pids.get(host, 0))
        writer = RecordWriter(layout.new_record(self.folder, host, pid))
        told = {"role": role or ("rank" if rank >= 0 else "process"), "host": host, "boot_id": host, "pid": pid}
        for key, value in {**told, **({"rank": rank} if rank >= 0 else {}), **meta}.items():
            writer.meta(key, str(value))
        return writer
