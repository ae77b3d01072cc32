"""Loads of weights while a model computes: from files, or from buffers, in functions of the program.

Functions of libraries that load (``torch.load``, ``numpy.load``, ``torch.from_numpy`` ...) say when one begins. The
functions of the program around it are surrounded from then on (:mod:`.functions`): each call with a number among its
arguments is written, with how many loads and bytes lay in it. What of these is a cache, and which calls it answers
without a load, the analysis says. Nothing is drawn, changed or kept.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.record.span_kinds import EXPERTS
from scalana.runtime.torch.experts.functions import Chain, Found, found_at, put_around
from scalana.runtime.torch.experts.model_calls import ModelCalls
from scalana.runtime.typed import Any

MOST_FUNCTIONS = 48
"""Functions of a program that are surrounded."""
MOST_CHAINS = 1024
"""Loads whose frames are looked at."""
MOST_CALLS = 1 << 18
"""Calls that are written."""
MOST_OBJECTS = 4096
_LARGEST = 1 << 31
"""Number among arguments that may be that of an expert."""
_LONGEST_KEY = 64
_MOST_KEYS = 4
"""Arguments that a key is made of."""
_REFERENCES = 3
"""To a function of a module: of the module, of who asks, and of ``sys.getrefcount`` itself."""
_patches = Patches("torch")


class Call:
    """A call of a surrounded function that is under way."""

    __slots__ = ("began", "bytes", "function", "key", "loads", "made", "module", "object")

    def __init__(self, function: Found, key: str, number: int, began: int) -> None:
        self.function, self.key, self.object, self.began = function, key, number, began
        self.loads = self.bytes = self.made = 0
        """Bytes that were read from files, and those of tensors that were made of buffers."""
        self.module = ""


class Loads:
    """Follows the loads of this process."""

    def __init__(self) -> None:
        self._open: dict[int, list[Call]] = {}
        """By thread, from the outermost inwards."""
        self._surrounded: dict[Any, tuple[Found, Any]] = {}
        """By code: the function, and what stood in its place."""
        self._objects: dict[int, int] = {}
        self._looked = self._written = 0
        self._keys: tuple[int, ...] = ()
        self._loading: set[int] = set()
        """Threads that are inside of a load."""
        self._given_up = False
        self._models = ModelCalls(self._number_of)

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        self._models.new_record()
        self._open.clear()
        self._loading.clear()
        self._keys = ()
        self._written = 0

    def forget(self) -> None:
        """Leave all functions as they were: something is compiled, and what is around them would become a part of
        it."""
        self._given_up = True
        self._models.forget()
        for found, original in self._surrounded.values():
            _put(found, original)
        self._surrounded.clear()

    # ---- loads ----

    def enter_load_of_experts(self, arguments: tuple[Any, ...]) -> str | None:
        """Something is copied that may be experts, if the names of functions say so."""
        return self.enter_load(arguments, needs_names=True)

    def enter_load(self, arguments: tuple[Any, ...], needs_names: bool = False) -> str | None:
        """A library loads: None where that is a part of another load."""
        thread = get_ident()
        if session.core is None or self._given_up or thread in self._loading:
            return None
        path = _path_of(arguments)
        self._loading.add(thread)
        try:
            if self._looked < MOST_CHAINS:
                self._look(sys._getframe(1), " ".join((path, *filter(_is_text, arguments))), thread, needs_names)
        except Exception as failure:
            _patches.failed("loads of weights are not recorded", failure)
            self._given_up = True
        return path

    def leave_load(self, path: str | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
        """It has loaded."""
        if path is None:
            return
        thread = get_ident()
        self._loading.discard(thread)
        calls = self._open.get(thread)
        if calls and failure is None:
            call = calls[-1]
            call.loads += 1
            if path:
                call.bytes += _size_of(path)
            else:
                call.made += _bytes_of(result)

    def _look(self, frame: Any, words: str, thread: int, needs_names: bool) -> None:
        """See which functions of the program a load lies in, and surround those that are new."""
        self._looked += 1
        chain = Chain(frame)
        if not chain.frames or not chain.is_of_experts(words, needs_names):
            return
        if chain.module is not None:
            self._models.watch()
        calls = self._open.get(thread)
        if calls and not calls[-1].module:
            calls[-1].module = self._module_name(chain)
        for one in chain.frames:
            if one.f_code not in self._surrounded:
                for found in found_at(one):
                    self._surround(found, sum(other.f_code is one.f_code for other in chain.frames))

    def _module_name(self, chain: Chain) -> str:
        """Number of the outermost module that is called, and the name of the innermost one in it; empty for none."""
        if chain.module is None:
            return ""
        return f"{self._number_of(chain.root)} {chain.module_name()}"

    def _number_of(self, one: Any) -> int:
        """A number for an object."""
        number = self._objects.get(id(one), -1)
        if number < 0 and len(self._objects) < MOST_OBJECTS:
            number = self._objects[id(one)] = len(self._objects)
        return number

    def _surround(self, found: Found, running: int) -> None:
        """Surround a function that ``running`` frames of this thread run."""
        if found.code in self._surrounded or len(self._surrounded) >= MOST_FUNCTIONS:
            return
        held = found.holder if isinstance(found.holder, dict) else found.holder.__dict__
        original = held[found.name]
        if isinstance(found.holder, dict) and sys.getrefcount(original) - running > _REFERENCES:
            return  # pickle would refuse what somebody else holds: it is not what its name leads to any more

        def enter(arguments: tuple[Any, ...]) -> Call | None:
            return self._enter(found, arguments)

        self._surrounded[found.code] = found, original
        _put(found, put_around(original, enter, self._leave))

    # ---- calls ----

    def _enter(self, found: Found, arguments: tuple[Any, ...]) -> Call | None:
        core = session.core
        if core is None or self._written >= MOST_CALLS:
            return None
        number = self._number_of(arguments[0]) if found.takes_self and arguments else -1
        call = Call(found, _key_of(arguments[1:] if found.takes_self else arguments), number, core.now())
        self._open.setdefault(get_ident(), []).append(call)
        return call

    def _leave(self, call: Call | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
        core = session.core
        calls = self._open.get(get_ident())
        if call is None or not calls or call not in calls:
            return
        del calls[calls.index(call) :]
        if calls:
            calls[-1].loads += call.loads
            calls[-1].bytes += call.bytes
            calls[-1].made += call.made
            calls[-1].module = calls[-1].module or call.module
        if core is not None and call.key and failure is None:
            self._write(call, _holds_weights(result), core)

    def _write(self, call: Call, returns: bool, core: Any) -> None:
        if not self._keys:
            words = ("kind", "function", "key", "object", "loads", "bytes", "returns", "module")
            self._keys = (core.span_types.index("other"), core.intern(EXPERTS), *map(core.intern, words))
        other, name, kind, function, key, object_, loads, size, returned, module = self._keys
        self._written += 1
        attributes: tuple[Any, ...] = (
            kind, EXPERTS, function, call.function.label, key, call.key, object_, call.object,
            loads, call.loads, size, call.bytes or call.made, returned, int(returns),
        )  # fmt: skip
        if call.module:
            attributes += module, call.module
        core.span(other, 0, name, call.began, core.now(), -1, 0, attributes)


def _put(found: Found, value: Any) -> None:
    """Let something stand in the place of a function."""
    if isinstance(found.holder, dict):
        found.holder[found.name] = value
    else:
        setattr(found.holder, found.name, value)


def _key_of(arguments: tuple[Any, ...]) -> str:
    """The numbers and short texts among some arguments."""
    parts: list[str] = []
    for one in arguments[:_MOST_KEYS]:
        for value in one[:_MOST_KEYS] if type(one) is tuple else (one,):
            if type(value) is int and -_LARGEST < value < _LARGEST:
                parts.append(str(value))
            elif type(value) is str and len(value) <= _LONGEST_KEY:
                parts.append(value)
            elif isinstance(value, os.PathLike):
                parts.append(os.path.basename(os.fspath(value)))
    return ",".join(parts)


def _is_text(one: Any) -> bool:
    return type(one) is str


def _path_of(arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else None
    name = first if isinstance(first, (str, os.PathLike)) else getattr(first, "name", None)
    return os.fsdecode(os.fspath(name)) if isinstance(name, (str, bytes, os.PathLike)) else ""


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _bytes_of(result: Any) -> int:
    """Bytes of a tensor, or of an array."""
    size = getattr(result, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _holds_weights(result: Any, deeper: bool = True) -> bool:
    """Whether something is a tensor, an array or a module, or holds some."""
    if hasattr(result, "nbytes") or hasattr(result, "named_parameters"):
        return True
    if not deeper:
        return False
    held = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else ()
    held = held or getattr(result, "__dict__", {}).values()
    return any(_holds_weights(one, False) for one, _ in zip(held, range(_MOST_KEYS), strict=False))


LOADS = Loads()
session.when_started(LOADS.new_record)


def _watch(module: Any, *functions: str) -> None:
    for function in functions:
        if hasattr(module, function):
            _patches.surround(module, function, LOADS.enter_load, LOADS.leave_load, "loads of weights")


def watch_files(module: Any) -> None:
    """See what ``torch.load`` reads; ``module`` is torch's ``serialization``."""
    _watch(module, "load")


def watch_safetensors(module: Any) -> None:
    """See what is read of open files; ``module`` is ``safetensors``."""
    _watch(module.safe_open, "get_tensor")


def watch_safetensors_torch(module: Any) -> None:
    """See what is read of whole files; ``module`` is ``safetensors.torch``."""
    _watch(module, "load_file", "load")


def watch_buffers(module: Any) -> None:
    """See which tensors are made of what a program has read itself, or by numpy; ``module`` is ``torch``."""
    _watch(module, "from_numpy", "frombuffer", "from_file")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _watch(numpy, "load", "fromfile")
