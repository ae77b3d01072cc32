"""Ray Data: who iterates over data waits for the blocks that its tasks and actors make.

Blocks come through threads of Ray's own, of the process that iterates and of the one that runs the pipeline; these are
left out (:mod:`.libraries`). The loop that takes the next batch waits for the block that came last when it has it.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.ray import callers
from scalana.runtime.remote import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Function = Callable[..., Any]
    Failure = type[BaseException] | None

PATCHES = Patches("ray.data")
_LAST = "_scalana_last_block"
"""Attribute of an iterator: the id of the block that came last."""


def patch_batches(module: Any) -> None:
    """``module`` is ``ray.data._internal.block_batching.iter_batches``."""
    PATCHES.wrap(module.BatchIterator, "_resolve_block_refs", _resolving, "blocks that batches come from")
    PATCHES.wrap(module.BatchIterator, "get_next_batch_context", _taking, "waits for batches")


def patch_executor(module: Any) -> None:
    """``module`` is ``ray.data._internal.execution.streaming_executor``."""
    PATCHES.surround(module._ClosingIterator, "get_next", _begin_taking, _took_bundle, "waits for blocks")


def _resolving(original: Function) -> Function:
    def _resolve_block_refs(batches: Any, block_refs: Iterator[Any]) -> Any:
        return original(batches, _watched(batches, block_refs))

    return _resolve_block_refs


def _watched(batches: Any, block_refs: Iterator[Any]) -> Iterator[Any]:
    for reference in block_refs:
        setattr(batches, _LAST, callers.id_of(reference))
        yield reference


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
        self._handle = 0 if callers.is_silent() else calls.wait()
        return self._context.__enter__()

    def __exit__(self, *failure: Any) -> Any:
        try:
            return self._context.__exit__(*failure)
        finally:
            if self._handle:
                last = getattr(self._batches, _LAST, 0)
                calls.got(self._handle, *((last,) if last else ()))


def _begin_taking(arguments: tuple[Any, ...]) -> int:
    return 0 if callers.is_silent() else calls.wait()


def _took_bundle(handle: int, arguments: tuple[Any, ...], result: Any, failure: Failure) -> None:
    """The next blocks are there, or there is none left."""
    if handle:
        try:
            calls.got(handle, *map(callers.id_of, () if failure else result.block_refs))
        except Exception as trouble:
            PATCHES.failed("a wait for blocks", trouble)
