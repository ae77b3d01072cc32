"""What tests need that may not be installed, and modules that they import as late as they can.

Every process of ``pytest -n`` collects all tests: what a module imports at its top, each of them pays for. Torch takes
three seconds of CPU time.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


def torch_or_skip() -> None:
    """Skip the test, or the module of tests, where torch is not installed. Does not import it."""
    if find_spec("torch") is None:
        pytest.skip("needs torch", allow_module_level=True)


class Later:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name != "__file__" and name.startswith(("_", "pytest")):  # pytest asks for them when it collects
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
