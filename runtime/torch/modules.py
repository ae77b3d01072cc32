"""The time of modules, forward and backward, on some steps: :mod:`scalana.runtime.chosen_steps`.

Hooks for all modules are there in these steps and at no other time, so that other steps cost nothing. They see plain
calls of modules alone: what is being compiled, traced or exported is left as it is, and so is what runs compiled, but
for the call as a whole.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident

from scalana.runtime import session, steps
from scalana.runtime.chosen_steps import Chosen
from scalana.runtime.device import marks
from scalana.runtime.patching import in_place_of
from scalana.runtime.torch import loaders
from scalana.runtime.torch.module_backward import Backward, Pass, newest, nodes_of
from scalana.runtime.torch.module_tree import Known, Tree
from scalana.runtime.torch.operators import Operators
from scalana.runtime.torch.sequences.calls import Batches, named_arguments
from scalana.runtime.typed import Any, Mapping

FORWARD, BACKWARD, RECOMPUTE = range(3)
DIRECTIONS = ("forward", "backward", "recompute")
"""``recompute``: a forward inside a backward, of a checkpoint."""
CALL_NS, PASS_NS = 7000, 18000
"""What a call of a module takes by its hooks, and a backward of one, beside what is measured: about as much."""
INTERRUPTED_NS = 10 * CALL_NS
"""What is measured of a call at most: what takes longer was interrupted."""


class Entered:
    """A call of a module that is under way."""

    __slots__ = ("began", "cpu_began", "elements", "known", "mark", "module", "node")

    def __init__(self, module: Any, known: Known, node: Any, elements: int) -> None:
        self.module, self.known, self.node, self.elements = module, known, node, elements
        self.began = 0
        self.cpu_began = -1
        """By the CPU clock of its thread, where operators are counted."""
        self.mark = -1
        """On the device, when it began."""


class ModuleTimes:
    """Times the modules of this process.

    Args:
        module: ``torch.nn.modules.module``.
    """

    def __init__(self, module: Any) -> None:
        self._hooks = module
        self._torch: Any = None
        self._handles: list[Any] = []
        self.chosen = Chosen()
        self._tree = Tree()
        self._calls: dict[int, list[Entered]] = {}
        """Of every thread, from the outermost inwards."""
        self._backward: Any = None
        self._pool: Any = None
        """Marks on the device, where there is one."""
        self.operators = Operators()
        self.batches = Batches(module)
        """The lengths of the sequences that models are called with."""
        self._tensor: Any = None
        self._is_compiling: Any = None
        self._compiled_autograd: Any = None
        """The module that compiles backward passes, once it is there."""
        self._type = 0
        self._keys: tuple[int, ...] = ()
        self._step = -1
        self._began = self.spent_ns = 0
        self._broken = False

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        self.off()
        self.operators.new_record()
        self.batches.new_record()
        self._tree.new_record()
        self._step = -1
        self._keys = ()

    # ---- steps ----

    def marked(self, number: int) -> None:
        """A step begins."""
        self.operators.detach()  # what a step left that ended in a backward, or failed
        if number == self._step or self._broken:
            return
        try:
            timed, self._step = self._step, number
            if self._handles:
                self.off()
                self.chosen.cost(self.spent_ns, session.core.now() - self._began)
            self.operators.stop(timed)  # also where what runs compiled has taken the hooks away
            if number in self.chosen and not _is_pipeline():
                self.on()
                if self.operators.wants(number, self.chosen.one_of, self._pool is not None):
                    self.operators.start()
                    if self._pool is not None and self.operators.is_on:
                        self._pool.leave_out(number)
        except Exception as failure:
            self.failed(failure)
        self.batches.marked(number, timed=self.is_on)

    def loaded(self) -> None:
        """The program got another batch: the call of its model with it is another one to look at."""
        if not self.is_on:
            self.batches.await_call()

    def on(self) -> None:
        """Time the modules from here on."""
        core = session.core
        if self._torch is None:
            self._torch = sys.modules["torch"]
            self._tensor, self._is_compiling = self._torch.Tensor, self._torch.compiler.is_compiling
        if not self._keys:
            self._type = core.span_types.index("module")
            self._keys = tuple(core.intern(key) for key in ("direction", "class", "root", "elements"))
        self._backward = self._backward or Backward(self._torch, core.now, self._passed, self.failed)
        self._backward.operators = self.operators
        self._backward.forget()
        self._pool = self._backward.pool = marks.pool()
        self._calls.clear()
        self.spent_ns, self._began = 0, core.now()
        self._attach()

    def off(self) -> None:
        """Time nothing more."""
        by_name = getattr(self._hooks, "_global_forward_hooks_with_kwargs", {})
        for handle in self._handles:
            handle.remove()
            by_name.pop(handle.id, None)  # which torch forgets, and would go on to warn of
        self._handles.clear()

    def _attach(self) -> None:
        register = self._hooks.register_module_forward_hook
        self._handles.append(self._hooks.register_module_forward_pre_hook(self.entering))
        # What leaves by an exception is over too: a checkpoint ends its forward so, once it has what it needs.
        try:
            self._handles.append(register(self.leaving, with_kwargs=True, always_call=True))
        except TypeError:  # an older torch, whose hooks don't see arguments by name
            self._handles.append(register(self.leaving, always_call=True))

    def failed(self, failure: BaseException) -> None:
        """Say what went wrong, and leave modules alone for good."""
        self._broken = True
        self.operators.switch_off()
        session.note(f"torch: modules are no longer timed: {type(failure).__name__}: {failure}")
        self.off()

    # ---- what runs compiled ----

    @property
    def is_on(self) -> bool:
        """Whether modules are timed just now."""
        return bool(self._handles)

    def resume(self) -> None:
        """Time modules again, after what runs compiled."""
        if not self._broken and session.core is not None and not self._handles:
            self._attach()

    # ---- hooks ----

    def _idle(self) -> bool:
        """Whether this is no plain call of a module."""
        if session.core is None:
            self.off()
            return True
        return self._is_compiling() or self._torch._C._get_tracing_state() is not None

    def entering(self, module: Any, args: Any, by_name: Mapping[str, Any] | None = None) -> None:
        """A module is called; ``by_name`` are arguments that the hooks of torch would not be handed."""
        try:
            if self._idle():
                return
            calls = self._calls.get(get_ident())
            if calls is None:
                calls = self._calls[get_ident()] = []
            if not calls:
                named = named_arguments(sys._getframe(1)) if by_name is None else by_name
                self.batches.note(module, args, named, whole=True)
            known = self._tree.get(module)
            if known is None:
                known = self._tree.learn(module, calls[-1].known if calls else None)
            node, elements = None, -1
            if args:
                first = args[0]
                plain, torch = type(first) is self._tensor, self._torch
                if plain and len(args) == 1 and not torch._C._len_torch_function_stack():
                    node, elements = first.grad_fn, first.numel()
                else:
                    with torch._C.DisableTorchFunction():
                        node, elements = newest(args, self._tensor), first.numel() if plain else -1
            entered = Entered(module, known, node, elements)
            calls.append(entered)
            if self._pool is not None:
                entered.mark = self._pool.mark()
            if self.operators.is_on:
                self.operators.enter(entered, known, DIRECTIONS[self._direction()])
            entered.cpu_began = time.thread_time_ns()
            entered.began = session.core.now()
        except Exception as failure:
            self.failed(failure)

    def leaving(self, module: Any, args: Any, *rest: Any) -> None:
        """A module returns."""
        try:
            if session.core is None:
                self.off()
                return
            now = session.core.now()
            entered = self._left(module)
            if entered is None:  # it was no plain call
                return
            torch = self._torch
            if self.operators.is_on:
                self.operators.leave(entered)
            if entered.elements < 0 and not args and len(rest) > 1:
                entered.elements = self._elements(rest[0].values())
            self._write(entered, self._direction(), now)
            if torch.is_grad_enabled() and not self._compiles_backward():
                node, output = entered.node, rest[-1]
                by_name = rest[0] if node is None and len(rest) > 1 else None
                if by_name or type(output) is not self._tensor or torch._C._len_torch_function_stack():
                    with torch._C.DisableTorchFunction():
                        node = newest(by_name, self._tensor) if by_name else node
                        made = nodes_of(output, self._tensor)
                else:
                    made = () if output.grad_fn is None else (output.grad_fn,)
                self._backward.follow(entered.known, node, entered.elements, made)
            self.spent_ns += CALL_NS + min(session.core.now() - now, INTERRUPTED_NS)
        except Exception as failure:
            self.failed(failure)

    def raised(self, module: Any) -> None:
        """A module that was called raises, and no hook tells of it."""
        try:
            entered = self._left(module)
            if entered is not None and self.operators.is_on:
                self.operators.leave(entered)
        except Exception as failure:
            self.failed(failure)

    def _compiles_backward(self) -> bool:
        """Whether backward passes are compiled, with all hooks in them."""
        if self._compiled_autograd is None:
            self._compiled_autograd = sys.modules.get("torch._dynamo.compiled_autograd")
        return bool(getattr(self._compiled_autograd, "compiled_autograd_enabled", False))

    def _elements(self, values: Any) -> int:
        """Elements of the first tensor of some values, -1 where there is none."""
        first = next((value for value in values if isinstance(value, self._tensor)), None)
        if first is None or type(first) is not self._tensor:
            return -1
        with self._torch._C.DisableTorchFunction():
            count: int = first.numel()
            return count

    def _direction(self) -> int:
        return FORWARD if self._torch._C._current_graph_task_id() < 0 else RECOMPUTE

    def _left(self, module: Any) -> Entered | None:
        """The call that is over; those inside of it that raised are forgotten."""
        calls = self._calls.get(get_ident(), [])
        if calls and calls[-1].module is module:
            return calls.pop()
        for number in range(len(calls) - 1, -1, -1):
            if calls[number].module is module:
                entered = calls[number]
                del calls[number:]
                return entered
        return None

    # ---- spans ----

    def _passed(self, one: Pass, now: int) -> None:
        self.spent_ns += PASS_NS
        self._write(one, BACKWARD, now)

    def _write(self, one: Entered | Pass, direction: int, ended: int) -> None:
        known = one.known
        if not known.attributes:
            known.name_id = session.core.intern(known.name)
            keys = self._keys
            known.attributes = tuple(
                (keys[0], word, keys[1], known.kind, keys[2], known.root, keys[3]) for word in DIRECTIONS
            )
        attributes = known.attributes[direction] + (one.elements,)
        cpu_ns = time.thread_time_ns() - one.cpu_began if one.cpu_began >= 0 else -1
        session.core.span(self._type, 0, known.name_id, one.began, ended, cpu_ns, 0, attributes)
        if one.mark >= 0:
            told: tuple[object, ...] = ("direction", DIRECTIONS[direction], "class", known.kind, "root", known.root)
            if one.elements >= 0:
                told = (*told, "elements", one.elements)
            since = session.core.now()
            self._pool.span(one.mark, self._pool.mark(), "module", known.name, told)
            self.spent_ns += 2 * (session.core.now() - since)  # the mark where it began took about as long


def _is_pipeline() -> bool:
    """Whether layers are timed by what knows of the stages that they are in."""
    home = sys.modules.get("scalana.runtime.pipeline.runs")
    return home is not None and home.runs.any_known()


_times: ModuleTimes | None = None


def time_modules(module: Any) -> None:
    """Time modules on some steps; ``module`` is ``torch.nn.modules.module``."""
    global _times
    _times = ModuleTimes(module)
    session.when_started(_times.new_record)
    session.when_stopping(_times.operators.end)
    steps.when_marked(_times.marked)
    loaders.when_loaded(_times.loaded)


def watch_compiled(module: Any) -> None:
    """Leave alone what is compiled, and time the call of it as a whole; ``module`` is ``torch._dynamo.eval_frame``."""
    owner = module.OptimizedModule
    original = owner.__call__

    @in_place_of(original)
    def __call__(self: Any, *args: Any, **named: Any) -> Any:
        times = _times
        if times is None or not times.is_on:
            if times is not None:
                times.batches.compiled_call(self, args, named)
            return original(self, *args, **named)
        times.off()
        times.entering(self, args, named)
        try:
            output = original(self, *args, **named)
            times.leaving(self, args, named, output)
        except BaseException:
            times.raised(self)
            raise
        finally:
            times.resume()
        return output

    owner.__call__ = __call__


def watch_compilation(module: Any) -> None:
    """Take the hooks away while something is compiled: they would become a part of it. ``module`` is
    ``torch._dynamo.callback``."""
    paused = False

    # An older torch tells nothing of what it compiles.
    def begins(_: Any = None) -> None:
        nonlocal paused
        if _times is not None:
            _times.batches.leave_compiled_alone()
        if _times is not None and _times.is_on:
            paused = True
            _times.off()

    def ends(_: Any = None) -> None:
        nonlocal paused
        if paused and _times is not None:
            paused = False
            _times.resume()

    module.on_compile_start(begins)
    module.on_compile_end(ends)
