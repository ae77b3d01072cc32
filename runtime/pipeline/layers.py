"""Seconds of single layers inside the actions of stages, in some runs: see :mod:`scalana.runtime.chosen_steps`.

Hooks of modules see a layer's forward. Its backward is what lies between the moment when the gradients of its outputs
are there and the moment when those of its inputs are, which hooks of these tensors see: that changes no graph, as
hooks around the backward of modules would. The gradient between two layers ends one and begins the other, at one
reading of the clock: with two, layers would overlap by what the thread waits for its core between them. The engine of
autograd runs later parts of the graph first, so nothing of another layer lies in between in a chain of layers. All
hooks of modules go when the run is over.

Not timed are layers that are compiled (a hook would have them compiled anew), and the part W of a backward that is
split, which goes through the graph by its parameters (but for stage 0, whose W is the whole backward).

Why this is not the timer of all modules (:mod:`scalana.runtime.torch.modules`), which rests while there is a pipeline:
that one hooks every module of a program, down to the last, and pays for each call and each backward; here only layers
are hooked. And what is told here is told of an action (stage, microbatch, kind), with which a backward that was left
open is over; there it is over with its pass through the graph, of which a split backward makes several.
"""

from __future__ import annotations

import sys
import weakref

from scalana.runtime import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")
"""Modules whose items are layers, rather than they themselves."""
LISTS = CONTAINERS[:2]
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "Float16Module")
MOST_LAYERS = 1024


class Pass:
    """One way of a microbatch through a layer: when its backward began and ended, ns, 0 where it is not known."""

    __slots__ = ("began", "ended", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = self.ended = 0


class Layers:
    """The timing of the layers of some stages, during one run."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        core = session.core
        self.core = core
        self.type = core.span_types.index("module")
        self.keys = {key: core.intern(key) for key in ("stage", "microbatch", "action")}
        self.action = ("", -1, -1)
        """Kind, stage and microbatch of what runs now."""
        self.entered: list[tuple[Any, int]] = []
        """Layers whose forward runs now, and when it began."""
        self.backward: list[Pass] | None = None
        """What the backward that runs now has met; ``None`` while there is none."""
        self.over: list[Pass] | None = None
        """The same of the one that has just ended."""
        self.seen: tuple[Callable[[], Any], Pass | None] = (lambda: None, None)
        """The gradient that began a layer last, while it is there, and that layer."""
        self.handles: list[Any] = []
        try:
            for name, layer in layers:
                self.handles.append(layer.register_forward_pre_hook(self._entering()))
                self.handles.append(layer.register_forward_hook(self._leaving(name), with_kwargs=True))
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Take all hooks off."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.backward = None

    def begin(self, kind: str, stage: int, microbatch: int) -> None:
        """An action begins."""
        self.action = (kind, stage, microbatch)
        self.entered.clear()
        self.backward = [] if kind in "BI" or (kind == "W" and stage == 0) else None

    def end(self) -> None:
        """The action is over, and with it what is left of its backward."""
        now = self.core.now()
        self.over, self.backward = self.backward, None
        for one in self.over or ():
            one.ended = one.ended or now

    def write(self) -> None:
        """Write what was met in the backward that is over: after the action's own end, as it takes its time."""
        for one in self.over or ():
            self._write(one.name, one.began, one.ended)
        self.action, self.over = ("", -1, -1), None

    def _write(self, name: str, began: int, ended: int) -> None:
        kind, stage, microbatch = self.action
        keys = self.keys
        attributes = (keys["stage"], stage, keys["microbatch"], microbatch, keys["action"], kind)
        self.core.span(self.type, 0, self.core.intern(name), began, ended, -1, 0, attributes)

    # ---- hooks ----

    def _entering(self) -> Callable[..., None]:
        def entering(layer: Any, args: Any) -> None:
            if self.action[0] == "F":  # not where a checkpoint computes anew in the backward
                self.entered.append((layer, self.core.now()))

        return entering

    def _leaving(self, name: str) -> Callable[..., None]:
        def leaving(layer: Any, args: Any, named: Any, output: Any) -> None:
            if self.action[0] != "F" or not self.entered or self.entered[-1][0] is not layer:
                return
            _, began = self.entered.pop()
            try:
                self._write(name, began, self.core.now())
                self._follow(Pass(name), (args, named), output)
            except Exception as failure:
                session.note(f"pipeline: a layer was not timed: {failure!r}")

        return leaving

    def _follow(self, one: Pass, inputs: Any, outputs: Any) -> None:
        """See the backward of one pass by the gradients around it."""

        def begins(gradient: Any) -> None:
            met = self.backward
            if met is not None and not one.began:
                one.began = self.core.now()
                met.append(one)
                if gradient is not None:
                    self.seen = (weakref.ref(gradient), one)

        def ends(gradient: Any) -> None:  # called after the other, which the layer before has set on the tensor
            if self.backward is not None and one.began:
                begun_by, begun = self.seen
                if begun is None or begun is one or gradient is None or begun_by() is not gradient:
                    one.ended = self.core.now()  # a layer may hand on the very gradient that began itself
                else:
                    one.ended = begun.began

        for tensor in tensors_in(inputs):
            if tensor.requires_grad and not tensor.is_leaf:  # what is a leaf is kept, and would keep the hook
                tensor.register_hook(ends)
        for tensor in tensors_in(outputs):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(begins)


def layers_in(stages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The layers of several modules, each by its name in its own."""
    for stage in stages:
        yield from layers_of(stage)


def layers_of(module: Any) -> Iterator[tuple[str, Any]]:
    """The layers of a stage, by their names in it: its children, and the items of those that only hold others.

    A child that holds a list of modules (the decoder in a model, the model in what adds a head to it) is not one layer:
    its children are. What is in a list is one.
    """
    prefix = ""
    while type(module).__name__ in WRAPPERS:
        module, prefix = module.module, f"{prefix}module."
    found = 0
    for path, layer in _inside(prefix, module):
        if found < MOST_LAYERS:
            found += 1
            yield path, layer


def _inside(prefix: str, module: Any) -> Iterator[tuple[str, Any]]:
    """Layers among the children of a module that is none itself."""
    if is_compiled(module):
        return
    for name, child in module.named_children():
        path = prefix + name
        if type(child).__name__ in CONTAINERS:
            yield from _items(f"{path}.", child)
        elif any(type(inner).__name__ in LISTS for inner in child.children()):
            yield from _inside(f"{path}.", child)
        elif not is_compiled(child):
            yield path, child


def _items(prefix: str, container: Any) -> Iterator[tuple[str, Any]]:
    for key, child in container.named_children():
        path = prefix + key
        if type(child).__name__ in CONTAINERS:
            yield from _items(f"{path}.", child)
        elif not is_compiled(child):
            yield path, child


def is_compiled(module: Any) -> bool:
    """Whether a module runs as what ``torch.compile`` made of it, or is a script."""
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return compiled or type(module).__name__ in ("OptimizedModule", "RecursiveScriptModule")


def tensors_in(values: Any, depth: int = 3) -> Iterator[Any]:
    """The tensors in tuples, lists and dictionaries of them."""
    if isinstance(values, sys.modules["torch"].Tensor):
        yield values
    elif depth and isinstance(values, (tuple, list, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from tensors_in(value, depth - 1)
