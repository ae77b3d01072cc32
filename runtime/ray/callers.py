"""The side of Ray that calls: tasks and methods of actors that are handed over, and waiting for their results."""

from __future__ import annotations

import sys
from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.ray import ids, libraries
from scalana.runtime.remote import calls, event_loops
from scalana.runtime.typed import Any, Callable, Failure, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    _Wait = tuple[int, tuple[int, int] | None]

    class Watch(Protocol):
        """Somebody who records waits for some of several results."""

        def begin(self) -> None:
            """Such a wait begins."""

        def end(self, ready: Any) -> None:
            """It ends, and some of them are there."""


PATCHES = Patches("ray")
MOST_GIVEN_UP = 64
"""So many of what a wait was for are told if none of it came."""
INTERNAL = "__ray"
"""What Ray's own methods of all actors begin with: they end an actor, or show that it is there."""

_MOST_INTERNAL = 1000
_internal: set[int] = set()
"""Calls of these: nobody is told to have answered them."""

_silent = _local()
"""``count``: how often this thread was told not to have its calls and waits recorded, and not yet that it may again."""

_all_silent = [False]
"""Whether that is so for all threads."""


def patch_worker(module: Any) -> None:
    """``module`` is ``ray._private.worker``: what a process gets from others, puts where others find it, waits for."""
    PATCHES.surround(module.Worker, "get_objects", _begin_getting, _end_getting, "waiting for results")
    PATCHES.surround(module, "wait", _begin_waiting, _end_waiting, "waits for some of several results")
    PATCHES.surround(module, "put", _nothing, _has_put, "objects that are put into the store")
    event_loops.CALLS_OF.append(_call_of)
    streams = getattr(module, "ObjectRefGenerator", None)
    PATCHES.surround(streams, "__anext__", _await_item, _awaits_item, "lines that await items")


def patch_functions(module: Any) -> None:
    """``module`` is ``ray.remote_function``."""
    PATCHES.surround(module.RemoteFunction, "_remote", _moment, _submitted, "calls of tasks")


def patch_actors(module: Any) -> None:
    """``module`` is ``ray.actor``."""
    PATCHES.surround(module.ActorHandle, "_actor_method_call", _moment, _called, "calls of actors")
    PATCHES.surround(module.ActorClass, "_remote", _moment, _created, "starts of actors")


def take_part() -> None:
    """This process calls tasks or actors: if it is none itself, it is a driver."""
    if session.process_role != "spare":
        session.become_member("driver")


def _nothing(arguments: tuple[Any, ...]) -> None:
    """Before what is recorded when it is done."""


def _moment(arguments: tuple[Any, ...]) -> tuple[int, int] | None:
    return None if is_silent() else calls.moment()


def is_silent() -> bool:
    """Whether nothing is recorded of what this thread calls and waits for: others do for it."""
    return session.core is None or getattr(_silent, "count", 0) > 0 or _all_silent[0] or libraries.in_own_thread()


def silence_process() -> None:
    """Record nothing of what this process calls and waits for, but what recorders of libraries tell themselves."""
    _all_silent[0] = True


def silence() -> None:
    """Record nothing of it from now on, until :func:`speak`."""
    _silent.count = getattr(_silent, "count", 0) + 1


def speak() -> None:
    """Of as many as there were."""
    _silent.count -= 1


def watch_waits(watch: Watch | None) -> None:
    """From now on what this thread waits for, of several results, is for somebody else to record; with None no more."""
    _silent.watch = watch


