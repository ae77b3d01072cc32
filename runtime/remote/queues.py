"""Records messages between processes of :mod:`multiprocessing`: queues and pipes.

Several processes may put into a queue, so that order does not tell which message somebody gets. Each carries its id
behind its pickle, which whoever reads it without us does not look at; an unpickler stops where the pickle ends.
"""

from __future__ import annotations

import io
import os
import sys
from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import asking, calls, libraries, pickles
from scalana.runtime.remote.pipes import id_of_queue
from scalana.runtime.typed import Any, Function

_PACKAGES_OF_OTHERS = ("torch.utils.data.", "scalana.", "ray.")
_OF_POLLS = (*_PACKAGES_OF_OTHERS, *(f"{package}." for package in libraries.LIKE_MULTIPROCESSING))
"""Whose messages are details of what is recorded otherwise, or of processes that are helpers of a rank."""
_END = b"\0"
"""Behind an id; a pickle ends with a dot."""
_TRAILER = 9
_ROOM, _LEFT = 1, 2
_UNBOUNDED = (1 << 31) - 1
"""What multiprocessing makes of a queue without a bound, at most."""
_MOST_POLLS = 1000
"""Attempts in vain that are told with the message that comes in the end."""
_patches = Patches("multiprocessing")
_message = _local()
"""``sent``: the id that goes with what this thread pickles next; ``received``: that of what it has unpickled last;
``carrier``: who says so of all that it pickles."""
_pending: dict[int, list[int]] = {}
"""Ids of the messages that the thread of a queue has yet to pickle, by the address of the object."""
_calls: dict[int, list[int]] = {}
"""The same of calls that pools hand over."""
_vain: dict[int, list[tuple[tuple[int, int], tuple[int, int]]]] = {}
"""When threads have waited in vain for a message, by the address of the queue or the end of a pipe, or by an id."""


def patch_queues(module: Any) -> None:
    """Record messages of queues; ``module`` is ``multiprocessing.queues``."""
    _patch_pickler(module)
    for kind in (module.Queue, module.JoinableQueue):
        if "put" in vars(kind):
            _patches.wrap(kind, "put", _queue_put, "messages of queues")
    _patches.wrap(module.Queue, "get", _get, "messages of queues")
    asking.see(_patches, module.Queue, "empty", True, "waits for messages")
    _patches.wrap(module.JoinableQueue, "task_done", _task_done, "waits for queues")
    _patches.wrap(module.JoinableQueue, "join", _join, "waits for queues")
    _patches.wrap(module.SimpleQueue, "put", _put, "messages of queues")
    _patches.wrap(module.SimpleQueue, "get", _get, "messages of queues")
    asking.see(_patches, module.SimpleQueue, "empty", True, "waits for messages")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_pending.clear)
        os.register_at_fork(after_in_child=_calls.clear)


def patch_connections(module: Any) -> None:
    """Record messages of pipes; ``module`` is ``multiprocessing.connection``."""
    _patch_pickler(module)
    _patches.wrap(module._ConnectionBase, "send", _put, "messages of pipes")
    _patches.wrap(module._ConnectionBase, "recv", _get, "messages of pipes")
    _patches.wrap(module._ConnectionBase, "poll", _poll, "waits for messages")
    _patches.wrap(module, "wait", _wait, "waits for messages")


def patch_loky_queues(module: Any) -> None:
    """See what loky pickles, by a function of its own; ``module`` is its ``backend.queues``."""
    _patches.wrap(module, "dumps", _dumps, "what loky pickles")


