"""Calls of whole models in a program that loads experts: which of them drafts tokens, and which one verifies them.

Hooks for all modules are there from the first load in a module on. Only the outermost call of a thread is written.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.record.span_kinds import MODEL_CALL
from scalana.runtime.torch.experts.functions import is_module_call
from scalana.runtime.torch.sequences.calls import named_arguments
from scalana.runtime.typed import Any, Callable, Iterable

MOST_CALLS = 1 << 18
"""Calls that are written."""
_INSIDE = (-1, 0)
_patches = Patches("torch")


class ModelCalls:
    """Times the outermost calls of modules.

    Args:
        number_of: gives a number for a module.
    """

    def __init__(self, number_of: Callable[[Any], int]) -> None:
        self._number_of = number_of
        self._handles: list[Any] = []
        self._open: dict[int, list[tuple[int, int]]] = {}
        """By thread: when each call began, from the outermost inwards, and its tokens; -1 inside of others."""
        self._settled: set[int] = set()
        """Threads whose outermost calls are known: others may be in the midst of one."""
        self._keys: tuple[int, ...] = ()
        self._written = 0

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        self._keys = ()
        self._written = 0

    def watch(self) -> None:
        """Time calls from here on."""
        if not self._handles:
            hooks = sys.modules["torch.nn.modules.module"]
            self._handles.append(hooks.register_module_forward_pre_hook(self._entering))
            self._handles.append(hooks.register_module_forward_hook(self._leaving, always_call=True))

    def forget(self) -> None:
        """Time nothing more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()
        self._settled.clear()

    def _entering(self, module: Any, args: Any) -> None:
        try:
            thread = get_ident()
            calls = self._open.setdefault(thread, [])
            core = session.core
            is_inside = bool(calls) or core is None or self._written >= MOST_CALLS
            if not is_inside and thread not in self._settled:
                is_inside = _is_inside(sys._getframe(1))
                if not is_inside:
                    self._settled.add(thread)
            calls.append(_INSIDE if is_inside else (core.now(), _tokens(args) or _tokens(_named(sys._getframe(1)))))
        except Exception as failure:
            self._failed(failure)

    def _leaving(self, module: Any, args: Any, result: Any) -> None:
        try:
            calls = self._open.get(get_ident())
            began, tokens = calls.pop() if calls else _INSIDE
            core = session.core
            if began >= 0 and core is not None:
                self._write(module, began, tokens, core)
        except Exception as failure:
            self._failed(failure)

    def _write(self, module: Any, began: int, count: int, core: Any) -> None:
        if not self._keys:
            words = (MODEL_CALL, "kind", "model", "class", "tokens")
            self._keys = (core.span_types.index("other"), *map(core.intern, words))
        other, name, kind, model, of_class, tokens = self._keys
        self._written += 1
        attributes = (kind, MODEL_CALL, model, self._number_of(module), of_class, type(module).__name__)
        core.span(other, 0, name, began, core.now(), -1, 0, (*attributes, tokens, count))

    def _failed(self, failure: BaseException) -> None:
        self.forget()
        _patches.failed("calls of models are not recorded", failure)


def _tokens(values: Iterable[Any]) -> int:
    """How many tokens the first tensor of some arguments has, if it is of integers."""
    torch = sys.modules["torch"]
    for one in values:
        if isinstance(one, torch.Tensor):
            return int(one.shape[-1]) if one.dtype in (torch.int32, torch.int64) and one.dim() else 0
    return 0


def _named(frame: Any) -> Iterable[Any]:
    return named_arguments(frame).values()


def _is_inside(frame: Any) -> bool:
    """Whether the call of a module lies in that of another one."""
    count = 0
    while frame is not None and count < 2:
        count += is_module_call(frame)
        frame = frame.f_back
    return count > 1
