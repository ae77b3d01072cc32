"""Records the calls of ``multiprocessing.Pool``, and who waits for their results.

A task of a pool is known by its job and its number there, which travel with it. What ``map`` and its kin hand over at
once is one call that all who do a part of it take; only of an ``imap`` over something that makes its items one by one
each is handed over by itself, by the thread of the pool that asks for the items.
"""

from __future__ import annotations

import sys
from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import asking, calls, pickles, tasks
from scalana.runtime.remote.pipes import id_of_queue
from scalana.runtime.remote.processes import end_of
from scalana.runtime.typed import Any, Callable, Function, Iterator

_CLOSED, _JOB, _TASK, _DONE = range(4)
"""What an id is of: the end of a pool, all that a job hands over at once, one task by itself, the result of one."""
_WRITES_THROUGH = sys.version_info >= (3, 13)
"""Whether the variables of a frame can be set from outside (PEP 667)."""
_patches = Patches("multiprocessing.Pool")
_lazy = _local()
"""``items``: whether this thread hands over items that are made one by one; ``task``: the last that it has."""


def patch(module: Any) -> None:
    """Record the calls of pools; ``module`` is ``multiprocessing.pool``."""
    pool = module.Pool
    _patches.wrap(pool, "apply_async", _apply_async, "calls of pools")
    for name in ("imap", "imap_unordered"):
        _patches.wrap(pool, name, _imap, "calls of pools")
    _patches.wrap(pool, "_guarded_task_generation", _tasks, "calls of pools")
    _patches.tried("calls of a pool that ran before are not recorded", lambda: _enter_running(module.worker))
    _patches.wrap(module, "worker", _worker, "calls of pools")
    for name, make in (("_handle_tasks", _handle_tasks), ("_handle_results", _handle_results)):
        _patches.wrap(pool, name, make, "what pools pickle")
        if hasattr(pool, name):
            setattr(pool, name, staticmethod(getattr(pool, name)))
    _patches.wrap(pool, "join", _join, "waits for pools to end")
    _patches.wrap(pool, "terminate", _terminate, "ends of pools")
    for kind in (module.ApplyResult, module.IMapIterator):
        _patches.wrap(kind, "__init__", _init, "waits for results of pools")
    _patches.wrap(module.ApplyResult, "wait", _wait, "waits for results of pools")
    asking.see(_patches, module.ApplyResult, "ready", False, "waits for results of pools", _ids_of)
    _patches.wrap(module.IMapIterator, "next", _next(module.TimeoutError), "waits for results of pools")
    if hasattr(module.IMapIterator, "next"):
        module.IMapIterator.__next__ = module.IMapIterator.next
    _patches.wrap(module.IMapUnorderedIterator, "_set", _set_unordered, "waits for results of pools")


def _call(pool: int, what: int, job: int = 0, task: int = 0) -> int:
    return calls.mixed(pool, job << 2 | what, task)


def _pool_of(queue: Any) -> int:
    """What a pool is known by, from the queue of its tasks; 0 for a pool of threads."""
    return id_of_queue(queue) if hasattr(queue, "_reader") else 0


# ---- handing over ----


def _apply_async(original: Function) -> Function:
    def apply_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = calls.moment()
        result = original(self, *args, **kwargs)
        pool = getattr(result, "_scalana_pool", 0)
        if before is not None and pool:
            calls.submitted(_call(pool, _JOB, result._job), before)
        return result

    return apply_async


def _imap(original: Function) -> Function:
    def imap(self: Any, func: Any, iterable: Any, *args: Any, **kwargs: Any) -> Any:
        _lazy.items = not hasattr(iterable, "__len__")
        try:
            return original(self, func, iterable, *args, **kwargs)
        finally:
            _lazy.items = False

    return imap


def _tasks(original: Function) -> Function:
    def guarded_task_generation(self: Any, result_job: Any, *args: Any) -> Any:
        tasks = original(self, result_job, *args)
        pool = 0

        def look() -> None:
            nonlocal pool
            pool = _pool_of(self._inqueue) if session.core is not None else 0

        _patches.tried("a call of a pool was not recorded", look)
        if not pool:
            return tasks
        if getattr(_lazy, "items", False):
            return _one_by_one(tasks, pool, result_job)
        calls.submit(_call(pool, _JOB, result_job))
        return tasks

    return guarded_task_generation


