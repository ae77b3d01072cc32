"""scalana: which line, on which rank, made everyone else wait.

Importing this package costs nothing: what a name needs is loaded when the name is first used.
"""

from __future__ import annotations

import os

from scalana.version import __version__

TYPE_CHECKING = False  # of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from scalana import pipeline, rl
    from scalana.api import Report, analyze
    from scalana.comparison import DiffReport, ScalingReport, diff, scaling
    from scalana.runtime.profile import profile
    from scalana.runtime.roles import role
    from scalana.runtime.spans import region, span
    from scalana.runtime.steps import step

__all__ = [
    "DiffReport",
    "Report",
    "ScalingReport",
    "__version__",
    "analyze",
    "diff",
    "pipeline",
    "profile",
    "region",
    "rl",
    "role",
    "scaling",
    "span",
    "step",
]

_HOMES = {
    "DiffReport": "scalana.comparison",
    "Report": "scalana.api",
    "ScalingReport": "scalana.comparison",
    "analyze": "scalana.api",
    "diff": "scalana.comparison",
    "profile": "scalana.runtime.profile",
    "region": "scalana.runtime.spans",
    "role": "scalana.runtime.roles",
    "scaling": "scalana.comparison",
    "span": "scalana.runtime.spans",
    "step": "scalana.runtime.steps",
}
_MODULES = ("pipeline", "rl")

# In a checkout the sibling folders (runtime, graphs, ...) stand beside this package; installed, they are inside it.
_beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if os.path.isfile(os.path.join(_beside, "pyproject.toml")) and os.path.isfile(
    os.path.join(_beside, "runtime", "operations.py")
):
    __path__.append(_beside)
del _beside


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if home is None:
        return import_module(f"scalana.{name}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
