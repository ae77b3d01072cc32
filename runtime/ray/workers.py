"""The side of Ray that is called: when a worker begins with a task or a method of its actor, and when it is done."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import in_place_of, surrounded
from scalana.runtime.ray import ids, libraries
from scalana.runtime.ray.callers import INTERNAL, PATCHES, creation_of, silence_process
from scalana.runtime.remote import calls, event_loops, sizes
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, AsyncIterator, Function, Generator

SERVES = "generate"
"""Method of an engine's actor that makes one answer: a request each, with the tokens of what has ``token_ids``."""
MOST_RESULTS = 16
"""A task that returns a longer tuple is taken to return that as one thing."""
FIRST_ITEM = 2
"""Number of the first item of a generator whose items are taken one by one."""
_NUMBERED = re.compile(r"([A-Za-z]+(?:[-_ ][A-Za-z]+)*)[-_ ]?(\d*)")

_arguments: dict[bytes, list[int]] = {}
"""What the arguments of a task that is about to begin are the results of, by its id."""
_MOST_TASKS = 1000
_requests: dict[bytes, Any] = {}
"""Those that are under way, by the task that makes them."""
_known = ["", ""]
"""The record in which it was said what this process is, and the class of its actor."""
_under_way = _local()
"""``count``: calls that the event loop of this thread has begun with and not ended."""
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
            module, class_name = str(descriptor.module_name), str(descriptor.class_name)
            part = libraries.part_of(module, class_name)
            if libraries.is_own(module, class_name):
                session.end_record()
            elif not libraries.is_called(module, class_name):
                silence_process()
                _take_part(sys.modules["ray._private.worker"].global_worker, class_name, part)
            elif not str(name).startswith(INTERNAL):
                return info._replace(function=_executed(info.function, class_name, part))
            return info
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
                    while len(_arguments) >= _MOST_TASKS:  # of calls that are not recorded
                        _arguments.pop(next(iter(_arguments)))
                    _arguments[task.binary()] = [
                        ids.of_object(reference.binary()) for reference in references if not reference.is_nil()
                    ]
            except Exception as failure:
                PATCHES.failed("arguments of a task", failure)
        return original(worker, serialized, references, *args, **kwargs)

    return deserialize_objects


def _executed(function: Function, class_name: str, part: str) -> Function:
    """The same function, recorded; ``part`` is what its process is to people, where a library of Ray's runs it."""
    method = getattr(function, "method", function)
    if inspect.isasyncgenfunction(method):
        return _of_async_generator(function, class_name, part)
    if inspect.isgeneratorfunction(method):
        return _of_generator(function, class_name, part)

    def enter(arguments: tuple[Any, ...]) -> bytes:
        task = _begin(class_name, part, is_async)
        if task:
            _mark(task, name, serves, arguments[bool(class_name) :])
        return task

    is_async = inspect.iscoroutinefunction(method)
    name = str(getattr(method, "__name__", ""))
    serves = bool(class_name) and name == SERVES
    return surrounded(function, enter, _await_end if is_async else _ended)


def _mark(task: bytes, name: str, serves: bool, arguments: tuple[Any, ...]) -> None:
    """Mark a task that is a request to an engine, or that is about several things."""
    try:
        if count := sizes.several(arguments):
            _requests[task] = span.begin(name, "request", items=count)
        elif serves:
            _requests[task] = span.begin(name, "request")
    except Exception as failure:
        PATCHES.failed("what a task is about", failure)


def _ended(task: bytes, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
    _end(task, result)


def _await_end(task: bytes, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
    """There is a coroutine, for which Ray has made a task of its event loop."""
    current = None if failure is not None else sys.modules["asyncio"].current_task()
    if current is None:
        _end(task, None, is_async=True)
    else:
        current.add_done_callback(functools.partial(_done, task))


def _done(task: bytes, future: Any) -> None:
    failed = future.cancelled() or future.exception() is not None
    _end(task, None if failed else future.result(), is_async=True)


def _of_generator(function: Function, class_name: str, part: str) -> Function:
    # What Ray gets must be a generator, so that here is a frame of ours.
    @in_place_of(function)
    def execute(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        task, number = _begin(class_name, part), FIRST_ITEM
        generator = function(*args, **kwargs)
        try:
            value = next(generator)
            while True:
                _give(task, number)
                number += 1
                sent = yield value  # Ray sends it how long it took to store the value
                value = None  # none is kept while the next is made
                value = next(generator) if sent is None else generator.send(sent)
        except StopIteration as end:
            return end.value
        finally:
            generator.close()
            _give(task, number)  # what is waited for when there is no other
            _end(task, None)

    return execute


def _of_async_generator(function: Function, class_name: str, part: str) -> Function:
    @in_place_of(function)
    async def execute(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        task, number = _begin(class_name, part, is_async=True), FIRST_ITEM
        generator = function(*args, **kwargs)
        try:
            async for value in generator:
                _give(task, number)
                number += 1
                yield value
                value = None  # none is kept while the next is made  # noqa: PLW2901
        finally:
            await generator.aclose()
            _give(task, number)
            _end(task, None, is_async=True)

    return execute


def _begin(class_name: str, part: str, is_async: bool = False) -> bytes:
    """A task begins here, of an event loop or not; returns its id."""
    if session.core is None:
        return b""
    try:
        worker = sys.modules["ray._private.worker"].global_worker
        _take_part(worker, class_name, part)
        task: bytes = worker.current_task_id.binary()
        if _first:
            _first.clear()  # Ray may have started this process for this task
            calls.begun(ids.of_task(task))
        under_way = getattr(_under_way, "count", 0)
        idle = event_loops.begin_call() if is_async else []
        if under_way:
            # Nothing but this call could end what those that are under way waited for.
            calls.expected(ids.of_task(task), idle)
        calls.took(ids.of_task(task), *_arguments.pop(task, ()))
        if is_async:
            _under_way.count = under_way + 1
        return task
    except Exception as failure:
        PATCHES.failed("the begin of a task", failure)
        return b""


def _give(task: bytes, number: int) -> None:
    """An item of a generator is there."""
    if task and session.core is not None:
        try:
            calls.reply(ids.of_result(task, number), rests=False)
            calls.flush()
        except Exception as failure:
            PATCHES.failed("an item of a generator", failure)


def _end(task: bytes, result: Any, is_async: bool = False) -> None:
    """It has ended, with a result or none."""
    if task and session.core is not None:
        try:
            request = _requests.pop(task, None)
            if request is not None:
                made = getattr(result, "token_ids", None)
                request.end(tokens=None if made is None else len(made))
            several = len(result) if type(result) is tuple and len(result) <= MOST_RESULTS else 1
            for number in range(2, several + 1):
                calls.reply(ids.of_result(task, number), rests=False)
            if is_async:
                _under_way.count -= 1
            calls.reply(ids.of_task(task), rests=not is_async or not _under_way.count)
            calls.flush()  # Ray ends workers and actors by a signal that leaves no time for it
        except Exception as failure:
            PATCHES.failed("the end of a task", failure)


def _take_part(worker: Any, class_name: str, part: str) -> None:
    """What this process is to people: the class or the name of its actor, its part in a library, or a worker."""
    if _known == [session.record_path, class_name]:
        return
    _known[:] = session.record_path, class_name
    if not class_name:
        session.become_member(part or "worker", source="framework")
        return
    role, rank = (part, -1) if part else named(str(getattr(worker, "actor_name", "") or ""), class_name)
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