def _one_by_one(tasks: Iterator[Any], pool: int, job: int) -> Iterator[Any]:
    for number, task in enumerate(tasks):
        _lazy.task = _call(pool, _TASK, job, number)
        calls.submit(_lazy.task)
        yield task


# ---- doing ----


def _worker(original: Function) -> Function:
    def worker(inqueue: Any, outqueue: Any, *args: Any, **kwargs: Any) -> Any:
        def record() -> None:
            pool = _pool_of(inqueue)
            if pool:
                inqueue.get = _taking(inqueue.get, pool)
                outqueue.put = _replying(outqueue.put, pool)

        _patches.tried("calls of a pool are not recorded", record)
        return original(inqueue, outqueue, *args, **kwargs)

    return worker


def _enter_running(worker: Function) -> None:
    """Recording may begin in a process that is at work for a pool already: its loop gets the functions that record."""
    if not _WRITES_THROUGH:
        return
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not worker.__code__:
        frame = frame.f_back
    if frame.f_code is worker.__code__:
        variables = frame.f_locals
        pool = _pool_of(variables["inqueue"])
        if pool:
            variables["get"] = _taking(variables["get"], pool)
            variables["put"] = _replying(variables["put"], pool)


def _taking(get: Function, pool: int) -> Function:
    closed = _call(pool, _CLOSED)

    def recorded() -> Any:
        pickles.begin_load()
        since = calls.moment()
        handle = calls.idle(closed)
        taken: tuple[int, ...] = (closed,)
        task = None
        try:
            task = get()
            if task is not None:
                job, number = task[:2]
                # Whichever of the two was handed over.
                taken = (_call(pool, _JOB, job), _call(pool, _TASK, job, number))
            return task
        finally:
            calls.took_before(handle, since, pickles.loading_since(), *taken)
            pickles.loaded(pickles.ARGUMENTS, taken[0])
            if task is not None:
                _begin_task(task)

    return recorded


_under_way: list[Any] = [None]
"""In a worker, the call that it does."""


def _begin_task(task: Any) -> None:
    def begin() -> None:
        _, number, function, args, by_name = task
        _under_way[0] = tasks.begin(function, args, by_name, number)

    _patches.tried("calls of a pool have no names", begin)


def _end_task() -> None:
    begun, _under_way[0] = _under_way[0], None
    _patches.tried("calls of a pool have no names", lambda: tasks.end(begun))


def _replying(put: Function, pool: int) -> Function:
    def recorded(result: Any) -> None:
        job, number = result[:2]
        _end_task()

        def reply() -> None:
            # Once the last result is there, the pool may end this process at once.
            calls.reply(_call(pool, _DONE, job, number))
            calls.flush()

        pickles.expect(pickles.Next(pickles.RESULT, _call(pool, _JOB, job), then=reply))
        try:
            put(result)
        finally:
            if pickles.left() is not None:
                reply()

    return recorded


# ---- what the threads of a pool do in between ----


def _handle_tasks(original: Function) -> Function:
    def handle_tasks(taskqueue: Any, put: Any, outqueue: Any, pool: Any, cache: Any) -> Any:
        return original(taskqueue, _sending(put, cache), outqueue, pool, cache)

    return handle_tasks


def _sending(put: Function, cache: Any) -> Function:
    def recorded(task: Any) -> None:
        def know() -> None:
            job, number = task[:2]
            pool = getattr(cache.get(job), "_scalana_pool", 0)
            if pool:
                handed, given = _call(pool, _JOB, job), _call(pool, _TASK, job, number)
                by_itself = getattr(_lazy, "task", None) == given
                taken, call = (0, given) if by_itself else (handed, handed)
                pickles.expect(pickles.Next(pickles.ARGUMENTS, call, given, taken))

        if task is not None and session.core is not None:
            _patches.tried("a pickle is not known", know)
        try:
            put(task)
        finally:
            pickles.left()

    return recorded


def _handle_results(original: Function) -> Function:
    def handle_results(outqueue: Any, get: Any, cache: Any) -> Any:
        return original(outqueue, _receiving(get, cache), cache)

    return handle_results


