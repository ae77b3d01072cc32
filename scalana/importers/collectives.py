"""Communication in the traces of several ranks: what each call is, and which calls of ranks are one operation.

A newer trace says the process group, and its number there (``Seq``). Where it does not, calls of one group follow each
other in one order on all ranks; but ranks begin to record at different moments, so that how many of them one has missed
is found by comparing operations, sizes and ends: members of one collective end together.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.runtime.operations import BY_NAME, BY_TORCH_OP, OPERATIONS, Waits

WORLD = "world"
"""Group of calls that do not say theirs."""
_WORDS = (
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "allreduce"),
    ("allgather", "allgather"),
    ("alltoall", "alltoall"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("irecv", "recv"),
    ("recvanysource", "recv"),
    ("isend", "send"),
)
"""In names without underscores, in lower case; the first that fits."""
_BYTES = {"float": 4, "int": 4, "double": 8, "long": 8, "half": 2, "bfloat16": 2, "c10::half": 2, "c10::bfloat16": 2}
_FURTHEST = 64
"""So many operations more or less than another rank may one have missed."""
_APART_NS = 1_000_000
"""Clocks that seem to differ by less are taken for one."""


@dataclass(slots=True)
class Call:
    """One rank's part in one operation."""

    operation: int
    """Code in the table of operations."""
    group: str
    ranks: tuple[int, ...]
    """World ranks of the group; empty where it is not known."""
    start_ns: int
    """Where ranks wait in it: on the device, or on the thread of a library."""
    end_ns: int
    host: int
    """Row of the event of the host that began it, -1 if it is not in the trace."""
    device: int
    """Row of the event in which ranks wait."""
    nbytes: int = 0
    seq: int = -1
    """Number in its group, -1 where the trace does not say."""
    peer: int = -1
    """World rank of the other side of a message, -1 where it is none or is not known."""
    identity: str = ""
    """What the trace calls the operation on all of its ranks (``Comms Id``), empty where it does not."""


def operation_of(*names: str) -> int:
    """The operation that a kernel or call is, by the first of its names that tells; 0 if none does."""
    for name in names:
        short = name.rpartition("::")[2]
        if short in BY_TORCH_OP:
            return BY_TORCH_OP[short].code
        text = short.partition("(")[0].replace("_", "").replace(":", "").lower()
        if text in ("send", "recv"):
            return BY_NAME[text].code
        for word, operation in _WORDS:
            if word in text:
                return BY_NAME[operation].code
    if any("sendrecv" in name.replace("_", "").lower() for name in names):
        return BY_NAME["alltoall"].code
    return 0


def group_of(arguments: dict[str, Any], groups: dict[str, list[int]]) -> tuple[str, tuple[int, ...]]:
    """The process group that a call names, and its world ranks; :data:`WORLD` and none where it names none."""
    name = arguments.get("Process Group Name", arguments.get("Process Group ID"))
    if name is None or str(name) == "":
        if len(groups) == 1:
            ((only, ranks),) = groups.items()
            return only, tuple(ranks)
        return WORLD, ()
    text = str(name)
    ranks = groups.get(text, [])
    if not ranks:
        try:
            listed = json.loads(str(arguments.get("Process Group Ranks", "")))
            ranks = [int(rank) for rank in listed]
        except (ValueError, TypeError):
            first, size = arguments.get("Global rank start"), arguments.get("Group size")
            stride = arguments.get("Global rank stride", 1)
            if isinstance(first, int) and isinstance(size, int) and isinstance(stride, int) and size > 0:
                ranks = [first + stride * number for number in range(size)]
    return text, tuple(ranks)


def nbytes_of(arguments: dict[str, Any]) -> int:
    """Payload in bytes, 0 where it is not known."""
    elements = arguments.get("In msg nelems", 0)
    size = _BYTES.get(str(arguments.get("dtype", "")).lower(), 1)
    return elements * size if isinstance(elements, int) and elements > 0 else 0


