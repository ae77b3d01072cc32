"""Record waiting for the next batch of torch's loaders of data as spans of the kind ``data``."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable

NAME = "DataLoader"
_listeners: list[Callable[[], None]] = []


def when_loaded(function: Callable[[], None]) -> None:
    """Call ``function`` each time that the program got a batch; it must raise nothing."""
    _listeners.append(function)


def record_loading(module: Any) -> None:
    """See each batch that an iterator of a loader hands out; ``module`` is torch's ``utils.data.dataloader``.

    Batches of all loaders come out of one method: whether a loader has workers shows in how long that takes.
    """
    patches = Patches("torch.utils.data")
    marks: dict[tuple[Any, ...], span] = {}

    def wrap(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __next__(iterator: Any) -> Any:
            if session.core is None:
                return inner(iterator)
            waiting = _mark(iterator, marks, patches).again(False)
            waiting.__enter__()
            try:
                batch = inner(iterator)
            except BaseException:
                waiting.end()
                raise
            _end(waiting, iterator)
            for listener in _listeners:
                listener()
            return batch

        return __next__

    patches.wrap(getattr(module, "_BaseDataLoaderIter", None), "__next__", wrap, "waits for data")


def _end(waiting: span, iterator: Any) -> None:
    """A batch is there: which one, as its loader numbers them."""
    handed_out = getattr(iterator, "_rcvd_idx", getattr(iterator, "_num_yielded", None))
    if isinstance(handed_out, int):
        waiting.end(batch=handed_out - 1)
    else:
        waiting.end()


def _mark(iterator: Any, marks: dict[tuple[Any, ...], span], patches: Patches) -> span:
    """The span of all iterators alike, which is entered again and again; of what it does not know, a bare one."""
    try:
        workers = iterator._num_workers
        each_epoch = int(workers > 0 and not getattr(iterator, "_persistent_workers", True))
        key = type(iterator._dataset), workers, getattr(iterator, "_prefetch_factor", None) or 0, each_epoch
        mark = marks.get(key)
        if mark is None:
            ahead = workers * key[2]
            more = {"each_epoch": each_epoch} if each_epoch else {}
            mark = marks[key] = span(NAME, "data", None, dataset=key[0].__name__, workers=workers, ahead=ahead, **more)
        return mark
    except Exception as failure:
        patches.failed("dataset and workers of a DataLoader are not recorded", failure)
        return span(NAME, "data")
