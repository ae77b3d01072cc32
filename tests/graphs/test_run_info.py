"""What a run's description warns of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scalana.graphs.run_info import _lacking, _unseen
from scalana.runtime.operations import BY_NAME


def unseen(*path: str) -> list[str]:
    """What is said of a job in which one call path was seen, by the files of its frames."""
    codes = [(None, "<lost>"), *((None, file) for file in path)]
    number = np.arange(len(codes))
    tree = SimpleNamespace(codes=codes, parent=np.maximum(number - 1, 0), code=number)
    return _unseen(cast(Any, SimpleNamespace(tree=tree)))


def test_a_library_that_communicates_by_itself_is_told_where_it_is_used_and_not_where_it_is_imported() -> None:
    api = "/site-packages/horovod/torch/mpi_ops.py"
    (told,) = unseen("/job/train.py", api)
    assert "Horovod" in told
    assert unseen("/job/train.py", "<frozen importlib._bootstrap>", api) == []
    assert unseen("/job/train.py") == []


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
