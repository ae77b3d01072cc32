"""Record the runs of Python's garbage collector, as spans of the type ``collection``.

The callback is one of C (``_core/module/collections.c``), which costs nothing while nothing is collected. Runs of less
than 1 ms are counted only: the meta entry ``collections`` has the number of all runs, their ns, and both again for
those that are spans.
"""

from __future__ import annotations

import gc

from scalana.runtime import session

_watched = False


def watch() -> None:
    """See collections from now on, in every recording of this process; also where the program removes all callbacks."""
    global _watched
    if session.core is None:
        return
    try:
        session.core.watch_collections(gc.callbacks)
    except Exception as failure:
        session.note(f"collections of garbage are not recorded: {failure!r}")
        return
    if not _watched:
        _watched = True
        session.when_started(watch)
        session.when_stopping(_count)


def _count() -> None:
    session.core.collections()
