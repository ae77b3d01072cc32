"""A record file as blocks: what its checksums vouch for, and what is said of the rest."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

_FILE_MAGIC, _FILE_HEADER, _VERSION = b"SCALANA1", 16, 2
_BLOCK_MAGIC, _BLOCK_HEADER, _BLOCK_MAX = struct.pack("<I", 0x4B4C4253), 16, 64 << 20


class Block(NamedTuple):
    """A block whose checksum is right."""

    number: int
    begin: int
    """Where its payload begins in the file."""
    end: int


def check_header(data: bytes, name: str) -> None:
    """Make sure that this is a record that can be read.

    Raises:
        ValueError: it is none, or one of a newer version; the message names the file.
    """
    if len(data) < _FILE_HEADER or not data.startswith(_FILE_MAGIC):
        raise ValueError(f"{name}: not a record of scalana")
    version, reader = struct.unpack_from("<II", data, 8)
    if version == 0 or (reader or version) > _VERSION:
        raise ValueError(f"{name}: a record of a newer version of scalana; read it with that version")


def blocks(data: bytes, troubles: list[str]) -> Iterator[Block]:
    """The blocks of a file in their order; what is torn or damaged is said in ``troubles``."""
    at, end = _FILE_HEADER, len(data)
    while at < end:
        if not _is_block(data, at):
            after = _next_block(data, at + 1)
            what = "torn last block dropped" if after == end else "damaged stretch skipped"
            troubles.append(f"{what}: {after - at} bytes at offset {at}")
            at = after
            continue
        _, size, checksum, number = struct.unpack_from("<IIII", data, at)
        begin = at + _BLOCK_HEADER
        behind = begin + size
        if zlib.crc32(data[begin:behind]) != checksum:
            troubles.append(f"block {number} skipped: its checksum is wrong ({size} bytes at offset {at})")
            # If its length is wrong too, the next whole block may begin inside of it.
            at = behind if behind == end or _is_block(data, behind) else _next_block(data, at + 1)
            continue
        yield Block(number, begin, behind)
        at = behind


def _is_block(data: bytes, at: int) -> bool:
    if len(data) - at < _BLOCK_HEADER or data[at : at + 4] != _BLOCK_MAGIC:
        return False
    (size,) = struct.unpack_from("<I", data, at + 4)
    return bool(size <= min(_BLOCK_MAX, len(data) - at - _BLOCK_HEADER))


def _next_block(data: bytes, at: int) -> int:
    """The next place that looks like a whole block, or the end: how to go on after a damaged header."""
    while (at := data.find(_BLOCK_MAGIC, at)) >= 0:
        if _is_block(data, at):
            size, checksum = struct.unpack_from("<II", data, at + 4)
            if zlib.crc32(data[at + _BLOCK_HEADER : at + _BLOCK_HEADER + size]) == checksum:
                return at
        at += 1
    return len(data)
