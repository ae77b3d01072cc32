"""Compiling ahead: a second process compiles the loops that an analysis comes to last, while it goes on.

numba keeps machine code on disk. Where there is none yet, the first analysis would compile one loop after the other, as
it comes to them, with all cores but one idle. The other process begins with the last; where the two meet, the rest is
there. What it compiles is for the types of :data:`LATE`; with others, a loop is compiled when it is called, as ever.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba

from scalana.detectors.delays import splitting, summing
from scalana.detectors.delays import sync_intervals as intervals
from scalana.detectors.whatif import recurrence
from scalana.graphs.arrays import hashing, segments

_i1, _i4, _i8, _f8 = numba.int8[::1], numba.int32[::1], numba.int64[::1], numba.float64[::1]
_columns, _i8_2d = numba.float64[:, ::1], numba.int64[:, ::1]
_meetings = numba.from_dtype(recurrence.MEETING)[::1]
_flags = numba.boolean[::1]
_int, _float = numba.int64, numba.float64


def _of(kind: type[tuple[Any, ...]], *types: Any) -> Any:
    """The type of a named tuple of such columns."""
    same = len(set(types)) == 1
    return numba.types.NamedUniTuple(types[0], len(types), kind) if same else numba.types.NamedTuple(types, kind)


LATE: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (
        recurrence.replay,
        (
            _of(recurrence.Run, _i8, _f8, _f8, _i4, _i4, _flags, _i4, _i1, _i4, _i4, _f8, _i8, _i4, _i8),
            _of(recurrence.Changes, _f8, _i4, _columns, _columns),
            _f8,
            _columns,
            _meetings,
            _columns,
            numba.types.UniTuple(_columns, 2),
        ),
    ),
    (
        splitting.split_comparisons,
        (
            _int,
            _int,
            _of(splitting.RunColumns, _i8, _i4, _flags),
            _of(splitting.SumColumns, _i8, _i4, _f8),
            _of(splitting.GroupColumns, _i8, _i8, _i8, _i8, _i8, _f8),
            _of(splitting.SameWork, _i8_2d, _int),
            _of(splitting.Rules, _int, _int, _int, _float, _float),
        ),
    ),
    (
        summing._collect,
        (
            numba.types.UniTuple(_int, 2),
            _of(summing._Runs, _i8, _i8, _i4, _f8),
            _of(summing._Intervals, _i4, _i4, _i4, _i4, _f8),
            _of(summing._Calls, _f8, _f8, _i4, _i8, _i4, _i4, _f8, _f8, _i4),
            _of(summing._ByTarget, _i4, _i4, _f8),
            _of(summing._ByTarget, _i8, _i8, _f8),
            _of(summing._Targets, _int, _int, _int),
        ),
    ),
    (segments._sort_short, (_i8, _f8, _int)),
    (hashing._ordered, (_i8, _int)),
    (hashing._renumber, (_i8, _i8)),
    (hashing._number, (_i8,)),
    (
        intervals._common_operations,
        (
            _of(intervals._Rows, _i8, _i4, _f8, _i4, _i4),
            _of(intervals._Calls, _i4, _i8, _i4, _i4, _i4, _f8, _f8),
            _of(intervals._Members, _i8, _i4, _i4, _i4, _f8, _f8),
            _of(intervals._Meetings, _flags, _f8, _f8),
            numba.types.UniTuple(_int, 2),
            _float,
        ),
    ),
    (intervals._last_before, (_i4, _i4, _f8, _f8)),
    (intervals._wait_calls, (_i4, _i4, _i4, _i4, _i8, _i4, _i4)),
)
"""Loops and the types that they are called with, the last to be needed first."""


def compile_late() -> None:
    """Compile, or load, one loop after the other."""
    for kernel, types in LATE:
        kernel.compile(types)


def is_compiled(kernel: Any) -> bool:
    """Whether numba keeps machine code of a loop, for whatever types, that it would load: made of the source as it is
    now, by this version of numba. A file's time says less, as a checkout renews it."""
    try:
        return bool(kernel._cache._cache_file._load_index())
    except (AttributeError, OSError, EOFError, ValueError, pickle.UnpicklingError):  # nothing kept, or unreadable
        return False


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Let another process compile what is missing, if there is a core for it, until the end at most."""
    if is_compiled(LATE[0][0]) or _cores() < 2:
        yield
        return
    package = sys.modules["scalana"]  # which may be one that this Python would not find by itself
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from importlib import util; "
        f"spec = util.spec_from_file_location('scalana', {package.__file__!r}, submodule_search_locations="
        f"{list(package.__path__)!r}); sys.modules['scalana'] = util.module_from_spec(spec); "
        f"from {__name__} import compile_late; compile_late()"
    )
    nothing = subprocess.DEVNULL
    try:
        other = subprocess.Popen([sys.executable, "-c", program], stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:  # no more processes, no interpreter of that name: then without
        yield
        return
    try:
        yield
    finally:
        other.kill()
        other.wait()
