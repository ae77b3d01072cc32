"""Where hosts wait for their devices, as in ``tensor.item()``: the device is busy then, and does not wait for them."""

from __future__ import annotations

import re

import numpy as np

from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.spans.host import HostActivity
from scalana.graphs.structure.psg import PSG

_WAITS = re.compile(
    r"[Ss]ynchronize|Memcpy|aten::item|_local_scalar_dense|aten::nonzero|aten::is_nonzero"
    r"|\b(?:item|tolist|cpu|numpy|nonzero)\("
)
"""In names of calls of a device's runtime, of operators, and of functions of the program, and in lines of it."""
_COPIES = re.compile(r"\.(?:to|cuda)\((?!.*non_blocking=True)")
"""The same of copies to a device: from memory that is not pinned they wait until it has done what came before."""


def copies_by_name(text: str) -> bool:
    """Whether what is called so copies to a device, and may wait for it."""
    return _COPIES.search(text) is not None


def waits_by_name(text: str) -> bool:
    """Whether what is called so waits for a device."""
    return _WAITS.search(text) is not None or copies_by_name(text)


def waits_at(vertex: int, psg: PSG) -> bool:
    """Whether a thread waits for a device at a vertex."""
    function = psg.function_of(vertex)
    return waits_by_name(psg[vertex].place.name or function) or waits_by_name(f".{function}(")


def copies_at(vertex: int, psg: PSG) -> bool:
    """Whether a thread copies to a device at a vertex, and may wait for it."""
    return copies_by_name(psg[vertex].place.name) or copies_by_name(f".{psg.function_of(vertex)}(")


def stretches_of_waiting(host: HostActivity, psg: PSG) -> BoolArray:
    """In which stretches of what threads did the first thread of a rank waits for its device ``[stretches]``."""
    if not len(host):
        return np.zeros(0, np.bool_)
    first = np.full(int(host.rank.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, host.rank, host.thread)
    places, at = np.unique(host.vertex, return_inverse=True)
    waits = np.array([waits_at(vertex, psg) for vertex in places.tolist()], np.bool_)
    return np.asarray(waits[at.reshape(-1)] & (host.thread == first[host.rank]))
