"""A run folder, for reading: what was run, and the records of its processes."""

from __future__ import annotations

import gc
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalana.graphs.readers.folder.decoding import read_record
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED, Moved
from scalana.graphs.readers.processes.chains import Chain
from scalana.runtime.record import layout
from scalana.runtime.record.format import ProcessRecord, RecordError, Shared

PutAway = Callable[[int, list[ProcessRecord]], list[ProcessRecord]]
"""Takes records that were read together, and which of these stretches of the run they are. Called once for each,
whatever happens, by several threads at once that take the stretches in order."""
_AT_ONCE = 64
"""Records that one thread reads before the next."""


class RunFolder:
    """A run folder, for reading.

    Args:
        path: the folder.
        more: other folders, with the rest of its job.
        launch: which launch to analyse, from 1 on, where the job started its ranks several times; None for the longest.
        source: a folder that holds what the folder held in which the job ran, if its sources are elsewhere by now.
        moved: other folders of the run, and where they are now.

    Raises:
        RecordError: there is no such folder, or one is of another job.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        launch: int | None = None,
        source: str | None = None,
        moved: Mapping[str, str] | None = None,
        more: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.path = Path(path)
        self.paths = [self.path, *map(Path, more)]
        self.launch = launch
        self.moved = NOT_MOVED
        for folder in self.paths:
            if not folder.is_dir():
                raise RecordError(f"{folder}: no such run folder")
        if more:
            require_one_job(self.paths)
        self.troubles: list[str] = []
        """Files that could not be used, with the reason, after :meth:`processes`."""
        folders = dict(moved or {})
        if source is not None:
            folders[self._ran_in()] = source
        if folders:
            self.moved = Moved(tuple((old, os.path.abspath(new)) for old, new in folders.items()))

    def _ran_in(self) -> str:
        cwd = self.info.get("cwd")
        if not isinstance(cwd, str) or not cwd:
            raise RecordError(f"{self.path}: does not say in which folder the job ran: name it (OLD=NEW)")
        return cwd

    @property
    def info(self) -> dict[str, Any]:
        """Contents of ``run.json``, of the first folder that has one; empty where it is missing.

        Raises:
            RecordError: it is there, but is not a JSON object.
        """
        infos = [Path(layout.info_file(folder)) for folder in self.paths]
        file = next((file for file in infos if file.exists()), infos[0])
        try:
            info = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RecordError(f"{file}: {error.strerror or error}") from error
        except ValueError as error:
            raise RecordError(f"{file}: not a JSON object: {error}") from error
        if not isinstance(info, dict):
            raise RecordError(f"{file}: not a JSON object")
        if isinstance(info.get("cwd"), str):
            info["cwd"] = self.moved.path(info["cwd"])
        return info

    @property
    def chain(self) -> Chain:
        """The jobs that recorded into it one after the other."""
        return Chain.of(self.info)

    def record_files(self) -> list[Path]:
        """Record files, by name."""
        return [Path(file) for folder in self.paths for file in layout.record_files(folder)]

    def notes(self) -> list[str]:
        """What processes left behind that could not open a record, each note once."""
        return list(dict.fromkeys(note for folder in self.paths for note in layout.notes(folder)))

    def launched_hosts(self) -> list[str]:
        """The other hosts on which launchers were to start processes."""
        return list(dict.fromkeys(host for folder in self.paths for host in layout.launched_hosts(folder)))

    def hangs(self) -> list[tuple[float, float]]:
        """Begin and end of each hang that was seen while the job ran, in seconds since 1970; without end, infinity."""
        found = []
        for folder in self.paths:
            for hang in layout.hangs(folder):
                since, until = hang.get("since_unix_s"), hang.get("until_unix_s")
                if isinstance(since, (int, float)):
                    found.append((float(since), float(until) if isinstance(until, (int, float)) else math.inf))
        return found

    def processes(self, put_away: PutAway | None = None) -> list[ProcessRecord]:
        """Reads all records, ranks first and in order; what ``put_away`` makes of them as soon as they are read.

        Raises:
            RecordError: not one could be read.
        """
        # So many small objects would set off collections over and over, and none of them is garbage.
        collects = gc.isenabled()
        gc.disable()
        try:
            records = list(self._read_all(put_away))
        finally:
            if collects:
                gc.enable()
        if not records:
            if len(self.troubles) < 2:
                nothing = f"{self.path}: contains no records: a run folder, made by `scalana run`, has them in records/"
                raise RecordError(self.troubles[0] if self.troubles else nothing)
            count = len(self.troubles)
            raise RecordError(f"{self.path}: none of its {count} records can be read; the first: {self.troubles[0]}")
        return in_order(records)

    def _read_all(self, put_away: PutAway | None) -> Iterator[ProcessRecord]:
        from concurrent.futures import ThreadPoolExecutor  # most users of this module read nothing

        self.troubles = []
        shared = Shared()
        # Mostly the order of the ranks: processes of a host are started one after the other.
        files = sorted(self.record_files(), key=lambda file: _with_numbers(file.name))

        def read(number: int) -> tuple[list[ProcessRecord], list[str]]:
            records, troubles = [], []
            try:
                for file in files[number * _AT_ONCE : (number + 1) * _AT_ONCE]:
                    try:
                        records.append(read_record(file, shared, self.moved))
                    except RecordError as error:
                        troubles.append(str(error))
            finally:
                records = put_away(number, records) if put_away else records
            return records, troubles

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for records, troubles in pool.map(read, range(-(-len(files) // _AT_ONCE))):
                yield from records
                self.troubles += troubles


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """A name for sorting, its numbers by their values."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def in_order(records: Iterable[ProcessRecord]) -> list[ProcessRecord]:
    """Records of ranks first, by rank, and then by the name of their file."""
    return sorted(records, key=lambda record: (record.rank < 0, record.rank, record.file.name, os.fspath(record.file)))


def require_one_job(folders: Sequence[Path]) -> None:
    """Make sure that several folders hold parts of one job.

    Raises:
        RecordError: one has nothing in common with the others; the message names it.
    """
    left = [(folder, _identities(folder)) for folder in folders]
    _, known = left.pop(0)
    while left:
        joined = next((number for number, (_, own) in enumerate(left) if own & known), None)
        if joined is None:
            break
        known |= left.pop(joined)[1]
    if not left:
        return
    others = ", ".join(str(folder) for folder in folders if folder not in {folder for folder, _ in left})
    folder, own = left[0]
    if own and known:
        raise RecordError(
            f"{folder}: another job than {others}: their ranks never met; report each by itself, or leave {folder} out"
        )
    raise RecordError(
        f"{folder}: nothing shows that it belongs to the job of {others}: its ranks made no process group, or an older "
        "scalana recorded them; copy the records of all folders into one folder if you are sure"
    )


def _identities(folder: Path) -> set[str]:
    """What a folder has in common with others of its job alone."""
    came = [Path(layout.start_folder(folder, name)) for name in layout.start_names(folder)]
    found = {world for one in [folder, *came] for world in layout.worlds(one)}
    token = _token(layout.job_file(folder))
    return found | ({token} if token else set())


def _token(file: str) -> str:
    try:
        said: Any = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(said.get("token", "")) if isinstance(said, dict) else ""
