"""``MODULE:FACTORY`` and ``4x128:int64`` to a model and its example inputs.

A factory runs under torch's fake tensors where it can: they have shapes and no data, so that a model of any size costs
no memory. Where it needs values, it runs once more for real.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalana.frontend.models.operators import ModelError

SHAPE = re.compile(r"(\d+(?:x\d+)*)(?::([a-z]\w*))?")
"""``4x128:int64``; float32 where no type is given."""


@dataclass(slots=True)
class Loaded:
    """A model and what it is called with."""

    model: Any
    """A module, a ``GraphModule`` or an ``ExportedProgram``."""
    args: tuple[Any, ...] | None = None
    """None where there are no example inputs."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    fake: Any = None
    """The ``FakeTensorMode`` to capture under."""
    warnings: list[str] = field(default_factory=list)


def import_torch() -> Any:
    """torch itself.

    Raises:
        ModelError: it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ModelError(
            f"--model needs torch in the environment of scalana ({sys.prefix}), but importing it fails: {error}. Try: "
            "pip install torch"
        ) from error


def load(spec: str, inputs: Sequence[str] = ()) -> Loaded:
    """The model that a specification names.

    Args:
        spec: ``MODULE:FACTORY``: a module, a class of modules, or something to call that returns a model or
            ``(model, inputs)``. The working directory is looked in first.
        inputs: shapes such as ``4x128:int64``, or one ``MODULE:FUNCTION`` that returns what to call the model with: one
            tensor, a tuple of arguments, or a dictionary of named ones.

    Raises:
        ModelError: there is no such thing, it is no model, or it raises.
    """
    torch = import_torch()
    found = _named(spec, "--model", "models:make")
    from torch._subclasses.fake_tensor import FakeTensorMode  # type: ignore[import-not-found,unused-ignore]

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    loaded = Loaded(None, fake=fake)
    made = found
    if not _is_model(found):
        if not callable(found):
            raise ModelError(f"--model {spec}: a {type(found).__name__} is neither a model nor callable")
        made = _made(found, spec, loaded)
    if isinstance(made, tuple) and len(made) == 2:
        made, given = made
        loaded.args, loaded.kwargs = _arguments(torch, given)
    if not _is_model(made):
        raise ModelError(
            f"--model {spec} gives a {type(made).__name__}; a torch.nn.Module, an ExportedProgram, or a pair of such "
            "a model and its inputs is needed"
        )
    loaded.model = getattr(made, "_orig_mod", made)  # what torch.compile wraps
    if inputs:
        loaded.args, loaded.kwargs = _inputs(torch, inputs, fake)
    _check_inputs(loaded)
    return loaded


def _named(spec: str, option: str, example: str) -> Any:
    """What ``MODULE:NAME`` means."""
    name, colon, attribute = spec.partition(":")
    if not colon or not name or not attribute or name.endswith(".py") or os.sep in name:
        wanted = f"{name.removesuffix('.py').replace(os.sep, '.').lstrip('.') or 'models'}:{attribute or 'make'}"
        raise ModelError(f"{option} {spec}: write MODULE:NAME, such as {wanted or example}")
    with _importable():
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{name}.".startswith(f"{error.name}."):
                raise ModelError(f"{option} {spec}: {name} imports {error.name}, which is not installed") from error
            raise ModelError(
                f"{option} {spec}: there is no module {error.name or name} in {os.getcwd()} or on Python's path "
                "(set PYTHONPATH, or change to its folder)"
            ) from error
        except Exception as error:
            raise ModelError(f"{option} {spec}: importing {name} fails: {told(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
            raise ModelError(f"{option} {spec}: there is no {part} in {name}; there are {', '.join(public[:8]) or '-'}")
        found = getattr(found, part)
    return found


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """The working directory first on the path; what the user's code prints goes to the standard error."""
    added = os.getcwd()
    sys.path.insert(0, added)
    try:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")  # to copy one does
            yield
    finally:
        sys.path.remove(added)


def _is_model(value: Any) -> bool:
    import torch

    return isinstance(value, (torch.nn.Module, torch.export.ExportedProgram))


def _made(factory: Any, spec: str, loaded: Loaded) -> Any:
    """What a factory returns, without data if it can."""
    needed = required(factory)
    if needed:
        raise ModelError(
            f"--model {spec} needs arguments ({', '.join(needed)}): write a function without arguments that returns "
            "the model, and name it"
        )
    with _importable():
        try:
            with loaded.fake:
                return factory()
        except Exception as first:
            try:
                made = factory()
            except Exception as error:
                raise ModelError(f"--model {spec} raises {told(error)}") from error
            loaded.warnings.append(f"{spec} was built with its data: without them it raises {told(first)}")
            return made


def required(function: Any) -> list[str]:
    """Names of the arguments without which it cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = (*positional, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]


def _inputs(torch: Any, texts: Sequence[str], fake: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs from the command line."""
    if len(texts) == 1 and not SHAPE.fullmatch(texts[0]) and ":" in texts[0]:
        function = _named(texts[0], "--inputs", "models:inputs")
        with _importable():
            try:
                with fake:
                    return _arguments(torch, function())
            except Exception:
                try:
                    return _arguments(torch, function())
                except Exception as error:
                    raise ModelError(f"--inputs {texts[0]} raises {told(error)}") from error
    with fake:
        return tuple(_tensor(torch, text) for text in texts), {}


def _tensor(torch: Any, text: str) -> Any:
    match = SHAPE.fullmatch(text)
    if match is None:
        raise ModelError(f"--inputs {text}: write a shape such as 4x128:int64, or MODULE:FUNCTION")
    dtype = getattr(torch, match[2] or "float32", None)
    if not isinstance(dtype, torch.dtype):
        raise ModelError(f"--inputs {text}: torch has no type {match[2]}; try float32, bfloat16, int64 or bool")
    return torch.zeros([int(size) for size in match[1].split("x")], dtype=dtype)


def _arguments(torch: Any, given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments, out of what a function returned."""
    if isinstance(given, Mapping):
        return (), dict(given)
    if isinstance(given, (tuple, list)):
        pair = len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict)
        return (given[0], given[1]) if pair else (tuple(given), {})
    return (given,), {}


def _check_inputs(loaded: Loaded) -> None:
    """Inputs that are missing are a warning, for modules and operators can be shown without; too few, an error."""
    forward = getattr(loaded.model, "forward", None)
    if forward is None or not hasattr(loaded.model, "parameters") or hasattr(loaded.model, "graph_signature"):
        return
    needed = required(forward)
    head = f"{type(loaded.model).__name__}.forward({', '.join(needed)})"
    if loaded.args is None:
        if not needed:
            loaded.args = ()
            return
        example = " ".join(["4x128"] * len(needed))
        loaded.warnings.append(
            f"without example inputs, no shapes and no FLOPs: {head} needs {len(needed)}; write --inputs {example} "
            "(with your shapes, and :int64 behind one of integers), or --inputs MODULE:FUNCTION"
        )
        return
    try:
        inspect.signature(forward).bind(*loaded.args, **loaded.kwargs)
    except TypeError as error:
        given = len(loaded.args) + len(loaded.kwargs)
        raise ModelError(
            f"the model cannot be called with these {given} inputs: {error}; {head} needs {len(needed)}"
        ) from error


def told(error: BaseException) -> str:
    """An error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
