"""Dumps of PyTorch's flight recorder, one file a rank: the last collectives of the rank, with their states and stacks.

They are pickles or JSON of the same shape. A pickle may hold anything that runs; a dump holds numbers, texts, lists and
dictionaries alone, and nothing else is made of it here.
"""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
from dataclasses import dataclass, field
from typing import Any

from scalana.importers.errors import DamagedTrace, TraceError
from scalana.importers.files import TraceFile
from scalana.importers.frames import Frame, in_folder

_PICKLE = b"\x80"
_OF_ENTRIES = ("profiling_name", "time_created_ns", "process_group")
"""What every entry of a dump has."""
_OUTER: dict[str, type] = {"version": str, "pg_config": dict, "pg_status": dict}
"""What a dump says apart from its entries."""
_IN_NAME = re.compile(r"(\d+)(?:\.\w+)*$")
_MESSAGE = re.compile(r"(\d+)\s*(?:->|<-)\s*(\d+)")
_BYTES = {
    "double": 8, "long": 8, "complexfloat": 8, "complexdouble": 16, "half": 2, "bfloat16": 2, "short": 2, "byte": 1,
    "char": 1, "bool": 1,
}  # fmt: skip
"""Of an element, by the name of its type; of others 4."""
_LONGEST_NS = 1 << 62
_MOST_RANKS = 1 << 20
"""A job has fewer."""
_DEFAULT = "0"
"""Name of the group of all ranks."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One rank's part in one operation."""

    library: str
    """``nccl``, ``gloo`` and the like."""
    name: str
    """Of the operation, as the library calls it."""
    group: str
    record: int
    """Number among all that the rank recorded."""
    seq: int
    """Number of the collective in its group; of a message, how many collectives were before it."""
    is_message: bool
    peer: int
    """Of a message the other side's rank in the group, -1 else."""
    nbytes: int
    created_ns: int
    """When the host called it, since 1970."""
    completed_ns: int
    """When it was noticed that it is complete; 0 if it was not, or nobody looked."""
    duration_ns: int
    """How long it took on the device, -1 where that was not measured."""
    timeout_ns: int
    """After which the library gives up, 0 if it is not known."""
    done: bool
    """Whether this rank recorded that it is complete, or no longer followed (``retired``)."""
    noticed: bool
    """Whether the library itself noticed that it is complete; one that timed out is retired, too."""
    shape: str
    """Sizes and types of what goes in and comes out, as text."""
    pg_id: str
    """Number of the group in this process, by which ``pg_status`` names it."""
    frames: tuple[tuple[str, str, int], ...]
    """File, function and line, outermost first."""


@dataclass(slots=True)
class Dump:
    """One file."""

    file: str
    rank: int = -1
    """-1 where the name of the file does not say."""
    world_size: int = 0
    written_ns: int = 0
    """When the file was written, since 1970; 0 if it is not known."""
    version: str = ""
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """World ranks of process groups, by name."""
    entries: list[Entry] = field(default_factory=list)
    """In the order in which the host called them. A rank that completed all that it called may have none."""
    reached: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By group, the numbers of the last collective that was called and of the last one that was complete
    (``pg_status``); -1 for none."""
    damage: str = ""
    """Why not all of the file was read."""
    odd: int = 0
    """Entries that could not be understood."""


def recognises(beginning: bytes) -> bool:
    """Whether a file that begins so may be a dump."""
    text = beginning.lstrip(b"\xef\xbb\xbf \t\r\n")
    marks = (b'"comm_lib_version"', b'"collective_seq_id"', b'"nccl_version"', b'"pg_status"', b'"nccl_comm_state"')
    return beginning[:1] == _PICKLE or (text[:1] == b"{" and any(mark in text for mark in marks))


def read(file: TraceFile) -> Dump:
    """Read one file.

    Raises:
        TraceError: it cannot be read, is no dump, or has entries of which none is whole.
    """
    dump = Dump(file.name, written_ns=file.written_ns)
    try:
        with file.open() as opened:
            data = opened.read()
    except (OSError, EOFError) as error:
        raise TraceError(f"{file.name}: cannot be read: {error}") from error
    told, dump.damage = _unpickled(data) if data[:1] == _PICKLE else _decoded(data)
    entries = told.get("entries", [] if isinstance(told.get("pg_status"), dict) and told["pg_status"] else None)
    if not isinstance(entries, list):
        why = f" ({dump.damage})" if dump.damage else ""
        kind = DamagedTrace if dump.damage else TraceError
        raise kind(f"{file.name}: not a flight recorder dump: it has no list of entries{why}")
    dump.version = str(told.get("version", ""))
    _take_groups(dump, told.get("pg_config"))
    for entry in entries:
        try:
            dump.entries.append(_entry(entry))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            dump.odd += 1
    if dump.odd and not dump.entries:
        raise TraceError(f"{file.name}: none of its {dump.odd} operations can be understood")
    dump.entries.sort(key=lambda entry: (entry.record, entry.created_ns))
    _take_status(dump, told.get("pg_config"), told.get("pg_status"))
    dump.rank = _rank(file.name, told)
    return dump


def _rank(name: str, told: dict[str, Any]) -> int:
    """The rank that a file is of: by its name, or by what it says; -1 if neither does.

    Raises:
        TraceError: no job has such a rank.
    """
    found = re.search(r"rank[-_ ]?(\d+)", name.rpartition("/")[2])
    own = told.get("rank")
    if not found and isinstance(own, int) and not isinstance(own, bool) and own >= 0:
        rank = own
    else:
        found = found or _IN_NAME.search(name)
        rank = int(found[1]) if found else -1
    if rank >= _MOST_RANKS:
        raise TraceError(f"{name}: {rank} is not the rank of a process")
    return rank


class _Plain(pickle.Unpickler):
    """Makes nothing of a pickle but numbers, texts, lists and dictionaries."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it loads {module}.{name}, which no dump contains")


