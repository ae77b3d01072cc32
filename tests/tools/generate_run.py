"""Writes the run folder of a modelled job, in the real record format, for any number of ranks.

Run: python -m tests.tools.generate_run DIR RANKS [STEPS] [--spans N]

The job is that of :mod:`tests.tools.job_model`. Every rank has a record of its own, with its own numbers for the call
paths that its samples saw, in the order in which they saw them; the program's source lies in the folder.
"""

from __future__ import annotations

import argparse
import struct
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numba  # noqa: E402
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

from scalana.runtime.operations import BY_NAME  # noqa: E402
from scalana.runtime.record import layout  # noqa: E402
from tests.tools.generate_spans import spans_of  # noqa: E402
from tests.tools.job_model import Model, Program, Times, program_of, simulate  # noqa: E402

Bytes = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]

_META, _CODE, _THREAD, _GROUP = 1, 2, 4, 15
_BLOCK_BYTES = 256 << 10
_START_NS = 5_000_000_000
_UNIX_NS = 1_700_000_000_000_000_000


def varint(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return varint(len(encoded)) + encoded


@numba.njit(cache=True)
def _put(out, at, value):  # type: ignore[no-untyped-def]  # pragma: no cover
    while value >= 0x80:
        out[at] = value & 0x7F | 0x80
        at += 1
        value >>= 7
    out[at] = value
    return at + 1


@numba.njit(cache=True)
def _put_signed(out, at, value):  # type: ignore[no-untyped-def]  # pragma: no cover
    return _put(out, at, value << 1 if value >= 0 else (-value << 1) - 1)


@dataclass
class Paths:
    """All call paths of a program, as one tree; path 0 is the empty one."""

    parent: IntArray
    code: IntArray
    line: IntArray
    codes: list[bytes]
    """What stands in the record of each code after its id."""
    call: IntArray
    """Path of the call in each slot ``[slots]``."""
    leaf_first: IntArray
    """``leaves[leaf_first[s]:leaf_first[s + 1]]`` are the paths sampled in segment ``s``."""
    leaves: IntArray


def paths_of(program: Program, file: str) -> Paths:
    """The call paths that a job of the program can be seen in."""
    codes: list[bytes] = [b""]
    rows: list[tuple[int, int, int]] = [(0, 0, 0)]

    def code(name: str, first_line: int) -> int:
        codes.append(_text(file) + _text(name) + varint(first_line) + varint(0) + varint(0))
        return len(codes) - 1

    def path(parent: int, of: int, line: int) -> int:
        rows.append((parent, of, line))
        return len(rows) - 1

    top = path(0, code("<module>", 1), program.start_line)
    main = code("main", program.main_line)
    callers: dict[str, tuple[int, int]] = {}
    leaf_first, leaves = [0], []
    for segment, (name, first) in enumerate(program.callers):
        if name not in callers:
            callers[name] = code(name, first), path(top, main, program.calls[name])
        of, below = callers[name]
        for kernel, kernel_first, sampled, line in program.kernels[segment]:
            site = path(below, of, line)
            kernel_code = code(kernel, kernel_first)
            leaves += [path(site, kernel_code, at) for at in sampled]
        leaf_first.append(len(leaves))
    calls = [path(callers[slot.function][1], callers[slot.function][0], slot.line) for slot in program.slots]
    table = np.array(rows, np.int64)
    return Paths(
        *(np.ascontiguousarray(table[:, i]) for i in range(3)),
        codes,
        np.array(calls, np.int64),
        np.array(leaf_first, np.int64),
        np.array(leaves, np.int64),
    )


@numba.njit(cache=True)
def _define(path, parent, code, line, path_id, code_id, counts, bodies, body_first, out, at):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Define a path, and what it needs, where that has not been done."""
    chain = np.empty(64, np.int64)
    depth = 0
    while path > 0 and path_id[path] == 0:
        chain[depth] = path
        depth += 1
        path = parent[path]
    while depth > 0:
        depth -= 1
        path = chain[depth]
        of = code[path]
        if code_id[of] == 0:
            counts[0] += 1
            code_id[of] = counts[0]
            out[at] = 2
            at = _put(out, at + 1, code_id[of])
            for byte in range(body_first[of], body_first[of + 1]):
                out[at] = bodies[byte]
                at += 1
        counts[1] += 1
        path_id[path] = counts[1]
        out[at] = 3
        at = _put(out, at + 1, path_id[path])
        at = _put(out, at, path_id[parent[path]])
        at = _put(out, at, code_id[of])
        at = _put(out, at, line[path])
    return at


@numba.njit(cache=True)
def _encode(  # type: ignore[no-untyped-def]  # pragma: no cover
    enter,
    leave,
    extra,
    start_ns,
    phase_ns,
    period_ns,
    operation,
    group,
    segment,
    left,
    right,
    send,
    recv,
    parent,
    code,
    line,
    call_path,
    leaf_first,
    leaves,
    bodies,
    body_first,
    block_bytes,
    out,
    breaks,
):
    """Samples and events of one rank. Returns the bytes written and the number of blocks (``breaks`` holds ends)."""
    path_id = np.zeros(len(parent), np.int64)
    code_id = np.zeros(len(body_first), np.int64)
    counts = np.zeros(2, np.int64)
    seqs = np.zeros(6, np.int64)
    slots = len(operation)
    at = 0
    base = 0
    since_us = 0
    cpu = 0
    sampled_cpu = 0
    tick = phase_ns
    before = 0
    used = 0
    for row in range(len(enter)):
        slot = row % slots
        if row == 0 or at - (breaks[used - 1] if used > 0 else 0) > block_bytes:
            if row > 0:
                breaks[used] = at
                used += 1
            base = before + start_ns
            since_us = 0
            out[at] = 5
            at = _put(out, at + 1, base)
        place = segment[slot]
        length = enter[row] - before
        if place >= 0:
            first, last = leaf_first[place], leaf_first[place + 1]
            plain = length - extra[row]
            if tick < before:
                tick += (before - tick + period_ns - 1) // period_ns * period_ns
            while tick < enter[row]:
                inside = tick - before
                number = (last - first) * inside // plain if inside < plain else last - first - 1
                path = leaves[first + number]
                at = _define(path, parent, code, line, path_id, code_id, counts, bodies, body_first, out, at)
                us = (tick + start_ns - base) // 1000
                out[at] = 6
                at = _put(out, at + 1, 0)
                at = _put_signed(out, at, us - since_us)
                at = _put(out, at, path_id[path])
                at = _put(out, at, (cpu + inside - sampled_cpu) // 1000)
                at = _put(out, at, 0)
                at = _put(out, at, 0)
                since_us = us
                sampled_cpu = cpu + inside
                tick += period_ns
        cpu += length
        path = call_path[slot]
        at = _define(path, parent, code, line, path_id, code_id, counts, bodies, body_first, out, at)
        channel = group[slot] if operation[slot] != send and operation[slot] != recv else 4 + (operation[slot] == recv)
        out[at] = 8
        at = _put(out, at + 1, 2 * row + 2)
        at = _put(out, at, 0)
        at = _put(out, at, operation[slot])
        at = _put(out, at, group[slot])
        at = _put(out, at, seqs[channel])
        peer = right if operation[slot] == send else (left if operation[slot] == recv else -1)
        at = _put_signed(out, at, peer)
        at = _put_signed(out, at, 0)
        at = _put(out, at, 4096)
        at = _put(out, at, 1)
        at = _put_signed(out, at, enter[row] + start_ns - base)
        at = _put(out, at, leave[row] - enter[row])
        at = _put(out, at, cpu)
        at = _put(out, at, (leave[row] - enter[row]) // 8)
        at = _put(out, at, path_id[path])
        at = _put(out, at, 0)
        seqs[channel] += 1
        cpu += (leave[row] - enter[row]) // 8
        before = leave[row]
    out[at] = 14
    at = _put_signed(out, at + 1, before + start_ns - base)
    at = _put_signed(out, at, 0)
    breaks[used] = at
    return at, used + 1


def write_run(
    folder: Path, model: Model, progress: Callable[[str, int, int], None] | None = None, spans: int = 0
) -> Program:
    """Write the run folder of a model, with as many spans a rank, and return the program that it ran."""
    layout.make_records(folder)
    program = program_of(model)
    file = folder.resolve() / "train.py"
    file.write_text(program.text)
    times = simulate(model, program.slots)
    seconds = float(times.exit.max(initial=0)) * 1e-9
    info = {"command": ["python", "train.py"], "cwd": str(folder.resolve()), "seconds": seconds, "exit_code": 0}
    layout.write_info(folder, info)
    write = _Writer(model, program, times, file, spans)
    for rank in range(model.ranks):
        write.record(folder, rank)
        if progress is not None and rank % 256 == 0:
            progress("writing", rank, model.ranks)
    return program


class _Writer:
    """Writes the records of a modelled run."""

    def __init__(self, model: Model, program: Program, times: Times, file: Path, spans: int) -> None:
        self.model, self.times, self.file, self.spans = model, times, file, spans
        self.paths = paths_of(program, str(file))
        self.bodies = np.frombuffer(b"".join(self.paths.codes), np.uint8)
        self.body_first = np.r_[0, np.cumsum([len(body) for body in self.paths.codes])].astype(np.int64)
        self.slots = tuple(
            np.array([getattr(slot, name) for slot in program.slots], np.int64)
            for name in ("operation", "group", "segment")
        )
        samples = int(times.exit.max(initial=0)) * model.rate_hz // 10**9 + 2
        size = 100 * (len(times.enter) + samples) + 16 * len(self.paths.parent) + len(self.bodies) + 1024
        self.out = np.empty(size, np.uint8)
        self.random = np.random.default_rng(model.seed + 1)
        hosts = model.ranks // model.ranks_per_host + 1
        self.offset_ns = self.random.integers(0, 10**9, hosts)
        self.guess_ns = self.random.integers(-(10**6), 10**6, hosts)
        self.period_ns = 10**9 // model.rate_hz

    def record(self, folder: Path, rank: int) -> None:
        """Write the record of one rank."""
        model, times, paths = self.model, self.times, self.paths
        host = rank // model.ranks_per_host
        start_ns = _START_NS + int(self.offset_ns[host])
        payloads = [self._definitions(rank, host, start_ns)]
        breaks = np.empty(len(self.out) // _BLOCK_BYTES + 2, np.int64)
        width = model.columns
        in_row, row = rank % width, rank // width * width
        _, blocks = _encode(
            np.ascontiguousarray(times.enter[:, rank]),
            np.ascontiguousarray(times.exit[:, rank]),
            np.ascontiguousarray(times.extra[:, rank]).astype(np.int64),
            start_ns,
            int(self.random.integers(0, self.period_ns)),
            self.period_ns,
            *self.slots,
            row + (in_row - 1) % width,
            row + (in_row + 1) % width,
            BY_NAME["send"].code,
            BY_NAME["recv"].code,
            paths.parent,
            paths.code,
            paths.line,
            paths.call,
            paths.leaf_first,
            paths.leaves,
            self.bodies,
            self.body_first,
            _BLOCK_BYTES,
            self.out,
            breaks,
        )
        edges = [0, *breaks[:blocks].tolist()]
        payloads += [self.out[a:b].tobytes() for a, b in zip(edges[:-1], edges[1:], strict=True)]
        if self.spans:
            payloads += spans_of(rank, self.spans, start_ns, int(times.exit[:, rank].max(initial=0)), model.steps)
        with open(layout.new_record(folder, f"node{host:04d}", rank + 1000), "xb") as file:
            file.write(b"SCALANA1" + struct.pack("<II", 2, 2))
            for number, payload in enumerate(payloads):
                file.write(struct.pack("<IIII", 0x4B4C4253, len(payload), zlib.crc32(payload), number))
                file.write(payload)

    def _definitions(self, rank: int, host: int, start_ns: int) -> bytes:
        model = self.model
        meta = {
            "role": "rank",
            "rank": rank,
            "world_size": model.ranks,
            "host": f"node{host:04d}",
            "boot_id": f"boot{host:04d}",
            "pid": rank + 1000,
            "cwd": self.file.parent,
            "rate_hz": model.rate_hz,
            "start_ns": start_ns,
            "unix_ns": _UNIX_NS + int(self.guess_ns[host]),
            "cores": model.ranks_per_host,
            "lib_dirs": "/usr/lib/python3",
            "sampler": "native",
        }
        out = bytearray()
        for key, value in meta.items():
            out += bytes([_META]) + _text(key) + _text(str(value))
        out += bytes([_THREAD]) + varint(0) + varint(rank + 1000) + _text("MainThread") + varint(3)
        width, rows = model.columns, model.ranks // model.columns
        row, column = divmod(rank, width)
        for number, name, mine, first, step, size in (
            (1, "world", rank, 0, 1, model.ranks),
            (2, f"row{row}", column, row * width, 1, width),
            (3, f"column{column}", row, column, width, rows),
        ):
            stride = varint(first) + varint(2 * step) + varint(size)
            out += bytes([_GROUP]) + varint(number) + _text(name) + varint(mine) + varint(1) + stride
        return bytes(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the run folder of a modelled job, in the real record format.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("ranks", type=int, nargs="?", default=256)
    parser.add_argument("steps", type=int, nargs="?", default=72)
    parser.add_argument("--spans", type=int, default=0, help="spans of every rank, pipeline actions and trajectories")
    arguments = parser.parse_args()
    model = Model(arguments.ranks, arguments.steps)
    write_run(arguments.folder, model, spans=arguments.spans)
    print(f"{arguments.folder}: {model.ranks} ranks, {model.steps} steps")
