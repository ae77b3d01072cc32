"""The compiled recorder. See record_format.py for what it writes."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Generic, TypedDict, TypeVar

_Code = TypeVar("_Code")
_Columns = tuple[memoryview[int], ...]

class _Record(TypedDict, Generic[_Code]):
    meta: list[tuple[str, str]]
    codes: dict[int, _Code]
    threads: list[tuple[int, int, str, int]]
    groups: list[tuple[int, str, int, memoryview[int]]]
    notes: list[str]
    names: list[str]
    troubles: list[str]
    paths: _Columns
    dense_paths: bool
    samples: _Columns
    events: _Columns
    done: _Columns
    intervals: _Columns
    totals: _Columns
    open: _Columns
    ended: bool
    status: int
    first_ns: int
    last_ns: int
    blocks: int

def start(
    path: str | PathLike[str], rate_hz: float, budget_bytes: int, flush_s: float = 1.0, native: bool = True
) -> None: ...
def stop(status: int = -1) -> None: ...
def flush() -> None: ...
def set_rate(rate_hz: float, /) -> None: ...
def supported() -> bool: ...
def meta(key: str, value: str) -> None: ...
def note(text: str) -> None: ...
def group(name: str, my_rank: int, ranks: Sequence[int]) -> int: ...
def begin(
    op: int, group: int, seq: int, peer: int, tag: int, nbytes: int, flags: int, completes: int = 0, /
) -> int: ...
def end(event: int, source: int = -1, /) -> None: ...
def done(event: int, source: int = -1, /) -> None: ...
def interval(type: int, name: str, start_ns: int, end_ns: int, cpu_ns: int, /) -> None: ...
def now() -> int: ...
def thread_cpu() -> int: ...
def sample_path(frames: Sequence[tuple[str, str, int, int]], /) -> int: ...
def add_sample(tid: int, path: int, state: int, /) -> None: ...
def read(
    path: str | PathLike[str],
    code_type: Callable[[str, str, int, int, bytes], _Code],
    codes: dict[bytes, _Code],
    ranks: dict[tuple[bool, bytes], memoryview[int]],
    /,
) -> _Record[_Code]: ...
