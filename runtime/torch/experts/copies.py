"""Copies of experts between memory of the host and a device, in programs whose modules speak of experts.

A hook looks at the names of the first modules that are called, and goes away. Methods of tensors are surrounded only
where one of these names speaks of experts, and are as they were once something is compiled.
"""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.patching import Patches, surrounded
from scalana.runtime.torch.experts.functions import speaks_of_experts
from scalana.runtime.torch.experts.loads import LOADS
from scalana.runtime.typed import Any

LOOKED_AT = 512
"""Calls of modules whose names are looked at."""
LEAST_BYTES = 1 << 14
"""Of a copy of weights."""
_patches = Patches("torch")


class Copies:
    """Sees copies of this process.

    Args:
        module: ``torch.nn.modules.module``.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handle: Any = None
        self._left = LOOKED_AT
        self._had: list[tuple[Any, str, Any]] = []
        """What is surrounded: its owner, its name, and what the owner had by that name itself."""

    def new_record(self) -> None:
        """Another recording began."""
        if self._handle is None and self._left == LOOKED_AT and session.core is not None:
            self._handle = self._module.register_module_forward_pre_hook(self._entering)

    def forget(self) -> None:
        """Leave all as it was."""
        self._look_no_more()
        for owner, name, had in self._had:
            if had is None:
                delattr(owner, name)
            else:
                setattr(owner, name, had)
        self._had.clear()

    def _look_no_more(self) -> None:
        self._left = 0
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _entering(self, module: Any, args: Any) -> None:
        try:
            self._left -= 1
            torch = sys.modules["torch"]
            if self._left <= 0 or torch.compiler.is_compiling():
                self._look_no_more()
            elif _is_of_experts(module):
                self._look_no_more()
                self._surround(torch.Tensor, "copy_", _enter_copy)
                self._surround(torch.Tensor, "to", _enter_move)
                self._surround(torch.Tensor, "cuda", _enter_move)
                self._surround(torch.nn.Module, "load_state_dict", LOADS.enter_load_of_experts)
        except Exception as failure:
            self._look_no_more()
            _patches.failed("copies of experts are not recorded", failure)

    def _surround(self, owner: Any, name: str, enter: Any) -> None:
        original = getattr(owner, name)
        self._had.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, surrounded(original, enter, LOADS.leave_load))


def _is_of_experts(module: Any) -> bool:
    """Whether the name of a module, or of something that it holds, speaks of experts."""
    held = (name for key, value in vars(module).items() for name in (key, type(value).__name__))
    return any(map(speaks_of_experts, (type(module).__name__, *held, *module._modules)))


def _enter_copy(arguments: tuple[Any, ...]) -> str | None:
    return LOADS.enter_load_of_experts(()) if arguments[0].nbytes >= LEAST_BYTES else None


def _enter_move(arguments: tuple[Any, ...]) -> str | None:
    """A tensor is moved, if its first argument is another device."""
    tensor, to = arguments[0], arguments[1] if len(arguments) > 1 else "cuda"
    kind = to.partition(":")[0] if isinstance(to, str) else getattr(to, "type", "")
    moves = isinstance(kind, str) and kind not in ("", tensor.device.type)
    return LOADS.enter_load_of_experts(()) if moves and tensor.nbytes >= LEAST_BYTES else None


_copies: Copies | None = None


def watch(module: Any) -> None:
    """See copies of experts; ``module`` is ``torch.nn.modules.module``."""
    global _copies
    _copies = Copies(module)
    session.when_started(_copies.new_record)
    _copies.new_record()


def _forget(_: Any = None) -> None:
    LOADS.forget()
    if _copies is not None:
        _copies.forget()


def leave_compiled_alone(module: Any) -> None:
    """Forget all before a module is compiled, which warns of hooks; ``module`` is ``torch._dynamo.eval_frame``."""
    _patches.surround(module.OptimizedModule, "__init__", _forget, lambda *_: None, "compiled modules")


def watch_compilation(module: Any) -> None:
    """The same before anything is compiled; ``module`` is ``torch._dynamo.callback``."""
    module.on_compile_start(_forget)
