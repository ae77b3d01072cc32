"""What the records of a start cross the network in, where its job has no file system in common.

Both ends prove first that they are of one job, by an identity that its ranks agreed on (``worlds/`` of a run folder),
without saying it. Then come files, one after the other, each behind a line that says its name and sizes, compressed.
Nothing that is sent is run, and files go into one folder, by names of a few forms.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

GREETING = "scalana 1"
LONGEST_LINE = 65536
"""Bytes of a line, at most."""
LARGEST_FILE = 1 << 30
LARGEST_START = 1 << 36
"""Bytes of a file, and of all that a start sends, unpacked, at most."""
FIRST_PORT, PORTS = 20000, 10000
TRIES = 3
"""Ports that are tried, one after the other, where another program has one."""
_NAME = re.compile(r"(run\.json|(records|worlds)/[\w@%+=:,][\w.@%+=:,-]*)")
_CHUNK = 1 << 16


class TransferError(Exception):
    """The other end is of another job, or does not keep to the form."""


@dataclass(frozen=True)
class Sender:
    """A start that sends its records, as it says itself."""

    name: str
    host: str
    exit_code: int | None
    seconds: float


def ports_of(job: str) -> list[int]:
    """The ports at which the first start of a job listens: all its starts know the job."""
    first = zlib.crc32(job.encode())
    return [FIRST_PORT + (first + 97 * number) % PORTS for number in range(TRIES)]


def proof(identity: str, role: str, challenge: str) -> str:
    """What shows that one knows an identity, to an end that has asked with a challenge."""
    return hmac.new(identity.encode(), f"{role} {challenge}".encode(), hashlib.sha256).hexdigest()


def known_by(proofs: Sequence[str], identities: Iterable[str], role: str, challenge: str) -> str:
    """The identity that one of some proofs shows; empty where none does."""
    for identity in identities:
        own = proof(identity, role, challenge)
        if any(hmac.compare_digest(own, one) for one in proofs):
            return identity
    return ""


def write_line(stream: IO[bytes], content: object) -> None:
    """Send a line.

    Raises:
        OSError: the connection is lost.
    """
    stream.write(json.dumps(content).encode() + b"\n")
    stream.flush()


def read_line(stream: IO[bytes]) -> dict[str, Any]:
    """The next line.

    Raises:
        TransferError: there is none, or it is none of ours.
        OSError: the connection is lost.
    """
    line = stream.readline(LONGEST_LINE)
    try:
        found = json.loads(line)
    except ValueError:
        raise TransferError("the connection ended, or the other end is another program") from None
    if not isinstance(found, dict):
        raise TransferError("a line has another form")
    return found


def send_files(stream: IO[bytes], folder: str, names: Sequence[str]) -> None:
    """Send files of a folder; one that cannot be read is left out.

    Raises:
        OSError: the connection is lost.
    """
    for name in names:
        try:
            file = open(os.path.join(folder, name), "rb")
        except OSError:
            continue
        with file:
            write_line(stream, {"file": name})
            packer = zlib.compressobj(1)
            while data := file.read(_CHUNK):
                _send_chunk(stream, packer.compress(data))
            _send_chunk(stream, packer.flush())
            stream.write((0).to_bytes(4, "big"))
    write_line(stream, {"end": len(names)})


def receive_files(stream: IO[bytes], folder: str) -> int:
    """Receive files into a folder. Returns how many bytes they have.

    Raises:
        TransferError: a name or a size is not allowed.
        OSError: the connection is lost, or the disk is full.
    """
    total = 0
    while "end" not in (line := read_line(stream)):
        name = line.get("file")
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise TransferError(f"{name!r}: no name of a record")
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb") as file:
            total += _receive(stream, file, min(LARGEST_FILE, LARGEST_START - total))
    return total


def _send_chunk(stream: IO[bytes], data: bytes) -> None:
    if data:
        stream.write(len(data).to_bytes(4, "big"))
        stream.write(data)


def _receive(stream: IO[bytes], file: IO[bytes], most: int) -> int:
    """Unpack a file; returns its size."""
    unpacker, size = zlib.decompressobj(), 0
    while length := int.from_bytes(_exactly(stream, 4), "big"):
        if length > 4 * _CHUNK:
            raise TransferError("a part of a file is too large")
        data = _exactly(stream, length)
        while data:
            unpacked = unpacker.decompress(data, _CHUNK)
            data = unpacker.unconsumed_tail
            size += len(unpacked)
            if size > most:
                raise TransferError("a file is too large")
            file.write(unpacked)
    return size


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise TransferError("the connection ended in the middle")
    return data


def closed(stream: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A stream that is closed in the end, whatever becomes of what it still holds."""

    @contextlib.contextmanager
    def closing() -> Any:
        try:
            yield stream
        finally:
            with contextlib.suppress(OSError):
                stream.close()

    return closing()
