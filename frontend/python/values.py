"""What an expression may stand for, as far as it matters for calls.

Values are interned: equal ones are the same object, so that they compare and hash by identity however deeply they
nest. An expression has a tuple of values, all that it may stand for; the empty tuple means that nothing is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import ast

    from scalana.frontend.python.modules import Module
    from scalana.graphs.structure.source_tree import FunctionStructure

WIDTH = 8
"""Most values that an expression is followed with."""
DEPTH = 5
"""How deeply bindings nest before they are forgotten: an object given an object given an object ..."""


@dataclass(frozen=True, eq=False, slots=True)
class Environment:
    """What names of a function are bound to by its caller, or by the functions around it."""

    bindings: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    def get(self, name: str) -> tuple[Value, ...] | None:
        """The values bound to a name, None if it is not bound."""
        for bound, values in self.bindings:
            if bound == name:
                return values
        return None


@dataclass(frozen=True, eq=False, slots=True)
class ModuleValue:
    """A module of the user's."""

    module: Module


@dataclass(frozen=True, eq=False, slots=True)
class ClassValue:
    """A class of the user's."""

    module: Module
    node: ast.ClassDef
    environment: Environment


@dataclass(frozen=True, eq=False, slots=True)
class FunctionValue:
    """A function of the user's; its environment binds the names of the functions around it."""

    module: Module
    function: FunctionStructure
    environment: Environment
    receiver: Instance | ClassValue | None = None
    """Of a method: the object, which is its first argument."""


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """An object of a user's class; the environment binds the parameters that it was made with."""

    cls: ClassValue
    environment: Environment


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """A list, tuple, dictionary ... of values."""

    items: tuple[tuple[Value, ...], ...]
    """Values of each element."""
    keys: tuple[object, ...] = ()
    """Of a dictionary with constant keys: these."""


@dataclass(frozen=True, eq=False, slots=True)
class External:
    """Something that is not the user's, by its dotted name: ``torch.distributed.all_reduce``."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Result:
    """What an external call returned.

    If it was given functions or objects of the user's, it may behave like them: ``DDP(model)``, ``partial(f, 1)``,
    ``torch.compile(model)``, ``nn.Sequential(Block(), Block())``.
    """

    name: str
    """Dotted name of what was called."""
    items: tuple[tuple[Value, ...], ...] = ()


Value = ModuleValue | ClassValue | FunctionValue | Instance | Items | External | Result
Values = tuple[Value, ...]

EMPTY = Environment()
_Kind = TypeVar("_Kind")


def union(parts: Iterable[Values]) -> Values:
    """The values in all parts, each once."""
    return tuple(dict.fromkeys(value for part in parts for value in part))[:WIDTH]


class Interner:
    """Makes values, each once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}
        self._depth: dict[object, int] = {}

    def make(self, kind: type[_Kind], *fields: Hashable) -> _Kind:
        """The value of a class with these fields (which are values, tuples of such, or compare by themselves)."""
        key = (kind, fields)
        value = self._made.get(key)
        if value is None:
            value = self._made[key] = kind(*fields)
        return value  # type: ignore[return-value]

    def environment(self, bindings: dict[str, Values]) -> Environment:
        """An environment; bindings that nest deeper than :data:`DEPTH` are left out."""
        kept = tuple(
            (name, values) for name, values in sorted(bindings.items()) if values and self.depth(values) < DEPTH
        )
        return self.make(Environment, kept) if kept else EMPTY

    def depth(self, values: Values) -> int:
        """How deeply values nest."""
        return max((self._value_depth(value) for value in values), default=0)

    def _value_depth(self, value: object) -> int:
        known = self._depth.get(value)
        if known is None:
            known = 0
            environment = getattr(value, "environment", EMPTY)
            for _, values in environment.bindings:
                known = max(known, 1 + self.depth(values))
            for values in getattr(value, "items", ()):
                known = max(known, 1 + self.depth(values))
            for part in (getattr(value, "cls", None), getattr(value, "receiver", None)):
                if part is not None:
                    known = max(known, self._value_depth(part))
            self._depth[value] = known
        return known
