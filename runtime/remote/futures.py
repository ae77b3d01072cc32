"""Records the calls of ``concurrent.futures.ProcessPoolExecutor``, and who waits for their results.

The calls of a pool have numbers, which travel with them; the pool is known by the pipe through which they go. Threads
of a pool of threads belong to their process, and are no others that it could wait for.
"""

from __future__ import annotations

from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import asking, calls, pickles, tasks
from scalana.runtime.remote.pipes import id_of_queue
from scalana.runtime.remote.processes import end_of
from scalana.runtime.remote.queues import hands_over
from scalana.runtime.typed import Any, Function, Iterator

_CLOSED = 0
"""In place of a call's number, one more than which counts: there comes no other call."""
_patches = Patches("concurrent.futures")
_thread = _local()
"""``submits``: whether this thread has handed over a call of a pool."""


def patch_pools(module: Any) -> None:
    """Record the calls of process pools; ``module`` is ``concurrent.futures.process``."""
    pool = module.ProcessPoolExecutor
    _patches.wrap(pool, "submit", _submit, "calls of process pools")
    _patches.wrap(pool, "shutdown", _shutdown, "waits for process pools to end")
    _patches.wrap(module, "_process_worker", _process_worker, "calls of process pools")
    _patches.wrap(module, "_sendback_result", _sendback_result, "calls of process pools")
    _patches.wrap(getattr(module, "_SafeQueue", None), "put", _hand_over, "what pools pickle")
    _patches.wrap(
        getattr(module, "_ExecutorManagerThread", None),
        "wait_result_broken_or_wakeup",
        _come_back,
        "what pools unpickle",
    )


def patch_waits(module: Any) -> None:
    """Record waits for results; ``module`` is ``concurrent.futures._base``."""
    for name in ("result", "exception"):
        _patches.surround(module.Future, name, _begin_result, _end_result, "waits for results")
    asking.see(_patches, module.Future, "done", False, "waits for results", _ids_of)
    _patches.wrap(module, "wait", _wait, "waits for several results")
    _patches.wrap(module, "as_completed", _as_completed, "waits for several results")


def _submit(original: Function) -> Function:
    def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        before = calls.moment()
        if before is None:
            return original(self, *args, **kwargs)
        number = getattr(self, "_queue_count", -1)
        future = original(self, *args, **kwargs)

        def tell() -> None:
            pending = self._pending_work_items
            # Several threads may submit at once; who has been told its number finds itself there.
            for work in (number, *range(number + 1, self._queue_count)):
                item = pending.get(work)
                if item is None and self._queue_count == number + 1 or item is not None and item.future is future:
                    call = calls.mixed(id_of_queue(self._call_queue), work + 1)
                    future._scalana_call = call
                    calls.submitted(call, before)
                    _thread.submits = True
                    return

        _patches.tried("a call of a pool was not recorded", tell)
        return future

    return submit


def _shutdown(original: Function) -> Function:
    def shutdown(self: Any, wait: bool = True, **kwargs: Any) -> Any:
        if session.core is None:
            return original(self, wait, **kwargs)
        pending: list[int] = []
        ends: list[int] = []
        closed = 0

        def look() -> None:
            nonlocal closed
            queue = getattr(self, "_call_queue", None)
            if queue is None or queue._reader.closed:
                return
            closed = calls.mixed(id_of_queue(queue), _CLOSED)
            work = list((self._pending_work_items or {}).values())
            pending.extend(_ids(item.future for item in work if not _is_done(item.future)))
            ends.extend(end for process in list((self._processes or {}).values()) if (end := end_of(process)))

        _patches.tried("the end of a pool was not recorded", look)
        if not closed:
            return original(self, wait, **kwargs)
        if not wait or not pending:
            calls.submit(closed)
        if not wait:
            return original(self, wait, **kwargs)
        handle = calls.wait()
        try:
            return original(self, wait, **kwargs)
        finally:
            calls.got(handle, *(pending or ends))
            if pending:  # only when all were done, workers were told that there comes no more
                calls.submit(closed)

    return shutdown


def _process_worker(original: Function) -> Function:
    def worker(call_queue: Any, *args: Any, **kwargs: Any) -> Any:
        def record() -> None:
            get = call_queue.get

            def recorded(*args: Any, **kwargs: Any) -> Any:
                closed = calls.mixed(pool, _CLOSED)
                pickles.begin_load()
                since = calls.moment()
                handle = calls.idle(closed)
                call, item = closed, None
                try:
                    item = get(*args, **kwargs)
                    if item is not None:
                        call = calls.mixed(pool, item.work_id + 1)
                    return item
                finally:
                    calls.took_before(handle, since, pickles.loading_since(), call)
                    pickles.loaded(pickles.ARGUMENTS, call)
                    if item is not None:
                        _begin_task(item)

            pool = _pool[0] = id_of_queue(call_queue)
            call_queue.get = recorded

        _patches.tried("calls of a pool are not recorded", record)
        return original(call_queue, *args, **kwargs)

    return worker


_pool = [0]
"""In a worker, what its pool is known by."""
_task: list[Any] = [None]
"""In a worker, the call that it does."""


def _begin_task(item: Any) -> None:
    def begin() -> None:
        _task[0] = tasks.begin(item.fn, item.args, item.kwargs, item.work_id)

    _patches.tried("calls of a pool have no names", begin)


