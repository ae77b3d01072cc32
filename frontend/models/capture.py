"""A model to its operators: by export where that works, else by symbolic tracing around what cannot be traced."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from scalana.frontend.models import exported
from scalana.frontend.models.costs import Costs
from scalana.frontend.models.frames import all_frames, raised_in
from scalana.frontend.models.load import Loaded
from scalana.frontend.models.operators import Captured
from scalana.frontend.models.reasons import reason
from scalana.frontend.models.symbolic import Symbolic


def capture(loaded: Loaded) -> Captured:
    """The operators of a model, captured as well as it allows, and why not better."""
    import torch

    found = Captured(warnings=list(loaded.warnings))
    with _quiet():
        if isinstance(loaded.model, torch.export.ExportedProgram):
            found.operators, found.way = exported.operators(loaded.model), "export"
            return found
        inputs = None if loaded.args is None else _faked(loaded)
        graph_module = isinstance(loaded.model, torch.fx.GraphModule)
        if inputs is not None and not graph_module:
            try:
                with all_frames(), _plain(loaded.model, inputs[1]) as named:
                    program = torch.export.export(loaded.model, inputs[0], named or None, strict=False)
                found.operators, found.way = exported.operators(program), "export"
                return found
            except Exception as error:
                found.warnings.append(_not_exported(loaded.model, error))
        symbolic = Symbolic(loaded.model, Costs(loaded.fake))
        symbolic.trace(loaded.model, "", inputs, ())
    found.operators = symbolic.operators
    found.way = "modules" if "" in symbolic.whole else "fx"
    found.warnings += [f"{_called(path)} is not analysed: {why}" for path, why in symbolic.whole.items()]
    return found


@contextlib.contextmanager
def _plain(model: Any, named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """While it lasts, a model takes and returns nothing of types that export does not know, such as caches of keys and
    values: such inputs are given to it here, and of what it returns the tensors are left.

    Returns:
        The inputs that are still to be given.
    """
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    known = torch.Tensor, int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout
    held = {name: value for name, value in named.items() if not all(isinstance(x, known) for x in tree_leaves(value))}

    def complete(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return args, kwargs | held

    def plain(_: Any, __: Any, output: Any) -> Any:
        return tree_map(lambda value: value if isinstance(value, torch.Tensor) else None, output)

    handles = [model.register_forward_hook(plain)]
    if held:
        handles.append(model.register_forward_pre_hook(complete, with_kwargs=True))
    try:
        yield {name: value for name, value in named.items() if name not in held}
    finally:
        for handle in handles:
            handle.remove()


def _not_exported(model: Any, error: BaseException) -> str:
    names = {id(module): name for name, module in model.named_modules()}
    name, frame = raised_in(error, names)
    return f"torch.export does not support this model, because of {_called(name)}: {reason(error, frame)}"


def _called(path: str) -> str:
    return f"module {path}" if path else "the model itself"


def _faked(loaded: Loaded) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs as tensors without data."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._pytree import tree_map

    def fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        return loaded.fake.from_tensor(value)

    args: tuple[Any, ...] = tree_map(fake, loaded.args)
    kwargs: dict[str, Any] = tree_map(fake, loaded.kwargs)
    return args, kwargs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What torch says of a model while it captures it is said in one warning of ours."""
    unread = io.StringIO()
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(unread), contextlib.redirect_stderr(unread):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
