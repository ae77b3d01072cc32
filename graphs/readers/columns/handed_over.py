"""Remote calls between hosts, as messages of which both ends are known: clocks are aligned by them."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.graphs.readers.folder.records import Events
from scalana.runtime.operations import BY_NAME

_WAYS = (("submit", "take"), ("reply", "result"), ("put", "get"))
"""What hands over, and what takes that."""


def handed_between(events: Events, host: IntArray) -> IntArray:
    """What processes of one host handed to those of another: from which host, to which, when it was handed over by the
    clock of the one, and when it had come by the other's, in ns ``[4, messages]``. ``host`` is that of every process
    ``[processes]``. What was handed over several times under one id is left out."""
    found = [np.zeros((4, 0), np.int64)]
    known = events.seq > 0
    for gives, takes in _WAYS:
        given, taken = (np.flatnonzero(known & (events.operation == BY_NAME[name].code)) for name in (gives, takes))
        ids, first, count = np.unique(events.seq[given], return_index=True, return_counts=True)
        if not len(ids) or not len(taken):
            continue
        at = np.minimum(np.searchsorted(ids, events.seq[taken]), len(ids) - 1)
        match = (ids[at] == events.seq[taken]) & (count[at] == 1)
        taken, given = taken[match], given[first[at[match]]]
        source, target = host[events.process[given]], host[events.process[taken]]
        apart = source != target
        rows = (source, target, events.enter_ns[given].astype(np.int64), events.exit_ns[taken].astype(np.int64))
        found.append(np.stack([row[apart] for row in rows]))
    return np.concatenate(found, axis=1)
