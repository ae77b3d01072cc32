"""Seconds of single layers inside the actions of stages, in some runs: see :mod:`scalana.runtime.chosen_steps`.

Where the stages run on a device, the same moments are marked on its stream: see
:mod:`scalana.runtime.pipeline.layer_marks`.

Hooks of modules see a layer's forward. Its backward is what lies between the moment when the gradients of its outputs
are there and the moment when those of its inputs are, which hooks of these tensors see: that changes no graph, as
hooks around the backward of modules would. The gradient between two layers ends one and begins the other, at one
reading of the clock: with two, layers would overlap by what the thread waits for its core between them. The engine of
autograd runs later parts of the graph first, so nothing of another layer lies in between in a chain of layers. All
hooks of modules go when the run is over.

The part W of a backward that is split goes through the graph by its parameters, one layer after the other: there a
layer is over when the gradients of all its parameters are there, which hooks of these see, in that action alone (but
for stage 0, whose W is the whole backward). Where they come in another order, W is not told of the layer. Not timed are
layers that are compiled: a hook would have them compiled anew.

Why this is not the timer of all modules (:mod:`scalana.runtime.torch.modules`), which rests while there is a pipeline:
that one hooks every module of a program, down to the last, and pays for each call and each backward; here only layers
are hooked. And what is told here is told of an action (stage, microbatch, kind), with which a backward that was left
open is over; there it is over with its pass through the graph, of which a split backward makes several.
"""

from __future__ import annotations

import sys
import weakref
from functools import partial

from scalana.runtime import session
from scalana.runtime.pipeline.layer_marks import layer_marks
from scalana.runtime.typed import Any, Callable, Iterable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.pipeline.runs import Run

CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")
"""Modules whose items are layers, rather than they themselves."""
LISTS = CONTAINERS[:2]
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "Float16Module")
MOST_LAYERS = 1024