def _receiving(get: Function, cache: Any) -> Function:
    def recorded() -> Any:
        pickles.begin_load()
        result = get()

        def tell() -> None:
            job, number = result[:2]
            pool = getattr(cache.get(job), "_scalana_pool", 0)
            if pool:
                done = _call(pool, _DONE, job, number)
                pickles.loaded(pickles.RESULT, _call(pool, _JOB, job), given=done, taken=done)

        if result is not None and pickles.loading_since() is not None:
            _patches.tried("a result was not recorded", tell)
        return result

    return recorded


# ---- waiting ----


def _init(original: Function) -> Function:
    def init(self: Any, pool: Any, *args: Any, **kwargs: Any) -> None:
        original(self, pool, *args, **kwargs)

        def know() -> None:
            self._scalana_pool = _pool_of(pool._inqueue)
            self._scalana_taken, self._scalana_order = 0, []

        if session.core is not None:
            _patches.tried("waits for results are not recorded", know)

    return init


def _wait(original: Function) -> Function:
    def wait(self: Any, timeout: Any = None) -> Any:
        pool = getattr(self, "_scalana_pool", 0)
        if not pool or session.core is None:
            return original(self, timeout)
        handle = calls.wait(_call(pool, _DONE, self._job))
        try:
            return original(self, timeout)
        finally:
            calls.got(handle, *_ids_of(self))

    return wait


def _ids_of(result: Any) -> tuple[int, ...]:
    """What the tasks hand over that a result comes from."""
    pool = getattr(result, "_scalana_pool", 0)
    return tuple(_call(pool, _DONE, result._job, number) for number in range(_tasks_of(result) if pool else 0))


def _tasks_of(result: Any) -> int:
    """How many tasks a result comes from."""
    size = getattr(result, "_chunksize", 0)
    return -(-len(result._value) // size) if size > 0 and isinstance(result._value, list) else 1


def _next(timeout_error: type[Exception]) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def following(self: Any, timeout: Any = None) -> Any:
            pool = getattr(self, "_scalana_pool", 0)
            if not pool or session.core is None:
                return original(self, timeout)
            handle = calls.wait()
            came = True
            try:
                return original(self, timeout)
            except (StopIteration, timeout_error):
                came = False
                raise
            finally:
                calls.got(handle, *((_next_result(self, pool),) if came else ()))

        return following

    return make


def _next_result(results: Any, pool: int) -> int:
    """The result that an iterator has given now."""
    number = results._scalana_taken
    results._scalana_taken += 1
    if results._scalana_order:
        number = results._scalana_order.pop(0)
    return _call(pool, _DONE, results._job, number)


def _set_unordered(original: Function) -> Function:
    def set_result(self: Any, i: Any, obj: Any) -> Any:
        if getattr(self, "_scalana_pool", 0):
            self._scalana_order.append(i)
        return original(self, i, obj)

    return set_result


def _join(original: Function) -> Function:
    def join(self: Any) -> Any:
        if session.core is None:
            return original(self)
        awaited: list[int] = []

        def look() -> None:
            left = list(self._cache.values()) if self._state == "CLOSE" else []
            for result in left:
                pool = getattr(result, "_scalana_pool", 0)
                if pool and hasattr(result, "wait"):
                    awaited.extend(_call(pool, _DONE, result._job, number) for number in range(_tasks_of(result)))
            if not left:
                _close(self)
                awaited.extend(end for process in self._pool if (end := end_of(process)))

        _patches.tried("the end of a pool was not recorded", look)
        handle = calls.wait()
        try:
            return original(self)
        finally:
            calls.got(handle, *awaited)
            _close(self)

    return join


def _terminate(original: Function) -> Function:
    def terminate(self: Any) -> Any:
        _close(self)
        return original(self)

    return terminate


def _close(pool: Any) -> None:
    """Its workers are asked for nothing more."""

    def tell() -> None:
        known = getattr(pool._inqueue, "_scalana_id", 0)
        if known and session.core is not None and not getattr(pool, "_scalana_closed", False):
            pool._scalana_closed = True
            calls.submit(_call(known, _CLOSED))

    _patches.tried("the end of a pool was not recorded", tell)
