"""Ray Train: its workers are ranks of one world, and each trains in a thread of its own.

The thread is handed over as a call is, by the thread of the actor that starts it, so that the process is known by what
it does there. That the workers meet in an actor of Ray's, before they report, is a barrier of theirs. What they report
goes through a queue with room for one report, which the controller empties every few seconds.
"""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.operations import BY_NAME
from scalana.runtime.patching import Patches, surrounded
from scalana.runtime.ray import callers
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Failure, Function

PATCHES = Patches("ray.train")
_BARRIER, _BLOCKING = BY_NAME["barrier"].code, 1

_meeting_in = [""]
"""The record in which the communicator of meetings is known."""
_meeting = [0, 0]
"""Its id there, and how often this worker met others."""


def patch_trainer(module: Any) -> None:
    """``module`` is ``ray.train.v2.api.data_parallel_trainer``: the driver only waits for the controller."""
    trainer = module.DataParallelTrainer
    PATCHES.surround(trainer, "fit", _silence, _speak, "starts of trainers")


def patch_worker(module: Any) -> None:
    """``module`` is ``ray.train.v2._internal.execution.worker_group.worker``."""
    # What it calls: of methods of actors Ray asks that they are functions.
    PATCHES.surround(module, "set_train_context", _nothing, _knows_rank, "ranks of workers")


def patch_threads(module: Any) -> None:
    """``module`` is ``ray.train.v2._internal.execution.worker_group.thread_runner``."""
    PATCHES.wrap(module.ThreadRunner, "run", _running, "threads that train")


def patch_context(module: Any) -> None:
    """``module`` is ``ray.train.v2._internal.execution.context``."""
    PATCHES.surround(module.TrainContext, "_sync_checkpoint_dir_name_across_ranks", _meet, _met, "waits of reports")
    PATCHES.surround(module.TrainContext, "_wait_then_report", _begin_report, _end_report, "waits of reports")


def patch_collectives(module: Any) -> None:
    """``module`` is ``ray.train.v2._internal.execution.collective_impl``."""
    for name in ("barrier", "broadcast_from_rank_zero"):
        PATCHES.surround(module, name, _meet, _met, "collectives of Ray Train")


def _nothing(arguments: tuple[Any, ...]) -> None:
    """Before what is recorded when it is done."""


def _silence(arguments: tuple[Any, ...]) -> None:
    callers.silence()


def _speak(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    callers.speak()


def _knows_rank(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """A worker was told what it is."""
    if failure is None:
        PATCHES.tried("the rank of a worker", _become_rank)


def _become_rank() -> None:
    context = _context()
    world = getattr(context.train_run_context, "run_id", "")
    session.become_rank(context.get_world_rank(), context.get_world_size(), f"ray.train {world}")


def _context() -> Any:
    return sys.modules["ray.train.v2._internal.execution.context"].get_train_context()


def _running(original: Function) -> Function:
    def run(runner: Any, *args: Any, **kwargs: Any) -> Any:
        target = args[0] if args else kwargs.get("target")
        if session.core is None or not callable(target):
            return original(runner, *args, **kwargs)
        call = calls.new_id()

        def begin(arguments: tuple[Any, ...]) -> None:
            calls.took(call)

        def end(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
            calls.reply(call)
            calls.flush()

        calls.submit(call)
        recorded = surrounded(target, begin, end)
        if args:
            return original(runner, recorded, *args[1:], **kwargs)
        return original(runner, **{**kwargs, "target": recorded})

    return run


def _meet(arguments: tuple[Any, ...]) -> int:
    """All workers meet, and go on together."""
    callers.silence()
    core = session.core
    if core is None:
        return 0
    try:
        if _meeting_in[0] != session.record_path:
            context = _context()
            ranks = list(range(context.get_world_size()))
            _meeting_in[0] = session.record_path
            _meeting[:] = core.group("ray.train", context.get_world_rank(), ranks), 0
        _meeting[1] += 1
        handle: int = core.begin(_BARRIER, _meeting[0], _meeting[1], -1, 0, 0, _BLOCKING)
        return handle
    except Exception as failure:
        PATCHES.failed("a barrier", failure)
        return 0


def _met(handle: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    callers.speak()
    core = session.core
    if handle and core is not None:
        core.end(handle)


def _begin_report(arguments: tuple[Any, ...]) -> tuple[int, int] | None:
    return calls.moment()


def _end_report(since: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """A report is in the queue, after there was room."""
    queue = getattr(arguments[0], "execution_context", None)
    if queue is not None:
        calls.blocked(_queue_id(queue.result_queue), since)


def _queue_id(queue: Any) -> int:
    """An id for a queue of this process, by its address: it lives as long as the training."""
    return calls.id_of(f"{session.record_path} {id(queue)}".encode())
