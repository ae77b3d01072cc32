"""The lengths of the sequences of every step, as a model is called with them.

On the steps on which modules are timed (:mod:`scalana.runtime.torch.modules`), all outermost calls are looked at, which
shows which module it is that gets the lengths. On the others, a hook waits for the call of that module, and goes away
with it: no other call of a module is slower.
"""

from __future__ import annotations

import sys
import weakref
from time import thread_time_ns

from scalana.runtime import session
from scalana.runtime.chosen_steps import Chosen
from scalana.runtime.record.span_kinds import LENGTHS, SIZES
from scalana.runtime.torch.sequences.arguments import SOURCES, Reader
from scalana.runtime.typed import Any, Mapping, Sequence

ARGUMENT = "argument:"
"""What stands before the name of an argument."""
LONGEST = 32
"""Sequences of a call whose lengths are written one by one."""
OTHER_CALLS = 64
"""Calls of other modules in a step that the hook waits for that of its own."""


class Batches:
    """Notes the lengths in the calls of this process.

    Args:
        hooks: ``torch.nn.modules.module``.
    """

    def __init__(self, hooks: Any) -> None:
        self._hooks: dict[int, Any] = hooks._global_forward_pre_hooks
        self._register = hooks.register_module_forward_pre_hook
        self._number = -1
        """Of our hook among those of torch, once there was one."""
        self._chosen = Chosen(one_of=1)
        self._reader: Reader | None = None
        self._model: tuple[int, Any] | None = None
        """Place of its source in :data:`SOURCES`, and a weak reference to the module that gets the lengths."""
        self._names: tuple[str, ...] = ()
        """Of its parameters."""
        self._keys: tuple[int, ...] = ()
        self._type = self._name = self._others = 0
        self._is_compiled = self._is_due = self._broken = False
        self._began = self._spent_ns = self._spent_before_ns = 0
        self._step = -1

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        self.rest()
        self._keys, self._model, self._step, self._spent_ns, self._spent_before_ns = (), None, -1, 0, 0
        self._chosen = Chosen(one_of=1)

    # ---- steps ----

    def marked(self, number: int, timed: bool) -> None:
        """A step begins; ``timed`` says whether all outermost calls are looked at in it."""
        if number == self._step or self._broken:
            return
        now = session.core.now()
        if self._spent_ns:
            # What took long but once was interrupted, or the first of its kind.
            self._chosen.cost(min(self._spent_ns, self._spent_before_ns), now - self._began)
            self._spent_before_ns = self._spent_ns
        self._step, self._began, self._spent_ns = number, now, 0
        self.rest()
        if not timed:
            self.await_call()

    def await_call(self) -> None:
        """Look at the next call of the model."""
        if self._broken or self._model is None or session.core is None or self._step not in self._chosen:
            return
        self._is_due, self._others = True, 0
        if self._is_compiled:  # a hook would be a part of what is compiled, or compile it again
            return
        if self._number < 0:
            self._number = self._register(self._entering).id
        else:
            self._hooks[self._number] = self._entering

    def rest(self) -> None:
        """Look at no call."""
        self._is_due = False
        self._hooks.pop(self._number, None)

    def leave_compiled_alone(self) -> None:
        """Something is compiled: use no hooks any more."""
        self._is_compiled = True
        self._hooks.pop(self._number, None)

    # ---- calls ----

    def _entering(self, module: Any, args: Any) -> None:
        """A module is called while one is awaited."""
        try:
            if session.core is None or self._model is None:
                self.rest()
            elif self._model[1]() is module:
                self.rest()
                self.note(module, args, named_arguments(sys._getframe(1)), False)
            else:
                self._others += 1
                if self._others > OTHER_CALLS:
                    self.rest()
        except Exception as failure:
            self._failed(failure)

    def compiled_call(self, module: Any, args: Any, by_name: Mapping[str, Any]) -> None:
        """A compiled module is called: torch warns of hooks that are there."""
        self.leave_compiled_alone()
        if self._is_due and self._model is not None and self._model[1]() is module:
            self.rest()
            self.note(module, args, by_name, False)

    def note(self, module: Any, args: Sequence[Any], by_name: Mapping[str, Any], whole: bool) -> None:
        """Write the lengths that an outermost call gets; ``whole``: all such calls of its step are noted."""
        try:
            core = session.core
            torch = sys.modules["torch"]
            if core is None or self._broken or torch.compiler.is_compiling() or torch._C._get_tracing_state():
                return
            if torch._C._current_graph_task_id() >= 0:  # a backward computes it again
                return
            if self._reader is None:
                self._reader = Reader(torch)
            began = thread_time_ns()
            known = self._model is not None and self._model[1]() is module
            names = self._names if known else parameters(module)
            found = self._reader.lengths(args, by_name, names)
            if found is not None:
                place = SOURCES.index(found[0])
                if self._model is None or self._model[1]() is None or place < self._model[0]:
                    self._model, self._names = (place, weakref.ref(module)), names
                self._write(*found, whole)
            if whole and (sizes := self._reader.sizes(args, by_name, names)):
                self._write_sizes(sizes)
            self._spent_ns += thread_time_ns() - began
        except Exception as failure:
            self._failed(failure)

    def _write_sizes(self, sizes: list[tuple[str, int]]) -> None:
        core, now = session.core, session.core.now()
        attributes: list[Any] = [core.intern("kind"), SIZES]
        for name, elements in sizes:
            attributes += core.intern(ARGUMENT + name), elements
        core.span(core.span_types.index("other"), 0, core.intern(SIZES), now, now, -1, 0, tuple(attributes))

    def _write(self, source: str, lengths: list[int], whole: bool) -> None:
        core = session.core
        if not self._keys:
            self._type = core.span_types.index("other")
            self._name = core.intern(LENGTHS)
            words = ("kind", "source", "whole", "sequences", "tokens", "squares", "shortest")
            self._keys = tuple(core.intern(word) for word in (*words, *map(str, range(LONGEST))))
        keys, ordered = self._keys, sorted(lengths, reverse=True)
        attributes: list[Any] = [
            keys[0], LENGTHS, keys[1], source, keys[2], int(whole), keys[3], len(ordered), keys[4], sum(ordered),
            keys[5], sum([one * one for one in ordered]), keys[6], ordered[-1],
        ]  # fmt: skip
        if ordered[0] != ordered[-1]:
            for place, length in enumerate(ordered[:LONGEST], len(keys) - LONGEST):
                attributes += keys[place], length
        now = core.now()
        core.span(self._type, 0, self._name, now, now, -1, 0, tuple(attributes))

    def _failed(self, failure: BaseException) -> None:
        self._broken = True
        self.rest()
        session.note(f"torch: lengths of sequences are no longer noted: {type(failure).__name__}: {failure}")


def named_arguments(frame: Any) -> Mapping[str, Any]:
    """The arguments by name of the call that runs its hooks, which torch does not hand to hooks for all modules."""
    named = frame.f_locals.get("kwargs")
    return named if isinstance(named, dict) else {}


def parameters(module: Any) -> tuple[str, ...]:
    """Names of what a module takes by position; those of the inner one of what wraps a module."""
    for _ in range(8):
        held = module._modules
        inner = held.get("module", held.get("_orig_mod"))
        if inner is None:
            break
        module = inner
    code = getattr(getattr(type(module).forward, "__wrapped__", type(module).forward), "__code__", None)
    return tuple(code.co_varnames[1 : code.co_argcount]) if code is not None else ()
