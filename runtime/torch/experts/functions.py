"""Which functions of a program lie between its model, or its loop, and a load of weights: by the frames of a load.

A cache of experts is a function of the program that sometimes loads, and one below it that always does. Both are found
where they are reachable by name: in a class, or among the globals of a module.
"""

from __future__ import annotations

import functools
import os
import re
from types import FunctionType

from scalana.runtime.patching import surrounded
from scalana.runtime.typed import Any, Enter, Iterator, Leave

MOST_FRAMES = 64
"""Frames of a load that are looked at."""
MOST_FUNCTIONS = 6
"""Functions of the program above a load that are looked at."""
MOST_SIBLINGS = 16
"""Methods of an object that loads that are looked at."""
_LIBRARIES = frozenset("torch numpy safetensors scalana".split())
"""Packages that load for others."""
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")
_MODULES = "torch.nn.modules.module"
_CALL = "_call_impl"
_UNFINISHED = 0x20 | 0x80 | 0x200
"""Flags of the code of generators and coroutines, whose calls do not end with what they do."""
_EXPERTS = re.compile("expert|moe(?![a-z])|mixture", re.IGNORECASE)
_LRU = type(functools.lru_cache(len))
_METHODS_OF_LRU = ("cache_info", "cache_clear", "cache_parameters")
_METHODS = ("__getitem__", "__call__")
"""Methods with underscores that may be a cache's."""


class Found:
    """A function of a program: where it stands, and the frame that runs it."""

    __slots__ = ("code", "holder", "label", "name", "takes_self")

    def __init__(self, holder: Any, name: str, code: Any, label: str, takes_self: bool) -> None:
        self.holder, self.name, self.code, self.label = holder, name, code, label
        self.takes_self = takes_self


class Chain:
    """What the frames of a load say."""

    __slots__ = ("frames", "module", "root")

    def __init__(self, frame: Any) -> None:
        self.frames: list[Any] = []
        """Of functions of the program, from the load outwards, up to the innermost module's ``forward``."""
        self.module: Any = None
        """The innermost module that is called, and the outermost one."""
        self.root: Any = None
        for _ in range(MOST_FRAMES):
            if frame is None:
                break
            home = frame.f_globals.get("__name__", "")
            if is_module_call(frame):
                self.root = frame.f_locals.get("self")
                if self.module is None:
                    self.module = self.root
                    if self.frames:
                        self.frames.pop()  # the forward itself
            elif self.module is None and len(self.frames) < MOST_FUNCTIONS and _is_of_program(frame, home):
                self.frames.append(frame)
            frame = frame.f_back

    def is_of_experts(self, words: str, needs_names: bool = False) -> bool:
        """Whether names say that experts are loaded, or, without these, a module that is called loads its weights."""
        if (self.module is not None and not needs_names) or speaks_of_experts(words):
            return True
        return any(speaks_of_experts(name) for frame in self.frames for name in _names(frame))

    def module_name(self) -> str:
        """The name of the innermost module inside the outermost one; empty where none is called."""
        if self.module is None:
            return ""
        return next((name for name, one in self.root.named_modules() if one is self.module), "")


def speaks_of_experts(name: str) -> bool:
    """Whether a name is one of experts."""
    return _EXPERTS.search(name) is not None


def is_module_call(frame: Any) -> bool:
    """Whether a frame is torch's, which calls a module's ``forward``."""
    return frame.f_code.co_name == _CALL and frame.f_globals.get("__name__") == _MODULES


def _is_of_program(frame: Any, home: str) -> bool:
    """Whether a frame runs a function of the program, or of a library that the program uses for this."""
    code = frame.f_code
    if home.partition(".")[0] in _LIBRARIES or code.co_flags & _UNFINISHED:
        return False
    file = code.co_filename
    return code.co_name[0] != "<" and not (file.startswith(_STANDARD) and not any(one in file for one in _INSTALLED))


def _names(frame: Any) -> Iterator[str]:
    code = frame.f_code
    yield code.co_name
    yield from code.co_varnames[: code.co_argcount]
    if code.co_argcount:
        yield type(frame.f_locals.get(code.co_varnames[0])).__name__


# ---- where functions stand ----


def found_at(frame: Any) -> list[Found]:
    """The function that a frame runs, and the other methods of its object; none where no name leads to it."""
    code = frame.f_code
    name = code.co_name
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    for kind in type(first).__mro__ if first is not None else ():
        if _code_of(kind.__dict__.get(name)) is code:
            return [Found(kind, name, code, f"{kind.__name__}.{name}", True), *_siblings(kind, name)]
    if _code_of(frame.f_globals.get(name)) is code:
        return [Found(frame.f_globals, name, code, name, False)]
    return []


def _siblings(kind: type, name: str) -> list[Found]:
    """Other methods of a class that is no module: what is called with the number of an expert may be its cache."""
    if any(one.__module__ == _MODULES for one in kind.__mro__):
        return []
    found = []
    for other, value in list(kind.__dict__.items()):
        code = value.__code__ if type(value) is FunctionType else None
        if code is None or other == name or code.co_argcount < 2 or code.co_flags & _UNFINISHED:
            continue
        if other.startswith("__") and other not in _METHODS:
            continue
        found.append(Found(kind, other, code, f"{kind.__name__}.{other}", True))
    return found[:MOST_SIBLINGS]


def _code_of(value: Any) -> Any:
    """The code of a function, also behind ``functools.lru_cache``; None of anything else."""
    if type(value) is _LRU:
        value = value.__wrapped__
    return value.__code__ if type(value) is FunctionType else None


def put_around(original: Any, enter: Enter, leave: Leave) -> Any:
    """A function with something before and after it, which has the methods of what it was."""
    around = surrounded(original, enter, leave)
    if around is not original and type(original) is _LRU:
        for name in _METHODS_OF_LRU:
            setattr(around, name, getattr(original, name))
    return around
