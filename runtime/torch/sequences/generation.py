"""Prefill and decode of loops that generate tokens: a call of a model with many tokens, then calls with one each.

A model is known by its first calls without gradients: a hook for all modules looks at the first calls of the process,
and goes away. From then on the calls of the model's class are timed, and of no other module. Loops that call a model
with all tokens again for each one (without a cache) are known by calls that grow by one token.
"""

from __future__ import annotations

import sys
import time
import weakref
from _thread import get_ident

from scalana.runtime import session
from scalana.runtime.patching import Patches, surrounded
from scalana.runtime.torch.sequences.calls import named_arguments
from scalana.runtime.typed import Any, Iterable

PREFILL, DECODE = "prefill", "decode"
KEY = "serving"
_LOOKED_AT = 4096
"""Calls of modules, those inside of others counted, among which a loop has to begin."""
_TRAINED = 64
"""Calls with gradients after which a process counts as one that trains."""
_MOST_STEPS = 1 << 16
"""Tokens of one request that are timed one by one."""
_patches = Patches("torch")


class Request:
    """What one loop generates, after one prefill."""

    __slots__ = (
        "batch",
        "began",
        "cpu_ns",
        "ended",
        "inside_ns",
        "length",
        "prefilled",
        "steps_ns",
        "threads",
        "tokens",
        "uncached",
    )

    def __init__(self, began: int, cpu_ns: int, batch: int, length: int) -> None:
        self.began, self.batch, self.length, self.tokens = began, batch, length, batch * length
        self.cpu_ns = [cpu_ns, cpu_ns, cpu_ns]
        """Of the whole process: at the begin, after the prefill, after the last token."""
        self.prefilled = self.ended = began
        self.steps_ns: list[int] = []
        """From the end of one call to that of the next."""
        self.inside_ns = 0
        """In calls of the model, after the prefill."""
        self.uncached = False
        self.threads = [0, 0]
        """Of torch in one operator: in the prefill, and in the last call after it."""


