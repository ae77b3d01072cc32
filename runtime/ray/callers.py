"""The side of Ray that calls: tasks and methods of actors that are handed over, and waiting for their results."""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.ray import ids
from scalana.runtime.remote import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Function = Callable[..., Any]

PATCHES = Patches("ray")
MOST_GIVEN_UP = 64
"""So many of what a wait was for are told if none of it came."""


def patch_worker(module: Any) -> None:
    """``module`` is ``ray._private.worker``: what a process gets from others, puts where others find it, waits for."""
    PATCHES.wrap(module.Worker, "get_objects", _getting, "waiting for results")
    PATCHES.wrap(module, "wait", _waiting, "waits for some of several results")
    PATCHES.wrap(module, "put", _putting, "objects that are put into the store")


def patch_functions(module: Any) -> None:
    """``module`` is ``ray.remote_function``."""
    PATCHES.wrap(module.RemoteFunction, "_remote", _submitting(_results), "calls of tasks")


def patch_actors(module: Any) -> None:
    """``module`` is ``ray.actor``."""
    PATCHES.wrap(module.ActorHandle, "_actor_method_call", _submitting(_results), "calls of actors")
    PATCHES.wrap(module.ActorClass, "_remote", _submitting(_creation), "starts of actors")


def take_part() -> None:
    """This process calls tasks or actors: if it is none itself, it is a driver."""
    if session.process_role != "spare":
        session.become_member("driver")


def _submitting(tasks_of: Callable[[Any], Iterable[bytes]]) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            at = calls.moment()
            result = original(*args, **kwargs)
            if at is not None:
                try:
                    take_part()
                    for task in tasks_of(result):
                        calls.submitted(ids.of_task(task), at)
                except Exception as failure:
                    PATCHES.failed("a call", failure)
            return result

        return call

    return make


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


def _getting(original: Function) -> Function:
    def get_objects(worker: Any, object_refs: Any, *args: Any, **kwargs: Any) -> Any:
        handle, came = _begin_waiting(object_refs), True
        try:
            return original(worker, object_refs, *args, **kwargs)
        except BaseException as failure:
            # What a task has raised is its result.
            came = not isinstance(failure, (TimeoutError, KeyboardInterrupt, SystemExit))
            raise
        finally:
            _end_waiting(handle, object_refs, came)

    return get_objects


def _waiting(original: Function) -> Function:
    def wait(ray_waitables: Any, *args: Any, **kwargs: Any) -> Any:
        handle = _begin_waiting(ray_waitables)
        ready: Any = ()
        try:
            ready, rest = original(ray_waitables, *args, **kwargs)
            return ready, rest
        finally:
            _end_waiting(handle, ready or ray_waitables, bool(ready))

    return wait


def _begin_waiting(references: Any) -> int:
    if session.core is None:
        return 0
    try:
        take_part()
        return calls.wait(_id_of(references[0]) if len(references) == 1 else 0)
    except Exception as failure:
        PATCHES.failed("a wait", failure)
        return 0


def _end_waiting(handle: int, references: Any, came: bool) -> None:
    """Some results are there, or none: then it is told what the wait was for."""
    if handle:
        try:
            told = references if came else references[:MOST_GIVEN_UP]
            calls.got(handle, *(number for number in map(_id_of, told) if number))
        except Exception as failure:
            PATCHES.failed("a wait", failure)


def _id_of(reference: Any) -> int:
    binary = getattr(reference, "binary", None)
    return 0 if binary is None else ids.of_object(binary())


def _putting(original: Function) -> Function:
    def put(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if session.core is not None:
            try:
                take_part()
                calls.put(_id_of(result))
            except Exception as failure:
                PATCHES.failed("an object that is put", failure)
        return result

    return put