def _end_task() -> None:
    begun, _task[0] = _task[0], None
    _patches.tried("calls of a pool have no names", lambda: tasks.end(begun))


def patch_threads(module: Any) -> None:
    """Mark the calls of pools of threads; ``module`` is ``concurrent.futures.thread``."""
    item = module._WorkItem
    _patches.surround(item, "__init__", lambda arguments: None, _given, "calls of pools of threads")
    _patches.surround(item, "run", _begin_run, lambda begun, *_: _end_run(begun), "calls of pools of threads")


def _given(_: Any, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
    """A call was handed over: its number, and when."""
    core = session.core
    if core is not None and failure is None:
        arguments[0]._scalana_given = (tasks.next_number(), core.now())


def _begin_run(arguments: tuple[Any, ...]) -> Any:
    begun: list[Any] = [None]

    def begin() -> None:
        item = arguments[0]
        # As Python 3.14 has it, a task holds what the others have as fields.
        function, args, by_name = getattr(item, "task", None) or (item.fn, item.args, item.kwargs)
        number, since = getattr(item, "_scalana_given", (-1, 0))
        begun[0] = tasks.begin(function, args, by_name, number, since)

    if session.core is not None:
        _patches.tried("calls of pools of threads have no names", begin)
    return begun[0]


def _end_run(begun: Any) -> None:
    if begun is not None:
        _patches.tried("calls of pools of threads have no names", lambda: tasks.end(begun))


def _sendback_result(original: Function) -> Function:
    def send_back(result_queue: Any, work_id: Any, *args: Any, **kwargs: Any) -> Any:
        if not _pool[0] or session.core is None:
            return original(result_queue, work_id, *args, **kwargs)
        call = calls.mixed(_pool[0], work_id + 1)
        _end_task()
        pickles.expect(pickles.Next(pickles.RESULT, call, then=lambda: calls.reply(call)))
        try:
            return original(result_queue, work_id, *args, **kwargs)
        finally:
            if pickles.left() is not None:
                calls.reply(call)

    return send_back


def _hand_over(original: Function) -> Function:
    def put(self: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        work = getattr(obj, "work_id", None)
        if work is not None and session.core is not None:
            _patches.tried("a pickle is not known", lambda: hands_over(obj, calls.mixed(id_of_queue(self), work + 1)))
        return original(self, obj, *args, **kwargs)

    return put


def _come_back(original: Function) -> Function:
    """What the thread of a pool waits for: a result, which it unpickles before others have it. Where it hands the next
    call over itself (joblib does, in what a result calls back), it does so after this wait."""

    def wait_result_broken_or_wakeup(self: Any) -> Any:
        pickles.begin_load()
        since = calls.moment()
        found = original(self)
        work = getattr(found[0], "work_id", None)

        def tell(work: int) -> None:
            call = calls.mixed(id_of_queue(self.call_queue), work + 1)
            until = pickles.loading_since() or calls.moment()
            if until is not None and since is not None and getattr(_thread, "submits", False):
                calls.waited(call, since, until)
            pickles.loaded(pickles.RESULT, call, given=call, taken=call)

        if work is not None and (pickles.loading_since() is not None or getattr(_thread, "submits", False)):
            _patches.tried("a result was not recorded", lambda: tell(work))
        return found

    return wait_result_broken_or_wakeup


def _ids(futures: Any) -> list[int]:
    """The calls behind some futures, as far as they are recorded."""
    found = (getattr(future, "_scalana_call", 0) for future in futures)
    return [call for call in found if call]


def _begin_result(arguments: tuple[Any, ...]) -> tuple[int, int] | None:
    call = getattr(arguments[0], "_scalana_call", 0) if session.core is not None else 0
    return (calls.wait(call), call) if call else None


def _end_result(awaited: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
    if awaited is not None:
        calls.got(*awaited)


def _ids_of(future: Any) -> tuple[int, ...]:
    call = getattr(future, "_scalana_call", 0)
    return (call,) if call else ()


def _is_done(future: Any) -> bool:
    """Whether a future is, without asking it as a program does."""
    return future._state not in ("PENDING", "RUNNING")


def _wait(original: Function) -> Function:
    def wait(fs: Any, *args: Any, **kwargs: Any) -> Any:
        if session.core is None:
            return original(fs, *args, **kwargs)
        fs = list(fs) if not isinstance(fs, (list, tuple, set, frozenset)) else fs
        open_ones = [future for future in fs if getattr(future, "_scalana_call", 0) and not _is_done(future)]
        if not open_ones:
            return original(fs, *args, **kwargs)
        handle = calls.wait(open_ones[0]._scalana_call)
        came: list[int] = []
        try:
            result = original(fs, *args, **kwargs)
            came = _ids(future for future in open_ones if _is_done(future)) or _ids(open_ones[:1])
            return result
        finally:
            calls.got(handle, *came)

    return wait


def _as_completed(original: Function) -> Function:
    def as_completed(fs: Any, timeout: Any = None) -> Iterator[Any]:
        futures = original(fs, timeout)
        try:
            while True:
                handle = calls.wait()
                call = 0
                try:
                    future = next(futures)
                    call = getattr(future, "_scalana_call", 0)
                except StopIteration:
                    return
                finally:
                    calls.got(handle, *((call,) if call else ()))
                yield future
                del future  # whoever iterates is the last that has it
        finally:
            futures.close()

    return as_completed