def _dumps(original: Function) -> Function:
    def dumps(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is None:
            return original(obj, *args, **kwargs)
        return pickles.dump(lambda: original(obj, *args, **kwargs), _call_of(obj))

    return dumps


def _patch_pickler(module: Any) -> None:
    """Let a module that sends pickles send ids with them."""
    original: Any = getattr(module, "_ForkingPickler", None)
    if original is None or not callable(getattr(original, "dumps", None)):
        session.note(f"multiprocessing: {module.__name__} pickles differently: its messages are not recorded")
        return

    class Pickler(original):  # type: ignore[misc,valid-type]
        """Writes an id behind a pickle, and reads it."""

        @classmethod
        def dumps(cls, obj: Any, *args: Any, **kwargs: Any) -> Any:
            def with_id() -> Any:
                buffer = io.BytesIO()
                original(buffer, *args, **kwargs).dump(obj)
                buffer.write(message.to_bytes(8, "little") + _END)
                return buffer.getbuffer()

            carried_by = getattr(_message, "carrier", None)
            message = 0 if carried_by is None else carried_by.goes(obj)
            if session.core is None:
                return with_id() if message else original.dumps(obj, *args, **kwargs)
            by_thread = False
            if not message:
                message, by_thread = _id_for(obj)
            if not message:
                return pickles.dump(lambda: original.dumps(obj, *args, **kwargs), _call_of(obj))
            return pickles.dump(
                with_id, pickles.Next(pickles.MESSAGE, message, message, message) if by_thread else None
            )

        @staticmethod
        def loads(data: Any, *args: Any, **kwargs: Any) -> Any:
            received = _message.received = int.from_bytes(data[-_TRAILER:-1], "little") if data[-1:] == _END else 0
            if session.core is None:
                obj = original.loads(data, *args, **kwargs)
            else:
                obj = pickles.load(lambda: original.loads(data, *args, **kwargs), len(data))
            carried_by = getattr(_message, "carrier", None)
            if carried_by is not None:
                carried_by.came(obj, received)
            return obj

    Pickler.__name__, Pickler.__qualname__ = original.__name__, original.__qualname__
    module._ForkingPickler = Pickler


class Carrier:
    """Says which ids go with what a thread pickles, and sees those that come with what it unpickles."""

    __slots__ = ()

    def goes(self, obj: Any) -> int:
        """The id that goes with an object that is pickled now, 0 for none."""
        return 0

    def came(self, obj: Any, message: int) -> None:
        """An object has come, with an id or none (0)."""


def carry(carrier: Carrier | None) -> Carrier | None:
    """What this thread pickles and unpickles from now on goes by a carrier, or by none; the one before is returned."""
    before: Carrier | None = getattr(_message, "carrier", None)
    _message.carrier = carrier
    return before


def _id_for(obj: Any) -> tuple[int, bool]:
    """The id that goes with what is pickled now, 0 for none; and whether the thread of a queue does that."""
    sent = getattr(_message, "sent", 0)
    if sent:
        _message.sent = 0  # what is pickled within is no message
        return int(sent), False
    return _first(_pending, obj), True


def _first(waiting: dict[int, list[int]], obj: Any) -> int:
    """The first of the ids that wait for an object to be pickled, 0 for none."""
    ids = waiting.get(id(obj))
    if not ids:
        return 0
    first = ids.pop(0)
    if not ids:
        waiting.pop(id(obj), None)
    return first


def hands_over(obj: Any, call: int) -> None:
    """The thread of a queue will pickle what a pool hands over by a call."""
    _calls.setdefault(id(obj), []).append(call)


def _call_of(obj: Any) -> pickles.Next | None:
    """The call that the thread of a queue pickles now, if it is one."""
    call = _first(_calls, obj) if _calls else 0
    return pickles.Next(pickles.ARGUMENTS, call, call, call) if call else None


def _is_of_others(packages: tuple[str, ...] = _PACKAGES_OF_OTHERS) -> bool:
    """Whether who called our caller is a library whose messages are not looked at, or one of some packages."""
    caller = sys._getframe(1).f_back
    if caller is None:  # compiled code that no code of Python has called
        return False
    name = caller.f_globals.get("__name__", "")
    if name in libraries.QUEUES and caller.f_back is not None:  # by way of put_nowait or get_nowait
        name = caller.f_back.f_globals.get("__name__", "")
    return name in libraries.DETAILS or name.startswith(packages)


def _queue_put(original: Function) -> Function:
    def put(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is None or _is_of_others():
            return original(self, obj, *args, **kwargs)
        message = calls.new_id()
        _pending.setdefault(id(obj), []).append(message)
        since = calls.moment()
        try:
            result = original(self, obj, *args, **kwargs)
        except BaseException:
            _forget(obj, message)
            raise
        if _is_bounded(self):
            calls.blocked(_part_of(self, _ROOM), since)
        calls.put(message)
        return result

    return put


def _forget(obj: Any, message: int) -> None:
    """There was no room for a message."""
    waiting = _pending.get(id(obj), [])
    if message in waiting:
        waiting.remove(message)
    if not waiting:
        _pending.pop(id(obj), None)


def _put(original: Function) -> Function:
    def put(self: Any, obj: Any) -> Any:
        if session.core is None or _is_of_others():
            return original(self, obj)
        message = _message.sent = calls.new_id()
        try:
            result = original(self, obj)
        finally:
            _message.sent = 0
        calls.put(message)
        return result

    return put


def _get(original: Function) -> Function:
    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is None or _is_of_others():
            return original(self, *args, **kwargs)
        _message.received = 0
        pickles.begin_load()
        patient = waits(args, kwargs)
        if not patient:
            calls.asked()
        since = calls.moment()
        handle = calls.expect()
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            calls.message(handle, 0)
            if patient:
                waited_in_vain(id(self), since)
            raise
        message = _message.received
        calls.message_before(handle, since, pickles.loading_since(), message)
        pickles.loaded(pickles.MESSAGE)
        came_after_all(id(self), message)
        if _is_bounded(self):
            calls.gave_room(_part_of(self, _ROOM), since)
        return result

    return get


def waits(args: Any, by_name: Any) -> bool:
    """Whether somebody who gets a message with such arguments waits until there is one."""
    block = args[0] if args else by_name.get("block", True)
    return bool(block) and (args[1] if len(args) > 1 else by_name.get("timeout")) != 0


def _is_bounded(queue: Any) -> bool:
    """Whether there may be no room in a queue."""
    return 0 < getattr(queue, "_maxsize", 0) < _UNBOUNDED


def _part_of(queue: Any, what: int) -> int:
    """What the room in a queue is known by, or what is left to do of it."""
    return calls.mixed(id_of_queue(queue), what)


def _task_done(original: Function) -> Function:
    def task_done(self: Any) -> Any:
        if session.core is not None:
            _patches.tried("waits for a queue were not recorded", lambda: calls.put(_part_of(self, _LEFT)))
        return original(self)

    return task_done


def _join(original: Function) -> Function:
    def join(self: Any) -> Any:
        left = 0

        def know() -> None:
            nonlocal left
            left = _part_of(self, _LEFT)

        if session.core is not None:
            _patches.tried("waits for a queue were not recorded", know)
        handle = calls.wait(left) if left else 0
        try:
            return original(self)
        finally:
            calls.got(handle, left)

    return join


def waited_in_vain(source: int, since: tuple[int, int] | None) -> None:
    """This thread has waited since then for a message of a source, and got none."""
    until = calls.moment()
    if since is not None and until is not None:
        polls = _vain.setdefault(source, [])
        polls.append((since, until))
        del polls[:-_MOST_POLLS]


def came_after_all(source: int, message: int) -> None:
    """What a source was waited for in vain has come, if ``message`` is not 0."""
    polls = _vain.pop(source, ())
    if message:
        calls.expected(message, polls)


def _poll(original: Function) -> Function:
    def poll(self: Any, timeout: Any = 0.0) -> Any:
        if session.core is None or timeout == 0.0 or _is_of_others(_OF_POLLS):
            return original(self, timeout)
        since = calls.moment()
        try:
            return original(self, timeout)
        finally:
            waited_in_vain(id(self), since)

    return poll


def _wait(original: Function) -> Function:
    def wait(object_list: Any, timeout: Any = None) -> Any:
        if session.core is None or timeout == 0 or _is_of_others(_OF_POLLS):
            return original(object_list, timeout)
        since = calls.moment()
        ready = original(object_list, timeout)
        for source in ready:
            if hasattr(source, "recv"):
                waited_in_vain(id(source), since)
                break
        return ready

    return wait