def number_calls(ranks: Sequence[int], calls: Sequence[list[Call]]) -> list[str]:
    """Give every call its number in its group, the same on all ranks.

    Args:
        ranks: world rank of each trace.
        calls: of each trace, in the order in which they began.

    Returns:
        What to tell of it.
    """
    notes: list[str] = []
    messages = (BY_NAME["send"].code, BY_NAME["recv"].code)
    groups: dict[tuple[str, tuple[int, ...]], dict[int, list[Call]]] = defaultdict(dict)
    for rank, own in zip(ranks, calls, strict=True):
        channels: dict[tuple[int, int], int] = defaultdict(int)
        for call in own:
            if call.operation in messages:
                channel = call.operation, call.peer
                call.seq, channels[channel] = channels[channel], channels[channel] + 1
            else:
                groups[call.group, call.ranks].setdefault(rank, []).append(call)
    for members in groups.values():
        if all(call.seq >= 0 for own in members.values() for call in own):
            continue
        if _number_by_identity(list(members.values())):
            continue
        first = max(members, key=lambda rank: len(members[rank]))
        shifts = {rank: _shift(members[first], own) for rank, own in members.items()}
        lowest = min(shifts.values())
        for rank, own in members.items():
            for number, call in enumerate(own):
                call.seq = number + shifts[rank] - lowest
        late = sorted(rank for rank, shift in shifts.items() if shift > lowest)
        early = sorted(rank for rank, shift in shifts.items() if shift == lowest)
        if late:
            few = late if len(late) <= len(early) else early
            notes.append(
                f"rank{'s' * (len(few) > 1)} {', '.join(map(str, few))} began to record "
                f"{'later' if few is late else 'earlier'} than the others: operations are matched from their ends"
            )
    return notes


def _number_by_identity(calls: list[list[Call]]) -> bool:
    """Number the calls of a group by what the traces call their operations; whether they do, each by a name of its own.

    They are numbered in the order in which the first rank came to them.
    """
    begun: dict[str, int] = {}
    for own in calls:
        names = {call.identity for call in own}
        if "" in names or len(names) < len(own):
            return False
        for call in own:
            begun[call.identity] = min(call.start_ns, begun.get(call.identity, call.start_ns))
    number = {identity: place for place, identity in enumerate(sorted(begun, key=lambda name: (begun[name], name)))}
    for own in calls:
        for call in own:
            call.seq = number[call.identity]
    return True


def _shift(reference: list[Call], own: list[Call]) -> int:
    """By how many operations the first of a rank lies behind the first of another."""
    theirs, mine = _series(reference), _series(own)
    furthest = min(_FURTHEST, max(len(reference), len(own)) - 1)
    best = (2.0, float("inf"), 0, 0)
    for shift in range(-furthest, furthest + 1):
        low, high = max(0, shift), min(len(reference), len(own) + shift)
        if high - low < max(1, min(len(reference), len(own)) // 2):
            continue
        pair, other = theirs[:, low:high], mine[:, low - shift : high - shift]
        unlike = float((pair[:2] != other[:2]).any(axis=0).mean())
        apart = (other[2] - pair[2]).astype(np.float64)
        spread = float(np.median(np.abs(apart - np.median(apart)))) + 0.05 * float(np.abs(np.median(apart)))
        best = min(best, (round(unlike, 2), spread, abs(shift), shift))
    return best[3]


def _series(calls: list[Call]) -> IntArray:
    return np.array([(call.operation, call.nbytes, call.end_ns) for call in calls], np.int64).reshape(-1, 3).T


def clock_offsets(calls: Sequence[list[Call]], hosts: Sequence[str]) -> IntArray:
    """What to add to the times of every trace so that collectives end together ``[traces]``.

    Clocks of one host are one, and so are those that hardly differ.
    """
    together = {row.code for row in OPERATIONS if row.waits is Waits.ALL}
    ends: list[dict[tuple[str, tuple[int, ...], int], int]] = [
        {(call.group, call.ranks, call.seq): call.end_ns for call in own if call.operation in together} for own in calls
    ]
    offsets = np.zeros(len(calls), np.int64)
    known = {0}
    for number in range(1, len(calls)):
        if hosts[number] and hosts[number] in {hosts[other] for other in known}:
            offsets[number] = next(offsets[other] for other in known if hosts[other] == hosts[number])
            known.add(number)
            continue
        apart: FloatArray = np.array(
            [
                ends[other][key] + offsets[other] - end
                for other in known
                for key, end in ends[number].items()
                if key in ends[other]
            ],
            np.float64,
        )
        if len(apart):
            median = float(np.median(apart))
            spread = float(np.median(np.abs(apart - median)))
            if abs(median) > _APART_NS and spread < 0.1 * abs(median):
                offsets[number] = round(median)
        known.add(number)
    return offsets
