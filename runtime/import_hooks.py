"""Run a function when a module has finished importing, without importing it ourselves.

A finder at the front of ``sys.meta_path`` looks at the watched names only. It lets the other finders find the module
and wraps ``exec_module`` on that one loader instance, so that the module's ``__loader__`` and ``__spec__`` stay what
they are. When nothing is watched any more the finder takes itself off.
"""

from __future__ import annotations

import sys

from scalana.runtime.typed import Any, Callable

_watched: dict[str, list[Callable[[Any], None]]] = {}


class _Finder:
    """Finder that never finds a module by itself, but tells when a watched one was loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _watched:
            return None
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        if spec is not None:
            try:
                _wrap(name, spec.loader)
            except Exception:
                _watched.pop(name, None)
        return spec

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


_finder = _Finder()


def _wrap(name: str, loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        try:
            del loader.exec_module
        except AttributeError:
            pass
        execute(module)
        _imported(name, module)

    loader.exec_module = exec_module


def _imported(name: str, module: Any) -> None:
    for function in _watched.pop(name, ()):
        try:
            function(module)
        except Exception as failure:
            from scalana.runtime import session

            session.note(f"after the import of {name}: {failure!r}")
    if not _watched and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def when_imported(name: str, function: Callable[[Any], None]) -> None:
    """Call ``function(module)`` once module ``name`` has been imported; at once if it already is.

    An exception of ``function`` becomes a note in the record.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _watched.setdefault(name, []).append(function)
        _imported(name, module)
        return
    _watched.setdefault(name, []).append(function)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
