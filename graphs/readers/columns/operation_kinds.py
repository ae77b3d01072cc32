"""Which operations are collectives, and which are the two ends of a message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scalana.runtime.operations import OPERATIONS, Waits

COLLECTIVE, SEND, RECEIVE = 1, 2, 3


def _kinds() -> npt.NDArray[np.int8]:
    """Whether an operation code is a collective, a send or a receive; 0 for what meets nobody."""
    kinds = np.zeros(max(row.code for row in OPERATIONS) + 1, np.int8)
    for row in OPERATIONS:
        if row.waits in (Waits.ALL, Waits.ROOT, Waits.AT_ROOT, Waits.LOWER, Waits.NEIGHBOURS):
            kinds[row.code] = COLLECTIVE
        elif row.name.endswith("send"):
            kinds[row.code] = SEND
        elif row.waits == Waits.SENDER and "probe" not in row.name:
            kinds[row.code] = RECEIVE
    return kinds


KINDS = _kinds()