class Pass:
    """One way of a microbatch through a layer: when its backward began and ended, ns, 0 where it is not known, and the
    marks on the device then, -1 for none."""

    __slots__ = ("began", "ended", "first", "last", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = self.ended = 0
        self.first = self.last = -1


class Layers:
    """The timing of the layers of some stages, during one run."""

    def __init__(self, layers: Iterable[tuple[str, Any]], run: Run | None = None) -> None:
        core = session.core
        self.core = core
        self.type = core.span_types.index("module")
        self.keys = {key: core.intern(key) for key in ("stage", "microbatch", "action")}
        self.action = ("", -1, -1)
        """Kind, stage and microbatch of what runs now."""
        self.marked = False
        """Whether the layers are marked on the device in what runs now."""
        self.entered: list[tuple[Any, int, int]] = []
        """Layers whose forward runs now, when it began, and the mark then."""
        self.backward: list[Pass] | None = None
        """What the backward that runs now has met; ``None`` while there is none."""
        self.over: list[Pass] | None = None
        """The same of the one that has just ended."""
        self.seen: tuple[Callable[[], Any], Pass | None] = (lambda: None, None)
        """The gradient that began a layer last, while it is there, and that layer."""
        self.handles: list[Any] = []
        self.layers = list(layers)
        self.parameters: list[list[Any]] = []
        """Those of each layer that get a gradient; those of several of the first. Empty until an action W asks."""
        self.weights: list[Any] = []
        """Hooks of parameters, during an action W."""
        self.before = (0, -1)
        """Where the layer began whose parameters come next: when, and the mark then."""
        self.of_weights: list[Pass] = []
        """The layers whose parameters have all their gradients in it."""
        try:
            for name, layer in self.layers:
                self.handles.append(layer.register_forward_pre_hook(self._entering()))
                self.handles.append(layer.register_forward_hook(self._leaving(name), with_kwargs=True))
            if run is not None:
                layer_marks.share(run, len(self.layers))
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        """Take all hooks off."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self._drop_weights()
        self.layers.clear()  # hooks of tensors may outlive the run, and with them this
        self.parameters.clear()
        self.backward = None

    def begin(self, kind: str, stage: int, microbatch: int) -> None:
        """An action begins."""
        self.action = (kind, stage, microbatch)
        self.marked = layer_marks.of(microbatch)
        self.entered.clear()
        self.backward = [] if kind in "BI" or (kind == "W" and stage == 0) else None
        if kind == "W" and stage:
            try:
                self._follow_weights()
            except Exception as failure:
                session.note(f"pipeline: weight gradients are not separated by layer: {failure!r}")

    def begun(self) -> None:
        """The action has begun, which :meth:`begin` has prepared: here its part for weights begins, if it is that."""
        if self.weights:
            self.before = self.core.now(), self._mark()

    def end(self) -> None:
        """The action is over, and with it what is left of its backward."""
        now = self.core.now()
        self.over, self.backward = self.of_weights if self.weights else self.backward, None
        self._drop_weights()
        mark = -1
        for one in self.over or ():
            if not one.ended:
                if one.first >= 0 and mark < 0:
                    mark = self._mark()
                one.ended, one.last = now, mark

    def write(self) -> None:
        """Write what was met in the backward that is over: after the action's own end, as it takes its time."""
        for one in self.over or ():
            self._write(one.name, one.began, one.ended)
            self._write_marks(one.name, one.first, one.last)
        self.action, self.over = ("", -1, -1), None

    def _write(self, name: str, began: int, ended: int) -> None:
        kind, stage, microbatch = self.action
        keys = self.keys
        attributes = (keys["stage"], stage, keys["microbatch"], microbatch, keys["action"], kind)
        self.core.span(self.type, 0, self.core.intern(name), began, ended, -1, 0, attributes)

    def _mark(self) -> int:
        return layer_marks.mark() if self.marked else -1

    def _write_marks(self, name: str, first: int, last: int) -> None:
        if first >= 0:
            kind, stage, microbatch = self.action
            layer_marks.span(first, last, name, kind, stage, microbatch)

    # ---- hooks ----

    def _entering(self) -> Callable[..., None]:
        def entering(layer: Any, args: Any) -> None:
            if self.action[0] == "F":  # not where a checkpoint computes anew in the backward
                mark = self._mark()
                self.entered.append((layer, self.core.now(), mark))

        return entering

    def _leaving(self, name: str) -> Callable[..., None]:
        def leaving(layer: Any, args: Any, named: Any, output: Any) -> None:
            if self.action[0] != "F" or not self.entered or self.entered[-1][0] is not layer:
                return
            _, began, mark = self.entered.pop()
            try:
                ended = self.core.now()
                if mark >= 0:
                    self._write_marks(name, mark, self._mark())
                self._write(name, began, ended)
                self._follow(Pass(name), (args, named), output)
            except Exception as failure:
                session.note(f"pipeline: a layer was not timed: {failure!r}")

        return leaving

    def _follow(self, one: Pass, inputs: Any, outputs: Any) -> None:
        """See the backward of one pass by the gradients around it."""

        def begins(gradient: Any) -> None:
            met = self.backward
            if met is not None and not one.began:
                one.began, one.first = self.core.now(), self._mark()
                met.append(one)
                if gradient is not None:
                    self.seen = (weakref.ref(gradient), one)

        def ends(gradient: Any) -> None:  # called after the other, which the layer before has set on the tensor
            if self.backward is not None and one.began:
                begun_by, begun = self.seen
                if begun is None or begun is one or gradient is None or begun_by() is not gradient:
                    one.ended = self.core.now()  # a layer may hand on the very gradient that began itself
                    one.last = self._mark() if one.first >= 0 else -1
                else:
                    one.ended, one.last = begun.began, begun.first

        for tensor in tensors_in(inputs):
            if tensor.requires_grad and not tensor.is_leaf:  # what is a leaf is kept, and would keep the hook
                tensor.register_hook(ends)
        for tensor in tensors_in(outputs):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(begins)

    def _follow_weights(self) -> None:
        """See when in an action W the gradients of each layer's parameters are there."""
        left = [len(own) for own in self._own_parameters()]
        under_way = -1
        met = self.of_weights = []

        def came(layer: int, _: Any) -> None:
            nonlocal under_way
            if under_way not in (-1, layer):  # they come in turns: where one ends nobody sees
                under_way = -2
                met.clear()
                return
            left[layer] -= 1
            under_way = layer if left[layer] else -1
            if not left[layer]:
                one = Pass(self.layers[layer][0])
                one.began, one.first = self.before
                self.before = one.ended, one.last = self.core.now(), self._mark() if one.first >= 0 else -1
                met.append(one)

        for layer, own in enumerate(self.parameters):
            for parameter in own:
                self.weights.append(parameter.register_hook(partial(came, layer)))

    def _own_parameters(self) -> list[list[Any]]:
        if not self.parameters:
            taken: set[int] = set()
            for _, layer in self.layers:
                own = [one for one in layer.parameters() if one.requires_grad and id(one) not in taken]
                taken.update(map(id, own))
                self.parameters.append(own)
        return self.parameters

    def _drop_weights(self) -> None:
        for handle in self.weights:
            handle.remove()
        self.weights.clear()


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
