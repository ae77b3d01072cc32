"""Trace files wherever they lie: plain, compressed, in folders, in archives."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from scalana.importers.errors import TraceError

SUFFIXES = (
    ".json", ".json.gz", ".trace", ".trace.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet"
)  # fmt: skip
"""Of files that are taken from a folder or an archive; one that is named itself may be called anything."""
_NAMED_BY_RANK = re.compile(r"(?:rank|trace|dump)[-_ ]?\d+(?:\.pkl|\.pickle|\.bin|\.gz)*$")
"""What flight recorders call their files, likewise."""
_TAR = (".tar", ".tar.gz", ".tgz")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One file, or one member of an archive."""

    name: str
    """As it is told to people."""
    open: Callable[[], IO[bytes]]
    """Opens it, with compression taken off."""
    written_ns: int = 0
    """When it was written, since 1970; 0 if it is not known."""


def trace_files(paths: Sequence[str]) -> list[TraceFile]:
    """All files that some paths lead to: themselves, those in folders, those in archives, by name.

    Raises:
        TraceError: a path leads nowhere, or to nothing that may be a trace.
    """
    found: list[TraceFile] = []
    for path in paths:
        here = list(_below(path))
        if not here:
            raise TraceError(f"{path}: contains no trace file ({', '.join(SUFFIXES)})")
        found += here
    return found


def _may_be_trace(name: str) -> bool:
    return name.endswith(SUFFIXES) or _NAMED_BY_RANK.search(name) is not None


def _below(path: str) -> Iterator[TraceFile]:
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = os.path.join(folder, name)
                if _may_be_trace(name):
                    yield TraceFile(file, lambda file=file: _opened(file), _written_ns(file))  # type: ignore[misc]
                elif name.endswith(_TAR):
                    yield from _members(file)
    elif not os.path.exists(path):
        raise TraceError(f"{path}: no such file or folder")
    elif path.endswith(_TAR):
        yield from _members(path)
    else:
        yield TraceFile(path, lambda: _opened(path), _written_ns(path))


def _written_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _members(path: str) -> Iterator[TraceFile]:
    try:
        with tarfile.open(path) as archive:
            names = sorted(member.name for member in archive if member.isfile())
    except (OSError, tarfile.TarError, EOFError) as error:
        raise TraceError(f"{path}: not a readable archive: {error}") from error
    for name in names:
        if _may_be_trace(name) and not os.path.basename(name).startswith("._"):
            yield TraceFile(f"{path}:{name}", lambda name=name: _member(path, name))  # type: ignore[misc]


def _member(path: str, name: str) -> IO[bytes]:
    archive = tarfile.open(path)  # noqa: SIM115  closed with the member, which is all that holds it
    file = archive.extractfile(name)
    if file is None:
        raise TraceError(f"{path}:{name}: not a file")
    return _unpacked(io.BufferedReader(file, 1 << 20))  # type: ignore[type-var,arg-type]


def _opened(path: str) -> IO[bytes]:
    try:
        return _unpacked(open(path, "rb", 1 << 20))  # noqa: SIM115  the caller closes it
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    packed = file.peek(2)[:2] == _GZIP  # type: ignore[attr-defined]
    return gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[return-value]