class _Salvaging(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """The same in Python, so that what was made of a torn file can be looked at."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it loads {module}.{name}, which no dump contains")


def _unpickled(data: bytes) -> tuple[dict[str, Any], str]:
    """What a pickle holds, and why that is not all of it."""
    try:
        told = _Plain(io.BytesIO(data)).load()
        return (told if isinstance(told, dict) else {}), ""
    except Exception as error:  # a damaged pickle may raise anything
        why = "the file ends in the middle" if isinstance(error, EOFError) or "truncated" in str(error) else str(error)
    torn = _Salvaging(io.BytesIO(data))
    try:
        torn.load()
    except Exception:  # what is whole lies on its stacks
        pass
    found: dict[str, Any] = {"entries": []}
    stacks = [*getattr(torn, "metastack", []), getattr(torn, "stack", [])]
    for item in [item for stack in stacks for item in stack]:
        for one in item if isinstance(item, list) else [item]:
            if not isinstance(one, dict):
                continue
            if all(key in one for key in _OF_ENTRIES):
                found["entries"].append(one)
            elif isinstance(one.get("entries"), list):
                found = {**one, "entries": [*found["entries"], *one["entries"]]}
            else:
                found.update({key: value for key, value in one.items() if key in ("pg_config", "pg_status")})
    _pairs(stacks, found)
    return (found if found["entries"] or found.get("pg_status") else {}), why or "it cannot be read to its end"


def _pairs(stacks: list[list[Any]], found: dict[str, Any]) -> None:
    """Take keys and values that were to become the outermost dictionary."""
    for stack in stacks:
        for key, value in zip(stack, stack[1:], strict=False):
            if isinstance(key, str) and key in _OUTER and isinstance(value, _OUTER[key]):
                found.setdefault(key, value)


def _decoded(data: bytes) -> tuple[dict[str, Any], str]:
    """What JSON holds, and why that is not all of it."""
    text = data.decode("utf-8", "replace")
    try:
        told = json.loads(text, strict=False)
        return (told if isinstance(told, dict) else {}), ""
    except ValueError:
        pass
    found: dict[str, Any] = {}
    decoder, at = json.JSONDecoder(strict=False), text.find("{") + 1
    key_at = re.compile(r'\s*,?\s*"(\w+)"\s*:\s*')
    while key := key_at.match(text, at):
        at = key.end()
        if key[1] == "entries" and text[at : at + 1] == "[":
            entries: list[Any] = []
            at += 1
            while entry := re.compile(r"\s*,?\s*(?=\{)").match(text, at):
                try:
                    value, at = decoder.raw_decode(text, entry.end())
                except ValueError:
                    return {**found, "entries": entries}, "the file ends in the middle, or an entry cannot be read"
                entries.append(value)
            found["entries"], at = entries, at + 1
            continue
        try:
            found[key[1]], at = decoder.raw_decode(text, at)
        except ValueError:
            break
    return found, "the file ends in the middle, or cannot be read to its end"


def _take_groups(dump: Dump, told: Any) -> None:
    """Put the process groups of a dump into it."""
    for key, group in told.items() if isinstance(told, dict) else ():
        if not isinstance(group, dict):
            continue
        ranks = group.get("ranks")
        try:
            listed = ast.literal_eval(ranks) if isinstance(ranks, str) else ranks
            members = tuple(sorted(map(int, listed or ())))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if members and members[0] >= 0 and members[-1] < _MOST_RANKS:
            dump.groups[str(group.get("name") or key or _DEFAULT)] = members
            dump.world_size = max(dump.world_size, members[-1] + 1)


def _take_status(dump: Dump, config: Any, status: Any) -> None:
    """Put into a dump how far its rank was in every group. ``pg_status`` has numbers of groups, which entries join with
    names; a group without entries is found by its place, since groups are numbered and named in the order in which they
    are made."""
    if not isinstance(status, dict):
        return
    names = {entry.pg_id: entry.group for entry in dump.entries if entry.pg_id}
    numbers = sorted((str(key) for key in status), key=_by_number)
    listed = sorted((str(key) or _DEFAULT for key in config), key=_by_number) if isinstance(config, dict) else []
    by_place = dict(zip(numbers, listed, strict=True)) if len(numbers) == len(listed) else {_DEFAULT: _DEFAULT}
    if all(by_place.get(number, name) == name for number, name in names.items()):
        names = {**by_place, **names}
    for key, group in status.items():
        name = names.get(str(key))
        if name is None or not isinstance(group, dict):
            continue
        try:
            called = int(group.get("last_enqueued_collective", -1))
            completed = int(group.get("last_completed_collective", -1))
        except (ValueError, TypeError, OverflowError):
            continue
        dump.reached[name] = called, completed


def _by_number(name: str) -> tuple[int, str]:
    return (len(name), name) if name.isdecimal() else (1 << 30, name)


def _entry(told: Any) -> Entry:
    """One entry of a dump.

    Raises:
        KeyError, TypeError, ValueError, IndexError: it is none.
    """
    library, _, rest = str(told["profiling_name"]).partition(":")
    name, _, pair = rest.partition(" ")
    message = _MESSAGE.search(pair)
    created = _time(told["time_created_ns"])
    if not name or not created:
        raise ValueError
    duration = told.get("duration_ms")
    state, completed = str(told.get("state", "")), _time(told.get("time_discovered_completed_ns"))
    group = told["process_group"]
    return Entry(
        library=library,
        name=name,
        group=str(group[0] if isinstance(group, (list, tuple)) else group),
        record=_count(told.get("record_id", 0)),
        seq=_count(told.get("collective_seq_id", told.get("seq_id", -1)), least=-1, below=1 << 29),
        is_message=bool(told.get("is_p2p")) or message is not None,
        # "send 1->2" and "recv 2<-1": the other side stands last in both
        peer=_count(message[2], below=_MOST_RANKS) if message else -1,
        nbytes=_count(_nbytes(told.get("input_sizes"), told.get("input_dtypes"))),
        created_ns=created,
        completed_ns=completed,
        duration_ns=round(float(duration) * 1e6) if duration is not None and float(duration) >= 0.0 else -1,
        timeout_ns=_count(told.get("timeout_ms") or 0, below=1 << 40) * 1_000_000,
        done=state == "completed" or completed > 0 or bool(told.get("retired")),
        noticed=state == "completed" or completed > 0,
        shape=_shape(told),
        pg_id=str(told.get("pg_id", "")),
        frames=_frames(told.get("frames")),
    )


def _shape(told: dict[str, Any]) -> str:
    """What goes into an operation and comes out of it, as text: ``1024x2 Float -> 1024x2 Float``."""
    sides = []
    for side in ("input", "output"):
        sizes, types = told.get(f"{side}_sizes"), told.get(f"{side}_dtypes")
        listed = types if isinstance(types, list) else []
        tensors = [
            "x".join(map(str, size)) + (f" {listed[number]}" if number < len(listed) else "")
            for number, size in enumerate(sizes if isinstance(sizes, list) else [])
            if isinstance(size, (list, tuple))
        ]
        sides.append(", ".join(tensors))
    return " -> ".join(sides)


def _time(value: Any) -> int:
    """A moment in ns; 0 for none.

    Raises:
        ValueError: it is no moment.
    """
    return _count(value or 0)


def _count(value: Any, least: int = 0, below: int = _LONGEST_NS) -> int:
    """A number that is in its range.

    Raises:
        ValueError: it is not.
    """
    number = int(value)
    if not least <= number < below:
        raise ValueError
    return number


def _frames(told: Any) -> tuple[tuple[str, str, int], ...]:
    frames = [frame for frame in told or [] if isinstance(frame, dict)]
    return tuple(
        (str(frame.get("filename", "")), str(frame.get("name", "")), int(frame.get("line") or 0))
        for frame in reversed(frames)
    )


def _nbytes(sizes: Any, types: Any) -> int:
    """Bytes of all tensors that go in; 0 where that is not told."""
    total = 0
    for number, size in enumerate(sizes if isinstance(sizes, list) else []):
        elements = 1
        for length in size:
            elements *= int(length)
        kind = str(types[number]).lower() if isinstance(types, list) and number < len(types) else ""
        total += elements * _BYTES.get(kind.removeprefix("c10::"), 4)
    return total


def path_of(entry: Entry, folder: str) -> list[Frame]:
    """The call path of an entry, outermost first; what is not the program's own source is known for it."""
    return [Frame(in_folder(file, folder), name, line) for file, name, line in entry.frames if file]
