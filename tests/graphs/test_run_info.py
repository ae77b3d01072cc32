"""What a run's description warns of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scalana.graphs.run_info import _lacking
from scalana.runtime.operations import BY_NAME


def test_a_receive_that_was_withdrawn_lacks_nobody() -> None:
    """One that was completed does, without its sender, and so does a collective that one rank was alone in. The end of
    MPI does not, which records of Python do not reach."""
    receive, reduction, end = (BY_NAME[name].code for name in ("recv", "allreduce", "finalize"))
    instances = SimpleNamespace(
        operation=np.array([receive, receive, reduction, receive, end]),
        complete=np.array([False, False, False, True, False]),
    )
    calls = SimpleNamespace(waits=np.array([1, 3]))
    assert _lacking(cast(Any, SimpleNamespace(instances=instances, calls=calls))) == 2
