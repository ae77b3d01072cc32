"""libclang: loading it, and what its Python bindings leave out."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clang.cindex import Cursor, File, SourceLocation, TranslationUnit

KEEP_GOING = 0x200
"""Option of a parse: a missing header does not end it."""
DETAILED_RECORD = 0x01
"""Option of a parse: remember what the preprocessor skipped."""


class ClangMissing(Exception):
    """libclang is not installed, or cannot be loaded; says what to do."""


def bindings() -> Any:
    """The module ``clang.cindex`` with the library loaded.

    Raises:
        ClangMissing: it is not there.
    """
    try:
        from clang import cindex
    except ImportError as error:
        raise ClangMissing("C and C++ sources need libclang: pip install libclang") from error
    try:
        cindex.conf.lib  # noqa: B018 (loads the library)
    except cindex.LibclangError as error:
        reason = str(error).splitlines()[0]
        raise ClangMissing(f"libclang cannot be loaded: {reason}; try pip install libclang") from error
    return cindex


def version() -> str:
    """What the library says about itself, for the keys of cached results."""
    cindex = bindings()
    library = cindex.conf.lib
    library.clang_getClangVersion.restype = cindex._CXString
    text: Any = library.clang_getClangVersion()
    raw = cindex.conf.lib.clang_getCString(text)
    return raw.decode() if isinstance(raw, bytes) else str(raw)


_KINDS: dict[int, str] = {}


def kind_of(cursor: Cursor) -> str:
    """The name of a cursor's kind; the bindings look it up anew each time, and no question is asked more often."""
    number = cursor._kind_id
    known = _KINDS.get(number)
    if known is None:
        known = _KINDS[number] = cursor.kind.name
    return known


@functools.cache
def _visit() -> tuple[Callable[..., int], Any]:
    """The library's function that goes through the parts of a cursor, and what it is to call for each."""
    function: Any = bindings().conf.lib.clang_visitChildren

    def visit(child: Cursor, parent: Cursor, found: list[Cursor]) -> int:
        found.append(child)
        return 1  # go on, but not into it

    return function, function.argtypes[1](visit)


def parts_of(cursor: Cursor) -> list[Cursor]:
    """The parts of a cursor; what the bindings have for it takes three times as long."""
    found: list[Cursor] = []
    function, visitor = _visit()
    function(cursor, visitor, found)
    for child in found:
        child._tu = cursor._tu
    return found


def children_of(cursor: Cursor) -> Sequence[Cursor]:
    """The parts of a cursor, kept with it: in expressions, most are asked for several times."""
    known: Sequence[Cursor] | None = getattr(cursor, "_parts", None)
    if known is None:
        known = cursor._parts = parts_of(cursor)
    return known


def referenced(cursor: Cursor) -> Cursor | None:
    """The declaration that an expression names or calls, None if there is none; kept with it."""
    if not hasattr(cursor, "_names"):
        cursor._names = cursor.referenced
    found: Cursor | None = cursor._names
    return found


def handle_of(file: File) -> int:
    """A number that a file has within its translation unit."""
    return ctypes.addressof(file.obj.contents)


def start_of(cursor: Cursor) -> SourceLocation:
    """Where a cursor begins."""
    known: SourceLocation | None = getattr(cursor, "_start", None)
    if known is None:
        known = cursor._start = cursor.extent.start
    return known


def end_of(cursor: Cursor) -> SourceLocation:
    """Where a cursor ends."""
    known: SourceLocation | None = getattr(cursor, "_end", None)
    if known is None:
        known = cursor._end = cursor.extent.end
    return known


def is_dynamic_call(cursor: Cursor) -> bool:
    """Whether a call of a method goes through the table of virtual functions."""
    library = bindings().conf.lib
    return bool(library.clang_Cursor_isDynamicCall(cursor))


def in_system_header(cursor: Cursor) -> bool:
    """Whether a declaration stands in a header of the system, by how the header was found and not by its path."""
    return bool(bindings().conf.lib.clang_Location_isInSystemHeader(cursor.location))


def pattern_of(cursor: Cursor) -> Cursor | None:
    """The template that a function or class is an instantiation of, None for anything else."""
    library = bindings().conf.lib
    found: Cursor | None = library.clang_getSpecializedCursorTemplate(cursor)
    return found


def overridden(cursor: Cursor) -> list[Cursor]:
    """The methods of base classes that a method overrides directly."""
    cindex = bindings()
    library = cindex.conf.lib
    array, count = ctypes.POINTER(cindex.Cursor)(), ctypes.c_uint()
    function = library.clang_getOverriddenCursors
    function.argtypes = [cindex.Cursor, ctypes.POINTER(ctypes.POINTER(cindex.Cursor)), ctypes.POINTER(ctypes.c_uint)]
    function.restype = None
    function(cursor, ctypes.byref(array), ctypes.byref(count))
    found = []
    for number in range(count.value):
        other = cindex.Cursor()
        ctypes.memmove(ctypes.byref(other), ctypes.byref(array[number]), ctypes.sizeof(cindex.Cursor))
        other._tu = cursor._tu
        found.append(other)
    if count.value:
        dispose = library.clang_disposeOverriddenCursors
        dispose.argtypes = [ctypes.POINTER(cindex.Cursor)]
        dispose.restype = None
        dispose(array)
    return found


def constant(cursor: Cursor) -> int | None:
    """The value of an integer expression that is a constant, None for any other."""
    cindex = bindings()
    library = cindex.conf.lib
    evaluate, kind_of = library.clang_Cursor_Evaluate, library.clang_EvalResult_getKind
    as_int, dispose = library.clang_EvalResult_getAsInt, library.clang_EvalResult_dispose
    evaluate.argtypes, evaluate.restype = [cindex.Cursor], ctypes.c_void_p
    for function in (kind_of, as_int, dispose):
        function.argtypes = [ctypes.c_void_p]
    dispose.restype = None
    result = evaluate(cursor)
    if not result:
        return None
    try:
        return int(as_int(result)) if kind_of(result) == 1 else None
    finally:
        dispose(result)


def skipped_lines(unit: TranslationUnit, file: str) -> Iterator[tuple[int, int]]:
    """First and last line of what the preprocessor skipped in a file; needs :data:`DETAILED_RECORD`."""
    cindex = bindings()

    class RangeList(ctypes.Structure):
        _fields_ = [("count", ctypes.c_uint), ("ranges", ctypes.POINTER(cindex.SourceRange))]

    library = cindex.conf.lib
    function = library.clang_getSkippedRanges
    function.argtypes = [cindex.TranslationUnit, ctypes.c_void_p]
    function.restype = ctypes.POINTER(RangeList)
    handle = cindex.File.from_name(unit, file)
    found = function(unit, handle)
    if found:
        for number in range(found.contents.count):
            span = found.contents.ranges[number]
            yield span.start.line, span.end.line
        dispose = library.clang_disposeSourceRangeList
        dispose.argtypes = [ctypes.POINTER(RangeList)]
        dispose.restype = None
        dispose(found)
