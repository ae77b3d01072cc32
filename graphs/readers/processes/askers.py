"""Processes that talk to each other by requests: they take part in a run if they find each other in it.

A process may ask servers that are none of the run's, as loaders of data and downloads do, and a server may be asked by
others. That makes neither one to be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.graphs.arrays.types import IntArray
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import ProcessRecord

REQUESTS = _SUBMIT, _TAKE = BY_NAME["submit"].code, BY_NAME["take"].code
"""Operations by which it is told who asks whom."""
ROLE = ("role", "part", "part_source", "takes_part_by")
"""What records tell of the roles of their processes."""
_SERVER = "server"
_WEAK = ("", "recorder")
"""Sources of the role of a process that one by what it serves is stronger than."""


def let_askers_take_part(records: Sequence[ProcessRecord]) -> None:
    """Give those whose requests another process of the run took, or that took another one's, the role that they have
    said they have then; ranks and launchers stay what they are."""
    asking = [record for record in records if record.meta.get("asks")]
    if len(asking) < 2:
        return
    submitted, submitter = _ids(asking, _SUBMIT)
    taken, taker = _ids(asking, _TAKE)
    _, first, second = np.intersect1d(submitted, taken, return_indices=True)
    apart = submitter[first] != taker[second]
    for row in np.union1d(submitter[first][apart], taker[second][apart]).tolist():
        _let_take_part(asking[row])


def _let_take_part(record: ProcessRecord) -> None:
    meta, role = record.meta, record.meta["asks"]
    if meta.get("role") not in (None, "process", "child", "spare", "member"):
        return
    if "part" not in meta or (role == _SERVER and meta.get("part_source", "") in _WEAK):
        meta["part"], meta["part_source"] = role, "framework" if role == _SERVER else "recorder"
    meta["role"], meta["takes_part_by"] = "member", "calls"


def _ids(records: Sequence[ProcessRecord], operation: int) -> tuple[IntArray, IntArray]:
    """Ids of all events of an operation, and whose they are: a row of the records; each ``[events]``."""
    found = []
    for record in records:
        events = record.events
        rows = np.asarray(events.operation) == operation if len(events) else np.zeros(0, np.bool_)
        found.append(np.asarray(events.seq)[rows].astype(np.int64) if len(events) else np.zeros(0, np.int64))
    rows_of = np.repeat(np.arange(len(records)), [len(ids) for ids in found])
    return np.concatenate([np.zeros(0, np.int64), *found]), rows_of
