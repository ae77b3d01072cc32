"""The compiled recorder. See record_format.py for what it writes."""

from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, TypedDict, TypeVar

_Code = TypeVar("_Code")
_F = TypeVar("_F", bound=Callable[..., Any])
_Columns = tuple[memoryview[int], ...]

class _Record(TypedDict):
    meta: list[tuple[str, str]]
    codes: tuple[memoryview[int], memoryview[int]]
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
    lanes: list[tuple[int, int, str]]
    unwritten: _Columns
    spans: _Columns
    attributes: _Columns
    span_totals: _Columns
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
def end_as(event: int, /, *ids: int) -> None: ...
def hand(op: int, id: int, nbytes: int = 0, /) -> None: ...
def event_at(
    op: int,
    group: int,
    seq: int,
    peer: int,
    tag: int,
    nbytes: int,
    flags: int,
    completes: int,
    enter_ns: int,
    exit_ns: int,
    cpu_enter_ns: int,
    cpu_ns: int,
    path: int = ...,
    /,
) -> int: ...
def own_path() -> int: ...
def done(event: int, source: int = -1, /) -> None: ...
def number(group_key: int, operation: int, peer: int, tag: int, /) -> int: ...
def know_group(address: int, group_key: int, group: int, ranks: list[int], /) -> None: ...
def forget_group(address: int, /) -> None: ...
def torch_api(
    globals: dict[str, object], codes: tuple[object, ...], autograd: tuple[dict[str, object], ...], /
) -> int: ...
def torch_enter(group: object, op: int, bits: int, peer: int, tag: int, nbytes: int, graph_task: int, /) -> int: ...
def torch_leave(event: int, waits: bool, /) -> None: ...
def torch_posted(event: int, work: object, /) -> bool: ...
def torch_posted_result(event: int, storage: int, /) -> None: ...
def torch_without_future(event: int, /) -> None: ...
def torch_completed(event: int, /) -> None: ...
def torch_post_of_work(work: int, /) -> int: ...
def torch_wait_for(event: int, work: int, /) -> int: ...
def torch_wait_for_storage(storage: int, /) -> int: ...
def torch_recorded_wait(original: Callable[..., object], class_name: str, name: str, /) -> Callable[..., object]: ...
def torch_open_scope(graph_task: int, in_callback: bool, /) -> int: ...
def torch_begin_scope(scope: int, /) -> None: ...
def torch_close_scope(scope: int, /) -> None: ...
def torch_drop_scope(scope: int, /) -> None: ...
def torch_enter_cxx() -> int: ...
def torch_leave_cxx(outer: int, /) -> None: ...
def torch_reconstruct_waits(
    posts: Sequence[tuple[int, int, int, int, int, bool]], begin: int, cpu_at_begin: int, end: int, cpu_at_end: int, /
) -> list[tuple[int, int, int, int]]: ...
def now() -> int: ...
def thread_cpu() -> int: ...
def moment() -> tuple[int, int]: ...
def sample_path(frames: Sequence[tuple[str, str, int, int]], inside: int = 0, /) -> int: ...
def add_sample(tid: int, path: int, state: int, /) -> None: ...
def read(
    path: str | PathLike[str],
    code_type: Callable[[str, str, int, int, bytes], _Code],
    codes: list[_Code],
    code_rows: dict[bytes, int],
    ranks: dict[tuple[bool, bytes], memoryview[int]],
    /,
) -> _Record: ...

# ---- spans ----

span_types: tuple[str, ...]

def intern(text: str, /) -> int: ...
def lane(kind: int, name: str, /) -> int: ...
def span(
    type: int,
    lane: int,
    name: int,
    start_ns: int,
    end_ns: int,
    cpu_ns: int = -1,
    event: int = 0,
    attributes: tuple[int | float | str, ...] | None = None,
    /,
) -> None: ...
def here() -> tuple[int, int]: ...
def span_at(
    type: int,
    lane: int,
    name: int,
    start_ns: int,
    end_ns: int,
    path: int,
    step: int,
    event: int,
    attributes: tuple[object, ...],
    /,
) -> None: ...
def mark_step(source: int, /) -> None: ...
def begin_steps() -> None: ...
def current_step() -> int: ...

class Span:
    """A stretch of the program that it names; see :mod:`scalana.runtime.spans`."""

    name: str
    def __init__(self, name: object, kind: str = "region", lane: str | None = None, **attributes: object) -> None: ...
    @classmethod
    def begin(cls, name: object, kind: str = "region", lane: str | None = None, **attributes: object) -> Span: ...
    def end(self, **attributes: object) -> None: ...
    def again(self, shares_thread: bool, /) -> Span: ...
    def __enter__(self) -> Span: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...
    def __call__(self, function: _F, /) -> _F: ...

class AroundCall:
    """A function with something done before and after it, and no frame of its own in tracebacks.

    Args:
        function: what is called.
        enter: called before it with its arguments, those by keyword last; what it returns is its state.
        leave: called after it with the state, the arguments, the result, and the type of the exception (None).
    """

    def __init__(
        self,
        function: Callable[..., object],
        enter: Callable[[tuple[Any, ...]], object],
        leave: Callable[[Any, tuple[Any, ...], Any, type[BaseException] | None], object],
    ) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...

class StagedCall:
    """A function of an engine of pipelines, recorded in the span that ``spans`` has for its stage.

    Args:
        way: ``action`` for ``stage.method(microbatch, ...)``; ``operations`` for the same where it returns messages,
            which are marked as what they are; ``batch`` for a function that posts these, ``wait`` for one that waits.
        function: what is called.
        otherwise: what is called instead where ``spans`` is None, or something is not as usual.
        name: of messages.
        flag: keyword that chooses between ``spans`` and ``others``.
        works: the type of what is waited for.
        failed: called with the exception when messages cannot be marked.
    """

    spans: dict[int, object] | None
    others: dict[int, object] | None
    def __init__(
        self,
        way: str,
        function: Callable[..., object],
        otherwise: Callable[..., object],
        *,
        name: str = ...,
        flag: str = ...,
        works: type = ...,
        failed: Callable[[BaseException], object] = ...,
    ) -> None: ...
    def __call__(self, *args: Any, **named: Any) -> Any: ...
