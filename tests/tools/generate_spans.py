"""Writes the spans of a modelled rank, in the real record format: many a second, for runs of any size."""

from __future__ import annotations

import struct

import numba
import numpy as np
import numpy.typing as npt

from scalana.runtime.record.format import LANE, LANE_SLOT, LANE_STREAM, SPAN, SPAN_TYPE, STRING, TIME

_BLOCK_BYTES = 256 << 10
_TEXTS = ("F", "B", "W", "generate", "stage", "microbatch", "tokens", "reward", "version", "v1", "v2")
"""Names of spans, keys and texts: as string 1, 2 ..."""
_LONGEST = 128
"""Bytes of a span at most."""


@numba.njit(cache=True)
def _put(out, at, value):  # type: ignore[no-untyped-def]  # pragma: no cover
    while value >= 0x80:
        out[at] = value & 0x7F | 0x80
        at += 1
        value >>= 7
    out[at] = value
    return at + 1


@numba.njit(cache=True)
def _encode(rank, first, count, total, base, length, steps, action, trajectory, kind, reals, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Spans ``first`` to ``first + count`` of ``total``: three actions of a pipeline, and then a trajectory."""
    at = 0
    each = length // total
    for number in range(first, first + count):
        generates = number % 4 == 3
        begin = at + 2
        to = _put(out, begin, trajectory if generates else action)
        to = _put(out, to, 2 if generates else 1)
        to = _put(out, to, number % 4 + 1)
        to = _put(out, to, (number - first) * each << 1)
        to = _put(out, to, each * 3 // 4)
        to = _put(out, to, 0)
        to = _put(out, to, 0)
        to = _put(out, to, 0)
        to = _put(out, to, number * steps // total + 1)
        to = _put(out, to, 3)
        if generates:
            to = _put(out, to, 7)
            to = _put(out, to, 0)
            to = _put(out, to, (rank * 31 + number * 7) % 2048 << 1)
            to = _put(out, to, 8)
            to = _put(out, to, 1)
            for byte in range(8):
                out[to + byte] = reals[number % 16 * 8 + byte]
            to += 8
            to = _put(out, to, 9)
            to = _put(out, to, 2)
            to = _put(out, to, 10 + number // 4 % 2)
        else:
            to = _put(out, to, 5)
            to = _put(out, to, 0)
            to = _put(out, to, rank % 8 << 1)
            to = _put(out, to, 6)
            to = _put(out, to, 0)
            to = _put(out, to, number % 32 << 1)
            to = _put(out, to, 7)
            to = _put(out, to, 0)
            to = _put(out, to, 4096 << 1)
        out[at] = kind
        out[at + 1] = to - begin
        at = to
    return at


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(value: str) -> bytes:
    return _varint(len(value)) + value.encode()


def _sized(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + _varint(len(body)) + body


def spans_of(rank: int, count: int, start_ns: int, length_ns: int, steps: int) -> list[bytes]:
    """Payloads of blocks that hold ``count`` spans of a rank, evenly over ``length_ns`` from ``start_ns`` on."""
    definitions = b"".join(
        [_sized(STRING, _varint(number + 1) + _text(text)) for number, text in enumerate(_TEXTS)]
        + [
            _sized(LANE, _varint(number + 1) + _varint(kind) + _varint(0) + _text(name))
            for number, (kind, name) in enumerate(((LANE_STREAM, "compute"), (LANE_SLOT, f"slot {rank % 4}")))
        ]
    )
    payloads = [definitions]
    at_once = _BLOCK_BYTES // 32
    out: npt.NDArray[np.uint8] = np.empty(at_once * _LONGEST, np.uint8)
    reals = np.linspace(-1, 1, 16).view(np.uint8)
    action, trajectory = SPAN_TYPE["action"], SPAN_TYPE["trajectory"]
    for first in range(0, count, at_once):
        base = start_ns + length_ns // count * first
        some = min(at_once, count - first)
        size = _encode(rank, first, some, count, base, length_ns, steps, action, trajectory, SPAN, reals, out)
        payloads.append(struct.pack("B", TIME) + _varint(base) + out[:size].tobytes())
    return payloads
