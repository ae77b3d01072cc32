"""The side of Ray that is called: when a worker begins with a task or a method of its actor, and when it is done."""

from __future__ import annotations

import inspect
import re
import sys

from scalana.runtime import session
from scalana.runtime.patching import in_place_of
from scalana.runtime.ray import ids
from scalana.runtime.ray.callers import PATCHES, creation_of
from scalana.runtime.remote import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

    Function = Callable[..., Any]

OWN = "ray.dashboard."
"""Modules of actors that are Ray's own."""
INTERNAL = "__ray"
"""What its own methods of all actors begin with."""
MOST_RESULTS = 16
"""A task that returns a longer tuple is taken to return that as one thing."""
_NUMBERED = re.compile(r"([A-Za-z]+(?:[-_ ][A-Za-z]+)*)[-_ ]?(\d*)")

_arguments: dict[bytes, list[int]] = {}
"""What the arguments of a task that is about to begin are the results of, by its id."""
_known = ["", ""]
"""The record in which it was said what this process is, and the class of its actor."""
_first = [True]
"""Whether this process has not begun with any task."""


def patch_execution(module: Any) -> None:
    """``module`` is ``ray._private.function_manager``: what is executed is what it has found."""
    PATCHES.wrap(module.FunctionActorManager, "get_execution_info", _finding, "tasks and actors")


def patch_worker(module: Any) -> None:
    """``module`` is ``ray._private.worker``: what comes before the execution of a task."""
    PATCHES.wrap(module.Worker, "deserialize_objects", _unpacking, "what tasks wait for but their calls")
    PATCHES.wrap(module.Worker, "main_loop", _resting, "the time before the first task")


def _finding(original: Function) -> Function:
    def get_execution_info(manager: Any, job_id: Any, descriptor: Any, *args: Any, **kwargs: Any) -> Any:
        info = original(manager, job_id, descriptor, *args, **kwargs)
        if session.core is None:
            return info
        try:
            name = getattr(info.function, "name", "") or info.function_name
            if str(name).startswith(INTERNAL) or str(descriptor.module_name).startswith(OWN):
                return info
            return info._replace(function=_executed(info.function, str(descriptor.class_name)))
        except Exception as failure:
            PATCHES.failed("a task", failure)
            return info

    return get_execution_info


def _resting(original: Function) -> Function:
    def main_loop(worker: Any) -> Any:
        calls.rest()
        session.become_spare()
        return original(worker)

    return main_loop


def _unpacking(original: Function) -> Function:
    def deserialize_objects(worker: Any, serialized: Any, references: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is not None and not args and not kwargs:  # of arguments; what is got has more
            try:
                task = worker.current_task_id
                if not task.is_nil():
                    _arguments[task.binary()] = [
                        ids.of_object(reference.binary()) for reference in references if not reference.is_nil()
                    ]
            except Exception as failure:
                PATCHES.failed("arguments of a task", failure)
        return original(worker, serialized, references, *args, **kwargs)

    return deserialize_objects


def _executed(function: Function, class_name: str) -> Function:
    """The same function, recorded."""

    @in_place_of(function)
    def execute(*args: Any, **kwargs: Any) -> Any:
        method = getattr(function, "method", function)
        if inspect.iscoroutinefunction(method):
            return _awaited(function, args, kwargs, class_name)
        if inspect.isasyncgenfunction(method):
            return _generated_async(function, args, kwargs, class_name)
        if inspect.isgeneratorfunction(method):
            return _generated(function, args, kwargs, class_name)
        task, result = _begin(class_name), None
        try:
            result = function(*args, **kwargs)
            return result
        finally:
            _end(task, result)

    return execute


async def _awaited(function: Function, args: Any, kwargs: Any, class_name: str) -> Any:
    task, result = _begin(class_name), None
    try:
        result = await function(*args, **kwargs)
        return result
    finally:
        _end(task, result)


def _generated(function: Function, args: Any, kwargs: Any, class_name: str) -> Iterator[Any]:
    task = _begin(class_name)
    try:
        yield from function(*args, **kwargs)
    finally:
        _end(task, None)


async def _generated_async(function: Function, args: Any, kwargs: Any, class_name: str) -> AsyncIterator[Any]:
    task = _begin(class_name)
    try:
        async for value in function(*args, **kwargs):
            yield value
    finally:
        _end(task, None)


def _begin(class_name: str) -> bytes:
    """A task begins here; returns its id."""
    if session.core is None:
        return b""
    try:
        worker = sys.modules["ray._private.worker"].global_worker
        _take_part(worker, class_name)
        task: bytes = worker.current_task_id.binary()
        if _first:
            _first.clear()  # Ray may have started this process for this task
            calls.begun(ids.of_task(task))
        calls.took(ids.of_task(task), *_arguments.pop(task, ()))
        return task
    except Exception as failure:
        PATCHES.failed("the begin of a task", failure)
        return b""


def _end(task: bytes, result: Any) -> None:
    """It has ended, with a result or none."""
    if task and session.core is not None:
        try:
            several = len(result) if type(result) is tuple and len(result) <= MOST_RESULTS else 1
            for number in range(2, several + 1):
                calls.reply(ids.of_result(task, number))
            calls.reply(ids.of_task(task))
            calls.flush()  # Ray ends workers and actors by a signal that leaves no time for it
        except Exception as failure:
            PATCHES.failed("the end of a task", failure)


def _take_part(worker: Any, class_name: str) -> None:
    """What this process is to people: the class or the name of its actor, or a worker."""
    if _known == [session.record_path, class_name]:
        return
    _known[:] = session.record_path, class_name
    if not class_name:
        session.become_member("worker", source="framework")
        return
    role, rank = named(str(getattr(worker, "actor_name", "") or ""), class_name)
    if session.part != role:
        session.become_member(role, rank, source="framework")
    session.made_as(ids.of_task(creation_of(worker.actor_id)))


def named(name: str, class_name: str) -> tuple[str, int]:
    """The role and the number of an actor: of its name if that is one ("rollout_3"), else of its class.

    >>> named("rollout_3", "Worker"), named("judge", "Worker"), named("Kt3pWorkerDict_0:1", "WorkerDict")
    (('rollout', 3), ('judge', -1), ('WorkerDict', -1))
    """
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return class_name.rsplit(".", 1)[-1], -1
    return found[1], int(found[2] or -1)
