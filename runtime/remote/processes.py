"""Records when processes of :mod:`multiprocessing` start others, and wait for their ends."""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import asking, calls, libraries, part
from scalana.runtime.typed import Any, Function

_END = 1
"""What the end of a process has in its id behind that of its start."""
_patches = Patches("multiprocessing")


def patch(module: Any) -> None:
    """Record starts and joins; ``module`` is ``multiprocessing.process``."""
    process = module.BaseProcess
    _patches.wrap(process, "start", _start, "starts of processes")
    _patches.wrap(process, "join", _join, "waits for processes to end")
    asking.see(_patches, process, "is_alive", True, "waits for processes to end", _ids_of)
    for name in ("terminate", "kill"):
        _patches.wrap(process, name, _ended, "which processes are ended by others")
    _patches.wrap(process, "_bootstrap", _bootstrap, "starts of processes")


def end_of(process: Any) -> int:
    """The id of the end of a process, 0 where its start was not recorded."""
    call = process.__dict__.get("_scalana_start")
    return 0 if call is None else calls.mixed(call, _END)


def _ids_of(process: Any) -> tuple[int, ...]:
    end = end_of(process)
    return (end,) if end and part.is_told_apart() else ()


def _is_helper(process: Any) -> bool:
    """Whether a process is a detail of a library's, whose work counts for who starts it."""
    home = getattr(process.__dict__.get("_target"), "__module__", None) or ""
    return home.startswith(libraries.HELPERS)


def _start(original: Function) -> Function:
    def start(self: Any) -> Any:
        before = calls.moment()
        if before is not None and self.__dict__.get("_scalana_start") is None and not _is_helper(self):
            call = calls.new_id()
            self._scalana_start = call  # goes with it, however the process is started
            calls.started(call, before)
        return original(self)

    return start


def _bootstrap(original: Function) -> Function:
    def bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = self.__dict__.get("_scalana_start")
        if call is not None and session.core is not None:

            def record() -> None:
                calls.began(call, str(self.name))
                run = self.run

                def recorded() -> None:
                    try:
                        run()
                    finally:
                        if part.is_told_apart():
                            calls.ended(calls.mixed(call, _END))

                self.run = recorded

            _patches.tried("the start of a process was not recorded", record)
        return original(self, *args, **kwargs)

    return bootstrap


def _ended(original: Function) -> Function:
    def end(self: Any) -> Any:
        core = session.core
        if core is not None and self.pid is not None and self.pid not in _ended_processes:
            _ended_processes[self.pid] = None
            # Its record will have no end, and that is no crash.
            told = ",".join(map(str, _ended_processes))
            _patches.tried("the end of a process was not recorded", lambda: core.meta("ended_processes", told))
        return original(self)

    return end


_ended_processes: dict[int, None] = {}


def _join(original: Function) -> Function:
    def join(self: Any, timeout: Any = None) -> Any:
        end = end_of(self)
        of_pool = sys._getframe(1).f_globals.get("__name__") in libraries.OF_POOLS
        if not end or session.core is None or of_pool or not part.is_told_apart():
            return original(self, timeout)
        handle = calls.join(end)
        try:
            return original(self, timeout)
        finally:
            calls.got(handle, end)

    return join
