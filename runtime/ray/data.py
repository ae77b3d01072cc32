"""Ray Data: who iterates over data waits for the blocks that its tasks and actors make.

A pipeline is run by a thread of Ray's own, of the process that iterates or of an actor for all that share the data. It
waits for tasks, and hands out blocks; that one block is handed out may have taken another one to come. Other threads
through which blocks come to the loop that takes batches are left out (:mod:`.libraries`): the loop waits for the block
that came last when it has its batch.
"""

from __future__ import annotations

from _thread import _local
from collections import deque

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.ray import callers
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Failure, Function, Iterable, Iterator, Moment

PATCHES = Patches("ray.data")
_MOST_WAITS = 1000
"""Waits of a pipeline that are kept until something comes."""
_of_thread = _local()
"""``pipeline``: what is known of the one that this thread runs."""
_LAST = "_scalana_last_block"
"""Attribute of an iterator: the id of the block that came last."""


def patch_batches(module: Any) -> None:
    """``module`` is ``ray.data._internal.block_batching.iter_batches``."""
    PATCHES.wrap(module.BatchIterator, "_prefetch_blocks", _fetching, "blocks that batches come from")
    PATCHES.wrap(module.BatchIterator, "get_next_batch_context", _taking, "waits for batches")


def patch_executor(module: Any) -> None:
    """``module`` is ``ray.data._internal.execution.streaming_executor``."""
    PATCHES.surround(module._ClosingIterator, "get_next", _begin_taking, _took_bundle, "waits for blocks")
    PATCHES.surround(module.StreamingExecutor, "run", _begin_pipeline, _end_pipeline, "pipelines")
    PATCHES.surround(module, "process_completed_tasks", _begin_loop, _end_loop, "what pipelines wait for")


def patch_states(module: Any) -> None:
    """``module`` is ``ray.data._internal.execution.streaming_executor_state``."""
    PATCHES.surround(module.OpState, "add_output", _nothing, _handed_out, "blocks that pipelines hand out")


def _fetching(original: Function) -> Function:
    def _prefetch_blocks(batches: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = _watched(batches, args[0]), *args[1:]
        return original(batches, *args, **kwargs)

    return _prefetch_blocks


def _watched(batches: Any, bundles: Iterable[Any]) -> Iterator[Any]:
    """Blocks as they come: each lets an earlier one go on, as some are kept in stock."""

    def seen(bundle: Any) -> Any:
        PATCHES.tried("blocks that come", lambda: _came(batches, bundle))
        return bundle

    return map(seen, bundles)  # which keeps none of them


def _came(batches: Any, bundle: Any) -> None:
    setattr(batches, _LAST, callers.id_of(bundle.block_refs[-1]))


def _taking(original: Function) -> Function:
    def get_next_batch_context(batches: Any) -> Any:
        context = original(batches)
        return context if session.core is None else _Taking(batches, context)

    return get_next_batch_context


class _Taking:
    """While the next batch is taken: a wait for the block that comes meanwhile."""

    __slots__ = ("_batches", "_context", "_handle")

    def __init__(self, batches: Any, context: Any) -> None:
        self._batches, self._context, self._handle = batches, context, 0

    def __enter__(self) -> Any:
        self._handle = 0 if callers.is_silent() else calls.expect_data()
        return self._context.__enter__()

    def __exit__(self, *failure: Any) -> Any:
        try:
            return self._context.__exit__(*failure)
        finally:
            if self._handle:
                last = getattr(self._batches, _LAST, 0)
                calls.got(self._handle, *((last,) if last else ()))


class _Pipeline:
    """What the thread of a pipeline waits for: it asks again and again whether all tasks that are under way are done,
    and goes on after a tenth of a second with those that are. So it waits for the next task that gives something."""

    def __init__(self) -> None:
        self._since: Moment | None = None
        self._waits: deque[tuple[Moment, Moment]] = deque(maxlen=_MOST_WAITS)
        """For what it is not known yet."""

    def begin(self) -> None:
        self._since = calls.moment()

    def end(self, ready: Any) -> None:
        until = calls.moment()
        if ready:
            call = callers.id_of(ready[0])
            for wait in self._waits:
                calls.waited(call, *wait)
            self._waits.clear()
        if self._since is not None and until is not None:
            self._waits.append((self._since, until))


def _begin_pipeline(arguments: tuple[Any, ...]) -> int:
    """The thread begins with what its process is there for."""
    call = calls.new_id()
    calls.took(call)
    return call


def _end_pipeline(call: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    calls.reply(call)
    calls.flush()


def _begin_loop(arguments: tuple[Any, ...]) -> None:
    if session.core is not None:
        pipeline = getattr(_of_thread, "pipeline", None)
        if pipeline is None:
            pipeline = _of_thread.pipeline = _Pipeline()
        callers.watch_waits(pipeline)


def _end_loop(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    callers.watch_waits(None)


def _nothing(arguments: tuple[Any, ...]) -> None:
    """Before what is recorded when it is done."""


def _handed_out(state: None, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """An operator has given blocks: the last one of a pipeline to those that iterate."""
    if session.core is not None and failure is None:
        PATCHES.tried("blocks that a pipeline hands out", lambda: _hand_out(*arguments[:2]))


def _hand_out(state: Any, bundle: Any) -> None:
    if not state.op.output_dependencies:
        for reference in bundle.block_refs:
            calls.put(callers.id_of(reference))


def _begin_taking(arguments: tuple[Any, ...]) -> int:
    # With a number it is for one of several that iterate: they wait themselves.
    return 0 if callers.is_silent() or any(number is not None for number in arguments[1:]) else calls.expect_data()


def _took_bundle(handle: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """The next blocks are there, or there is none left."""
    if handle:
        try:
            calls.got(handle, *map(callers.id_of, () if failure else result.block_refs))
        except Exception as trouble:
            PATCHES.failed("a wait for blocks", trouble)
