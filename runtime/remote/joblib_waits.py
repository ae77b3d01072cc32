"""Records how joblib waits for results: it asks for the next one again and again, and sleeps in between."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Function

_CALL, _SINCE = "_scalana_call", "_scalana_since"
"""What a batch has of its call, which it forgets once that is done; and when it was asked first whether it is."""
_patches = Patches("joblib")


def patch(module: Any) -> None:
    """Record waits for results; ``module`` is ``joblib.parallel``."""
    batch = module.BatchCompletionCallBack
    _patches.wrap(batch, "register_job", _register_job, "waits of joblib")
    _patches.wrap(batch, "get_status", _get_status, "waits of joblib")
    _patches.wrap(batch, "get_result", _get_result, "waits of joblib")


def _register_job(original: Function) -> Function:
    def register_job(self: Any, job: Any) -> Any:
        self.__dict__[_CALL] = getattr(job, _CALL, 0)
        return original(self, job)

    return register_job


def _get_status(original: Function) -> Function:
    def get_status(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is not None and _SINCE not in self.__dict__:
            self.__dict__[_SINCE] = calls.moment()
        return original(self, *args, **kwargs)

    return get_status


def _get_result(original: Function) -> Function:
    def get_result(self: Any, *args: Any, **kwargs: Any) -> Any:
        def tell() -> None:
            since, call, until = self.__dict__.pop(_SINCE, None), self.__dict__.get(_CALL, 0), calls.moment()
            if since is not None and until is not None and call:
                calls.waited(call, since, until)

        if session.core is not None:
            _patches.tried("a wait of joblib was not recorded", tell)
        return original(self, *args, **kwargs)

    return get_result
