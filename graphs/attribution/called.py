"""What a program calls, in the words of its source, where a library shows but the wrapper of a decorator."""

from __future__ import annotations

import linecache
import re

_WRAPPERS = frozenset({"__getattr__", "__call__", "_call_impl", "_wrapped_call_impl"})
"""Functions that stand for what is called by another name: an object, or an attribute that does not exist yet."""
_CALLED = re.compile(r"[^\W\d][\w.]*")


def is_wrapper_name(qualname: str) -> bool:
    """Whether a name of a library's function says nothing about what was called: that of a decorator's wrapper, or of a
    method by which Python calls an object.

    >>> is_wrapper_name("Optimizer.profile_hook_step.<locals>.wrapper"), is_wrapper_name("Module._wrapped_call_impl")
    (True, True)
    >>> is_wrapper_name("Tensor.backward"), is_wrapper_name("Index.<locals>.<lambda>")
    (False, True)
    """
    return "<locals>" in qualname or qualname.rpartition(".")[2] in _WRAPPERS


def name_of_call(file: str, line: int, column: int, qualname: str) -> str:
    """What to name the call of a library's function: its qualified name, or of a wrapper the text of the call.

    Args:
        file: In which the call stands.
        line: Of the call, 0 where unknown.
        column: Offset of its first byte, -1 where unknown.
        qualname: Of the outermost function of the library's that was entered.
    """
    if not is_wrapper_name(qualname):
        return qualname
    text = linecache.getline(file, line).encode()[column:].decode(errors="replace") if line > 0 <= column else ""
    called = _CALLED.match(text)
    return called[0] if called is not None else qualname.partition(".<locals>")[0]