class Generation:
    """Times the loops of this process that generate.

    Args:
        module: ``torch.nn.modules.module``.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handle: Any = None
        self._left = _LOOKED_AT
        self._trained = 0
        self._seen: dict[int, tuple[Any, int]] = {}
        """Modules that were called with tokens, by their ids: a weak reference, and how many in a row."""
        self._owner: Any = None
        """The class whose calls are timed, and whether it had a ``__call__`` of its own."""
        self._had: Any = None
        self._open: dict[int, Request] = {}
        """By thread."""
        self._torch: Any = None

    # ---- which model it is ----

    def new_record(self) -> None:
        """Another recording began."""
        self._open.clear()
        if self._owner is None and self._handle is None and self._left == _LOOKED_AT and session.core is not None:
            self._handle = self._module.register_module_forward_pre_hook(self._entering)

    def look_no_more(self) -> None:
        """Look for no model any longer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        self._left = 0
        self._seen.clear()

    def forget(self) -> None:
        """Leave all modules alone: something is compiled, and what is around a module would become a part of it."""
        self.look_no_more()
        owner, self._owner = self._owner, None
        if owner is not None:
            if self._had is None:
                del owner.__call__
            else:
                owner.__call__ = self._had

    def _entering(self, module: Any, args: Any) -> None:
        try:
            torch = self._torch = self._torch or sys.modules["torch"]
            self._left -= 1
            if torch.is_grad_enabled():
                self._trained += 1
            if self._left <= 0 or self._trained > _TRAINED or torch.compiler.is_compiling():
                self.look_no_more()
                return
            if torch.is_grad_enabled() or torch._C._get_tracing_state() is not None:
                return
            shape = self._tokens((*args, *named_arguments(sys._getframe(1)).values()))
            if shape is None:
                return
            known, before = self._seen.get(id(module), (None, 0))
            if known is not None and known() is module and (shape[1] == 1 < before or shape[1] == before + 1 > 2):
                self._watch(type(module))
                # The call that is under way passes unseen: that of the first token, or of the second.
                return
            self._seen[id(module)] = weakref.ref(module), shape[1]
        except Exception as failure:
            self.look_no_more()
            _patches.failed("loops that generate are not timed", failure)

    def _watch(self, owner: Any) -> None:
        """Time the calls of a class from here on."""
        self.look_no_more()
        self._had = owner.__dict__.get("__call__")
        owner.__call__ = surrounded(owner.__call__, self._enter, self._leave)
        self._owner = owner

    def _tokens(self, values: Iterable[Any]) -> tuple[int, int] | None:
        """How many sequences, and tokens of each, the first tensor of integers among some arguments has."""
        tensor = self._torch.Tensor
        for value in values:
            if type(value) is tensor and not value.is_floating_point() and value.dtype is not self._torch.bool:
                shape = value.shape
                if len(shape) in (1, 2):
                    return (int(shape[0]) if len(shape) == 2 else 1), int(shape[-1])
                return None
        return None

    # ---- calls ----

    def _enter(self, arguments: tuple[Any, ...]) -> Any:
        """A model is called: its tokens, and when; None for a call that is no part of a loop."""
        try:
            core = session.core
            if core is None or self._torch.is_grad_enabled():
                return None
            shape = self._tokens(arguments[1:])
            return (*shape, core.now(), time.process_time_ns()) if shape is not None else None
        except Exception as failure:
            _patches.failed("loops that generate are not timed", failure)
            return None

    def _leave(self, entered: Any, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
        core = session.core
        if entered is None or core is None or failure is not None:
            return
        try:
            batch, length, began, cpu_ns = entered
            self._called((batch, length), began, cpu_ns, core.now())
        except Exception as other:
            _patches.failed("loops that generate are not timed", other)

    def _called(self, shape: tuple[int, int], began: int, cpu_ns: int, now: int) -> None:
        """A call is over, of some sequences with some tokens each."""
        batch, length = shape
        thread = get_ident()
        request = self._open.get(thread)
        grows = request is not None and batch == request.batch and length == request.length + 1 and length > 2
        goes_on = request is not None and length == 1 and batch <= request.batch and not request.uncached
        if request is None or not (goes_on or grows):
            self._end(thread)
            if length > 1:
                request = self._open[thread] = Request(began, cpu_ns, batch, length)
                request.prefilled = request.ended = now
                request.cpu_ns[1] = request.cpu_ns[2] = time.process_time_ns()
                request.threads[0] = self._torch.get_num_threads()
            return
        if len(request.steps_ns) < _MOST_STEPS:
            request.steps_ns.append(now - request.ended)
        request.inside_ns += now - began
        request.ended, request.cpu_ns[2] = now, time.process_time_ns()
        request.threads[1] = self._torch.get_num_threads()
        if length > 1:
            request.length, request.uncached = length, True

    # ---- spans ----

    def end(self) -> None:
        """The record ends."""
        for thread in list(self._open):
            self._end(thread)

    def _end(self, thread: int) -> None:
        """A request is over: write what it took, if it generated anything."""
        request, core = self._open.pop(thread, None), session.core
        if request is None or core is None or not request.steps_ns:
            return
        steps, (first, second, third) = sorted(request.steps_ns), request.cpu_ns
        batch, (before, after) = ("batch", request.batch, "threads"), request.threads
        of_prefill = (KEY, PREFILL, "tokens", request.tokens, *batch, before, "process_cpu_ns", second - first)
        times = ("median_ns", steps[len(steps) // 2], "p95_ns", steps[min(len(steps) * 95 // 100, len(steps) - 1)])
        of_decode = (
            *(KEY, DECODE, "tokens", len(steps), *batch, after, "process_cpu_ns", third - second),
            *(*times, "inside_ns", request.inside_ns, "uncached", int(request.uncached)),
        )
        self._span(PREFILL, request.began, request.prefilled, of_prefill)
        self._span(DECODE, request.prefilled, request.ended, of_decode)

    @staticmethod
    def _span(name: str, began: int, ended: int, attributes: tuple[Any, ...]) -> None:
        core = session.core
        known = tuple(value if place % 2 else core.intern(value) for place, value in enumerate(attributes))
        core.span(core.span_types.index("other"), 0, core.intern(name), began, ended, -1, 0, known)


_generation: Generation | None = None


def watch(module: Any) -> None:
    """Look for loops that generate; ``module`` is ``torch.nn.modules.module``."""
    global _generation
    _generation = Generation(module)
    session.when_started(_generation.new_record)
    session.when_stopping(_generation.end)
    _generation.new_record()


def leave_compiled_alone(module: Any) -> None:
    """Forget models before one is compiled; ``module`` is ``torch._dynamo.eval_frame``."""

    def forget(_: tuple[Any, ...]) -> None:
        if _generation is not None:
            _generation.forget()

    _patches.surround(module.OptimizedModule, "__init__", forget, lambda *_: None, "compiled modules")


def watch_compilation(module: Any) -> None:
    """The same before anything is compiled; ``module`` is ``torch._dynamo.callback``."""

    def begins(_: Any = None) -> None:
        if _generation is not None:
            _generation.forget()

    module.on_compile_start(begins)
