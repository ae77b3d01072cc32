"""Records that an event loop of :mod:`asyncio` waits for calls of process pools (``run_in_executor``, ``wrap_future``).

A loop waits in its selector, for whatever comes first. What it waited in it before the result of such a call came is
waiting for this call; no more is recorded of it than that.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]

_SHORT_NS = 50_000
"""A loop that is less than this in its selector has something else to do."""
_patches = Patches("asyncio")


def patch(module: Any) -> None:
    """Record waits of event loops; ``module`` is ``asyncio.futures``."""
    _patches.wrap(module, "wrap_future", _wrap_future, "waits of event loops for pools")
    _patches.wrap(module, "_copy_future_state", _copy_future_state, "waits of event loops for pools")


def _wrap_future(original: Function) -> Function:
    def wrap_future(future: Any, *args: Any, **kwargs: Any) -> Any:
        wrapped = original(future, *args, **kwargs)
        if getattr(future, "_scalana_call", 0) and session.core is not None:
            _patches.tried(
                "a wait for a pool is not recorded", lambda: _watch(getattr(wrapped._loop, "_selector", None))
            )
        return wrapped

    return wrap_future


def _watch(selector: Any) -> None:
    """Remember when a selector had nothing."""
    if selector is None or "_scalana_waited" in selector.__dict__:
        return
    select = selector.select

    def watched(*args: Any, **kwargs: Any) -> Any:
        since = calls.moment()
        ready = select(*args, **kwargs)
        until = calls.moment()
        waited = since is not None and until is not None and until[0] - since[0] >= _SHORT_NS
        selector._scalana_waited = (since, until) if waited else None
        return ready

    selector._scalana_waited = None
    selector.select = watched


def _copy_future_state(original: Function) -> Function:
    def copy_future_state(source: Any, dest: Any, *args: Any, **kwargs: Any) -> Any:
        call = getattr(source, "_scalana_call", 0)
        if call and session.core is not None:

            def tell() -> None:
                waited = getattr(getattr(dest.get_loop(), "_selector", None), "_scalana_waited", None)
                if waited is not None:
                    calls.waited(call, *waited)

            _patches.tried("a wait for a pool was not recorded", tell)
        return original(source, dest, *args, **kwargs)

    return copy_future_state
