"""Modules that stand for others that are not installed and not needed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any


class Nothing:
    """Is called, looked into and inherited from, whatever a module has."""

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Nothing()

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (type("Nothing", (), {}),)

    def __or__(self, other: Any) -> Any:
        return other

    def __getitem__(self, key: Any) -> Nothing:
        return self

    __ror__ = __or__


class Absent:
    """Finds modules that have nothing in them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """A module of nothing, for a name of ours or below one."""
        if any(f"{name}.".startswith(f"{absent}.") for absent in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module of nothing."""
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(Nothing(), name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to execute."""


def stand_in(modules: Mapping[str, str]) -> None:
    """Let imports of modules give modules of nothing, where the packages that they need are not installed."""
    missing = [name for name, package in modules.items() if importlib.util.find_spec(package) is None]
    sys.meta_path.insert(0, Absent(missing))  # type: ignore[arg-type]
