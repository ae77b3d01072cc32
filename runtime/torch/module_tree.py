"""Modules by their qualified names, and what is written of them beside the record: classes, and where their code is.

The root is the outermost module that is called. What only wraps a module (DDP, FSDP, ``torch.compile``, checkpoints)
adds nothing to the names of those inside.
"""

from __future__ import annotations

import weakref

from scalana.runtime import session
from scalana.runtime.torch import models_file
from scalana.runtime.typed import Any

WRAPPERS = frozenset("DistributedDataParallel DataParallel FullyShardedDataParallel Float16Module".split())
"""Classes whose only child, ``module``, is the model."""
WRAPPED = frozenset("_orig_mod _fsdp_wrapped_module _checkpoint_wrapped_module".split())
"""Names by which a wrapper knows what it wraps, anywhere in a qualified name."""
MOST_MODULES = 20_000
"""Of a root whose names are learned; the others are called by their class."""


class Known:
    """One module: how its spans are called."""

    __slots__ = ("attributes", "inside", "kind", "name", "name_id", "ref", "root")

    def __init__(self, module: Any, name: str, root: str) -> None:
        self.ref = weakref.ref(module)
        self.name, self.root = name, root
        self.inside = f"{name}." if name else ""
        """How the names of what is inside of it begin."""
        self.kind = class_of(module).__name__
        self.name_id = 0
        self.attributes: tuple[tuple[Any, ...], ...] = ()
        """Keys and values for each direction, as the extension takes them."""

    def holds(self, other: Known) -> bool:
        """Whether another module is inside of this one."""
        return self.root == other.root and other.name.startswith(self.inside)


class Tree:
    """All modules that were met in this process."""

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def new_record(self) -> None:
        """What was told of modules stands beside another record."""
        self._known.clear()

    def get(self, module: Any) -> Known | None:
        """What is known of a module."""
        known = self._known.get(id(module))
        return known if known is not None and known.ref() is module else None

    def learn(self, module: Any, above: Known | None) -> Known:
        """A module that is new, called by another one or by none: then it is a root."""
        if above is not None:
            known = Known(module, f"{above.name}.{type(module).__name__}".lstrip("."), above.root)
            self._known[id(module)] = known
            return known
        root = class_of(inner(module)).__name__
        rows = []
        for number, (path, each) in enumerate(module.named_modules()):
            if number >= MOST_MODULES:
                break
            known = self._known[id(each)] = Known(each, plain_name(module, path), root)
            rows.append(describe(each, known))
        models_file.models.append({"root": root, "modules": rows})
        try:
            models_file.write()
        except OSError as failure:
            session.note(f"torch: the modules of {root} are not recorded: {failure}")
        return self._known[id(module)]


def inner(module: Any) -> Any:
    """What is wrapped."""
    while True:
        name = next((name for name in WRAPPED if name in module._modules), "")
        if not name and type(module).__name__ in WRAPPERS and "module" in module._modules:
            name = "module"
        if not name:
            return module
        module = module._modules[name]


def class_of(module: Any) -> type[Any]:
    """The class of a module as the program has it: FSDP makes one of its own out of it."""
    kind = type(module)
    made = kind.__name__.startswith("FSDP") and len(kind.__bases__) == 2
    return kind.__bases__[1] if made and kind.__bases__[0].__name__ == "FSDPModule" else kind


def plain_name(root: Any, path: str) -> str:
    """A qualified name without what wrappers add."""
    parts = path.split(".")
    if type(root).__name__ in WRAPPERS and parts[0] == "module":
        parts = parts[1:]
    return ".".join(part for part in parts if part not in WRAPPED)


def describe(module: Any, known: Known) -> dict[str, Any]:
    """What the front end cannot know of a module: its class, and where its ``forward`` is."""
    kind = class_of(module)
    row: dict[str, Any] = {"name": known.name, "class": f"{kind.__module__}.{kind.__qualname__}"}
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if code is not None:
        lines = [line for _, _, line in code.co_lines() if line]
        row.update(file=code.co_filename, line=code.co_firstlineno, end_line=max(lines, default=code.co_firstlineno))
    if kind.__name__ in WRAPPERS and getattr(module, "find_unused_parameters", False) is True:
        row["searched"] = sum(parameter.requires_grad for parameter in module.parameters())
    return row
