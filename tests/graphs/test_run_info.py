"""What a run's description warns of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scalana.graphs.run_info import _unseen


def unseen(*path: str) -> list[str]:
    """What is said of a job in which one call path was seen, by the files of its frames."""
    codes = [(None, "<lost>"), *((None, file) for file in path)]
    number = np.arange(len(codes))
    tree = SimpleNamespace(codes=codes, parent=np.maximum(number - 1, 0), code=number)
    return _unseen(cast(Any, SimpleNamespace(tree=tree)))


def test_a_library_that_communicates_by_itself_is_told_where_it_is_used_and_not_where_it_is_imported() -> None:
    rpc = "/site-packages/torch/distributed/rpc/api.py"
    (told,) = unseen("/job/train.py", rpc)
    assert "torch.distributed.rpc" in told
    assert unseen("/job/train.py", "<frozen importlib._bootstrap>", rpc) == []
    assert unseen("/job/train.py") == []