def _called(at: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if at is None or not _is_called(arguments[0]):
        return
    if str(arguments[1]).startswith(INTERNAL):
        PATCHES.tried("a call", lambda: _leave_out(result))
    else:
        _tell_submitted(at, _results, result, arguments[0])


def _leave_out(result: Any) -> None:
    """Who waits for these results waits for nothing that is recorded."""
    if result is not None:
        if len(_internal) >= _MOST_INTERNAL:
            _internal.clear()
        _internal.update(map(ids.of_task, _results(result)))


def _submitted(at: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    _tell_submitted(at, _results, result)


def _created(at: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if at is not None and result is not None and _is_called(result):
        _tell_submitted(at, _creation, result)


def _is_called(handle: Any) -> bool:
    """Whether calls of an actor are recorded."""
    descriptor = getattr(handle, "_ray_actor_creation_function_descriptor", None)
    return descriptor is None or libraries.is_called(str(descriptor.module_name), str(descriptor.class_name))


def _tell_submitted(
    at: tuple[int, int] | None, tasks_of: Callable[[Any], Iterable[bytes]], result: Any, actor: Any = None
) -> None:
    if at is not None and result is not None:
        try:
            take_part()
            to = _callee(actor)
            for task in tasks_of(result):
                calls.submitted(ids.of_task(task), at, to=to)
        except Exception as failure:
            PATCHES.failed("a call", failure)


def _callee(actor: Any) -> int:
    """The number of the process of an actor, by its handle; 0 where there is none."""
    of = getattr(actor, "_ray_actor_id", None)
    return 0 if of is None else calls.callee(ids.of_task(creation_of(of)))


def _results(result: Any) -> list[bytes]:
    """The task whose results were returned, if any: a call for nothing is known by no id."""
    first = result[0] if isinstance(result, list) and result else result
    generator = getattr(first, "_generator_ref", None)
    reference = first if generator is None else generator
    binary = getattr(reference, "task_id", None)
    return [] if binary is None else [binary().binary()]


def _creation(handle: Any) -> list[bytes]:
    """The task that makes an actor."""
    actor = getattr(handle, "_ray_actor_id", None)
    if actor is None:
        return []
    task = creation_of(actor)
    session.made(ids.of_task(task))
    return [task]


def creation_of(actor: Any) -> bytes:
    """The task that makes an actor, by its id."""
    task: bytes = sys.modules["ray"].TaskID.for_actor_creation_task(actor).binary()
    return task


def _begin_getting(arguments: tuple[Any, ...]) -> _Wait | None:
    return _wait_for(arguments[1]) if len(arguments) > 1 else None  # the first is the worker


def _end_getting(wait: _Wait | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    # What a task has raised is its result.
    came = failure is None or not issubclass(failure, (TimeoutError, KeyboardInterrupt, SystemExit))
    if wait is not None:
        _end_wait(wait, arguments[1], came)


def _begin_waiting(arguments: tuple[Any, ...]) -> _Wait | None:
    watch = getattr(_silent, "watch", None)
    if watch is not None:
        watch.begin()
    return _wait_for(arguments[0]) if arguments else None


def _end_waiting(wait: _Wait | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    ready = result[0] if result else ()
    watch = getattr(_silent, "watch", None)
    if watch is not None:
        PATCHES.tried("a wait", lambda: watch.end(ready))
    if wait is not None:
        _end_wait(wait, ready or arguments[0], bool(ready))


def _wait_for(references: Any) -> _Wait | None:
    if is_silent():
        return None
    try:
        take_part()
        began = calls.moment()
        return calls.wait(id_of(references[0]) if len(references) == 1 else 0), began
    except Exception as failure:
        PATCHES.failed("a wait", failure)
        return None


def _end_wait(wait: _Wait, references: Any, came: bool) -> None:
    """Some results are there, or none: then it is told what the wait was for, unless that was but a question."""
    try:
        if came:
            calls.got_by_asking(*wait, *_told_of(references))
        elif not calls.asked_in_vain(*wait):
            calls.got(wait[0], *_told_of(references[:MOST_GIVEN_UP]))
    except Exception as failure:
        PATCHES.failed("a wait", failure)


def _told_of(references: Any) -> list[int]:
    return [number for number in map(id_of, references) if number and number not in _internal]


def _await_item(arguments: tuple[Any, ...]) -> None:
    if session.core is not None and arguments:
        PATCHES.tried("a line that awaits", lambda: event_loops.await_here(_task_of(arguments[0]._generator_ref)))


def _awaits_item(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """What it waits for is seen when the loop does."""


def _call_of(future: Any) -> tuple[int, int]:
    """What a future of :mod:`concurrent.futures` stands for that Ray made of a reference: it keeps this."""
    reference = getattr(future, "object_ref", None)
    if reference is None or not hasattr(reference, "task_id"):
        return 0, 0
    take_part()
    return id_of(reference), event_loops.line_of(id(reference)) or event_loops.line_of(_task_of(reference))


def _task_of(reference: Any) -> bytes:
    task: bytes = reference.task_id().binary()
    return task


def id_of(reference: Any) -> int:
    """The id of a result; of a generator it is that of its next item."""
    following = getattr(reference, "_get_next_object_id_binary", None)
    binary = following or getattr(reference, "binary", None)
    return 0 if binary is None else ids.of_object(binary())


def _has_put(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    if result is not None and not is_silent():
        try:
            take_part()
            calls.put(id_of(result))
        except Exception as trouble:
            PATCHES.failed("an object that is put", trouble)
