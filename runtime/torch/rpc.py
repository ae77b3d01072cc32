"""Records remote procedure calls of ``torch.distributed.rpc``.

A call carries its id behind the pickle of its function, where whoever unpickles it without us does not look. Calls of
operators and of TorchScript run without Python where they are called, and are not recorded.
"""

from __future__ import annotations

import sys
import weakref
from _thread import _local

from scalana.runtime import session
from scalana.runtime.operations import BY_NAME
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls, sizes
from scalana.runtime.typed import Any, Callable, Function

_END = b"\0"
"""Behind an id; a pickle ends with a dot."""
_TRAILER = 9
_BLOCKING = 1
_GROUP = "torch.distributed.rpc"
_patches = Patches(_GROUP)
_inside = _local()
"""``meeting``: whether this thread is where all processes meet, which torch does by calls of its own."""
_futures: Any = weakref.WeakKeyDictionary()
"""What a call is known by, by its future."""
_references: dict[str, int] = {}
"""The same of ``rpc.remote``, by the id of what it makes."""
_meetings: dict[str, int] = {}
"""How many times each group of processes has met."""


def patch(api: Any) -> None:
    """Record calls; ``api`` is ``torch.distributed.rpc.api``."""
    internal, torch = sys.modules["torch.distributed.rpc.internal"], sys.modules["torch"]
    _patches.wrap(api, "_init_rpc_states", _init, "ranks")
    _patches.wrap(api, "_invoke_rpc_python_udf", _invoke, "calls")
    _patches.wrap(api, "_invoke_remote_python_udf", _remote, "calls of rpc.remote")
    _patches.wrap(api, "_all_gather", _all_gather(api), "waits for all processes")
    _patches.wrap(internal, "deserialize", _deserialize(internal), "calls")
    _patches.wrap(internal, "_run_function", _run, "calls")
    _patches.wrap(torch._C.Future, "wait", _wait, "waits for results")
    _patches.wrap(api.PyRRef, "to_here", _to_here, "waits for remote objects")


def _init(original: Function) -> Function:
    def init(agent: Any) -> Any:
        def tell() -> None:
            session.become_rank(int(agent.get_worker_info().id), len(agent.get_worker_infos()))

        _patches.tried("the rank of a process was not recorded", tell)
        return original(agent)

    return init


def _with_id(pickled: Any) -> tuple[Any, int]:
    """A pickled function with the id of a new call behind it, and that id, 0 where it is not recorded."""
    if session.core is None or getattr(_inside, "meeting", False) or not isinstance(pickled, bytes):
        return pickled, 0
    call = calls.new_id()
    return pickled + call.to_bytes(8, "little") + _END, call


def _invoke(original: Function) -> Function:
    def invoke(to: Any, pickled: Any, *args: Any) -> Any:
        pickled, call = _with_id(pickled)
        if call:
            calls.submit(call, len(pickled))
        future = original(to, pickled, *args)
        if call:
            _patches.tried("waits for results are not recorded", lambda: _futures.__setitem__(future, call))
        return future

    return invoke


def _remote(original: Function) -> Function:
    def remote(to: Any, pickled: Any, *args: Any) -> Any:
        pickled, call = _with_id(pickled)
        if call:
            calls.submit(call, len(pickled))
        reference = original(to, pickled, *args)
        if call:
            _patches.tried(
                "waits for remote objects are not recorded", lambda: _references.__setitem__(_name_of(reference), call)
            )
        return reference

    return remote


def _name_of(reference: Any) -> str:
    """What a remote object is known by in all processes."""
    return str(reference).partition("RRefId = ")[2].partition(")")[0]


def _deserialize(internal: Any) -> Callable[[Function], Function]:
    class Recorded(internal.PythonUDF):  # type: ignore[misc,name-defined]
        """A function that was called from elsewhere, and the id of the call."""

        call = 0

    def make(original: Function) -> Function:
        def deserialize(data: Any, *args: Any) -> Any:
            result = original(data, *args)
            try:
                if type(result) is internal.PythonUDF and data[-1:] == _END:
                    result = Recorded(*result)
                    result.call = int.from_bytes(data[-_TRAILER:-1], "little")
            except Exception as failure:
                _patches.failed("a call was not recorded", failure)
            return result

        return deserialize

    return make


def _run(original: Function) -> Function:
    def run(python_udf: Any) -> Any:
        call = getattr(python_udf, "call", 0)
        if not call or session.core is None:
            return original(python_udf)
        calls.took(call)
        result: Any = None
        mark: Any = None

        def look() -> None:
            nonlocal mark
            mark = sizes.begin(str(getattr(python_udf.func, "__name__", "")), python_udf.args)

        _patches.tried("what a call is about was not recorded", look)
        try:
            result = original(python_udf)
            return result
        finally:
            if mark is not None:
                mark.end()
            if hasattr(result, "add_done_callback"):  # of a function that does the rest later

                def done(_: Any) -> None:
                    calls.reply(call)

                _patches.tried("a result was not recorded", lambda: result.add_done_callback(done))
            else:
                calls.reply(call)

    return run


def _wait(original: Function) -> Function:
    def wait(self: Any) -> Any:
        call = _futures.get(self, 0) if _futures else 0
        if not call or session.core is None or getattr(_inside, "meeting", False):
            return original(self)
        handle = calls.wait(call)
        try:
            return original(self)
        finally:
            calls.got(handle, call)

    return wait


def _to_here(original: Function) -> Function:
    def to_here(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = 0
        if _references and session.core is not None:
            call = _references.get(_name_of(self), 0)
        if not call:
            return original(self, *args, **kwargs)
        handle = calls.wait(call)
        try:
            return original(self, *args, **kwargs)
        finally:
            calls.got(handle, call)

    return to_here


def _all_gather(api: Any) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def all_gather(obj: Any, worker_names: Any = None, *args: Any, **kwargs: Any) -> Any:
            event = 0

            def begin() -> None:
                nonlocal event
                event = _begin_meeting(api, worker_names)

            if session.core is not None:
                _patches.tried("a wait for all processes was not recorded", begin)
            _inside.meeting = True
            try:
                return original(obj, worker_names, *args, **kwargs)
            finally:
                _inside.meeting = False
                core = session.core
                if event and core is not None:
                    core.end(event)

        return all_gather

    return make


def _begin_meeting(api: Any, worker_names: Any) -> int:
    """All processes with these names, or all that there are, wait for each other."""
    core, agent = session.core, api._get_current_rpc_agent()
    ranks = sorted(int(info.id) for info in agent.get_worker_infos() if not worker_names or info.name in worker_names)
    name = f"{_GROUP} {','.join(map(str, ranks))}" if worker_names else _GROUP
    seq = _meetings[name] = _meetings.get(name, -1) + 1
    group = core.group(name, ranks.index(int(agent.get_worker_info().id)), ranks)
    event: int = core.begin(BY_NAME["barrier"].code, group, seq, -1, 0, 0, _BLOCKING)
    return event
